"""Migrations and `schema.sql` give one database; migrations run once each, in order, and refuse what they do not know."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from memory_store import migrate as migrations
from memory_store.bootstrap import bootstrap
from memory_store.embedded import EmbeddedPostgres
from memory_store.errors import SchemaMismatch
from memory_store.migrate import migrate
from tests.conftest import PASSWORDS, Database
from tests.store.catalogue import describe

SCHEMA = Path(migrations.__file__).with_name("schema.sql")
EVERY_MIGRATION = sorted(path.name for path in migrations.FOLDER.glob("*.sql"))
ADDED = "create table ledger.added (id text primary key)"


@pytest.fixture
def database(clone: Database) -> Database:
    """These tests change the schema."""
    return clone


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The migrations in a folder of the test's own."""
    copy = shutil.copytree(migrations.FOLDER, tmp_path / "migrations")
    monkeypatch.setattr(migrations, "FOLDER", copy)
    return copy


@asynccontextmanager
async def new_database(
    postgres: EmbeddedPostgres, superuser: asyncpg.Connection[asyncpg.Record]
) -> AsyncIterator[Database]:
    one = Database(postgres, f"t_{secrets.token_hex(6)}")
    try:
        yield one
    finally:
        await superuser.execute(f"drop database if exists {one.name} with (force)")


@pytest.fixture
async def absent(postgres: EmbeddedPostgres, superuser: asyncpg.Connection[asyncpg.Record]) -> AsyncIterator[Database]:
    """A database that does not exist yet."""
    async with new_database(postgres, superuser) as one:
        yield one


@pytest.fixture
async def empty(absent: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Database:
    """A database as it is before the first migration."""
    with monkeypatch.context() as without:
        without.setattr(migrations, "FOLDER", tmp_path / "no-migrations")
        assert await bootstrap(absent.connect("postgres"), PASSWORDS, absent.name) == []
    return absent


async def catalogue(database: Database) -> set[str]:
    async with database.connection() as connection:
        return await describe(connection)


async def as_owner(database: Database, statements: str) -> None:
    async with database.connection("recall_owner") as connection:
        await connection.execute(statements)


async def migrated(database: Database) -> list[str]:
    async with database.connection("recall_owner") as connection:
        return await migrate(connection)


async def test_migrations_and_schema_sql_give_the_same_database(database: Database, empty: Database) -> None:
    await as_owner(empty, SCHEMA.read_text(encoding="utf-8"))
    assert sorted(await catalogue(empty) ^ await catalogue(database)) == []


DIFFERENCES = {
    "table": "create table memory.more (id text)",
    "type": "alter table ledger.turns alter column subject type varchar(40)",
    "default": "alter table ledger.days alter column used set default 1",
    "not null": "alter table ledger.tool_calls alter column host set not null",
    "order of columns": "alter table ledger.tool_calls drop column host, drop column page_bytes,"
    " add page_bytes integer, add host text",
    "constraint": "alter table ledger.days drop constraint days_used_check",
    "foreign key": "alter table memory.entry_vectors drop constraint entry_vectors_subject_entry_fkey",
    "index": "drop index ledger.turns_subject",
    "policy": "alter policy own_entries on memory.entries using (true)",
    "policy's role": "alter policy every_entry on memory.entries to recall_maintenance, recall_ledger",
    "row security": "alter table memory.entries disable row level security",
    "forced row security": "alter table memory.entry_vectors no force row level security",
    "grant on a table": "grant truncate on memory.entries to recall_memory",
    "grant on a column": "grant select (id) on ledger.keys to recall_maintenance",
    "grant on a schema": "grant usage on schema ledger to recall_memory",
    "storage": "alter table memory.entry_vectors alter column vector set storage extended",
    "statistics target": "alter table memory.entries alter column text set statistics -1",
    "function": "create function memory.f() returns int language sql security definer as 'select 1'",
}


@pytest.mark.parametrize("statement", DIFFERENCES.values(), ids=DIFFERENCES.keys())
async def test_the_comparison_sees_each_kind_of_difference(database: Database, statement: str) -> None:
    before = await catalogue(database)
    await as_owner(database, statement)
    assert await catalogue(database) != before


async def test_a_column_that_was_dropped_leaves_no_trace_in_the_comparison(database: Database) -> None:
    before = await catalogue(database)
    await as_owner(database, "alter table ledger.tool_calls drop column page_bytes, add page_bytes integer")
    assert await catalogue(database) == before


async def test_the_first_start_runs_every_migration_in_order(absent: Database) -> None:
    assert await bootstrap(absent.connect("postgres"), PASSWORDS, absent.name) == EVERY_MIGRATION
    rows = await absent.rows("select name, sha256 from public.migrations order by name")
    assert [tuple(row) for row in rows] == [
        (name, hashlib.sha256((migrations.FOLDER / name).read_bytes()).hexdigest()) for name in EVERY_MIGRATION
    ]


async def test_a_second_start_changes_nothing(database: Database) -> None:
    async def everything() -> tuple[set[str], list[tuple[object, ...]]]:
        return await catalogue(database), [
            tuple(row) for row in await database.rows("select * from public.migrations order by name")
        ]

    before = await everything()
    assert await bootstrap(database.connect("postgres"), PASSWORDS, database.name) == []
    assert await everything() == before


async def test_of_several_migrations_at_once_each_runs_once(empty: Database) -> None:
    ran = await asyncio.gather(*(migrated(empty) for _ in range(4)))
    assert sorted(ran) == [[], [], [], EVERY_MIGRATION]


async def test_two_starts_at_once_both_end_well(absent: Database) -> None:
    ran = await asyncio.gather(*(bootstrap(absent.connect("postgres"), PASSWORDS, absent.name) for _ in range(2)))
    assert sorted(ran) == [[], EVERY_MIGRATION]


async def test_a_new_migration_runs_alone(database: Database, folder: Path) -> None:
    (folder / "9000_added.sql").write_text(ADDED)
    assert await migrated(database) == ["9000_added.sql"]
    assert await database.value("select count(*) from ledger.added") == 0


async def test_a_migration_that_fails_leaves_nothing_behind(database: Database, folder: Path) -> None:
    before = await catalogue(database)
    (folder / "9000_added.sql").write_text(ADDED)
    (folder / "9001_broken.sql").write_text("create table ledger.added (id text)")
    with pytest.raises(asyncpg.DuplicateTableError):
        await migrated(database)
    assert await catalogue(database) == before
    assert await database.value("select count(*) from public.migrations where name like '9%'") == 0


async def test_a_newer_database_than_the_code_is_refused_untouched(database: Database, folder: Path) -> None:
    await as_owner(database, "insert into public.migrations (name, sha256) values ('9999_from_the_future.sql', 'x')")
    (folder / "9000_added.sql").write_text(ADDED)
    before = await catalogue(database)
    with pytest.raises(SchemaMismatch, match=r"9999_from_the_future\.sql"):
        await migrated(database)
    assert await catalogue(database) == before


async def test_a_migration_that_was_edited_after_it_ran_is_refused(database: Database, folder: Path) -> None:
    with (folder / EVERY_MIGRATION[0]).open("a") as file:
        file.write("-- a second thought\n")
    (folder / "9000_added.sql").write_text(ADDED)
    before = await catalogue(database)
    with pytest.raises(SchemaMismatch, match=EVERY_MIGRATION[0]):
        await migrated(database)
    assert await catalogue(database) == before


async def test_only_our_roles_may_connect(absent: Database, superuser: asyncpg.Connection[asyncpg.Record]) -> None:
    await bootstrap(absent.connect("postgres"), PASSWORDS, absent.name)
    await superuser.execute("create role stranger login password 'stranger'")
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await asyncpg.connect(**{**absent.connect("postgres"), "user": "stranger", "password": "stranger"})
    finally:
        await superuser.execute("drop role stranger")
