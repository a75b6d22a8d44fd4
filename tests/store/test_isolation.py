"""Two subjects never meet: not through the store, not through SQL, not through a pooled connection.

Row-level security is the second wall, so most tests here go around the first and speak SQL as the service's role.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from deployments.ledger.budget import Budgets
from deployments.ledger.database import LedgerDatabase
from memory_store import sql
from memory_store import store as store_module
from memory_store.entry import Draft, Entry, EntryId, Source
from memory_store.errors import EntryConflict, MemoryFull
from memory_store.recall import Caps
from memory_store.store import Change, MemoryStore
from tests.conftest import Database

ANA, BEN = "key|ana", "key|ben"
EAST, NORTH = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)
ALL = Caps(floor=-1, entries=20, tokens=100_000)
TEXTS = ("Likes tea.", "Lives in Zagreb.", "Writes Python.")
SERVICES = ("recall_memory", "recall_ledger", "recall_maintenance")

ALIKE = {  # M07, T12: exact bytes, no folding, no patterns, no separators
    "plain": "a",
    "separator": "a:b",
    "bar": "a|b",
    "percent": "a%",
    "underscore": "a_",
    "upper": "A",
    "trailing-space": "a ",
    "leading-space": " a",
    "star": "*",
    "long": "a" * 200,
    "long-and-one": "a" * 201,
    "quote": "a'; delete from memory.entries; --",
    "nfc": "caf\u00e9",
    "nfd": "cafe\u0301",
    "full-width": "\uff41",
    "ligature": "\ufb01",
    "ligature-folded": "fi",
    "kelvin": "\u212a",
    "kelvin-folded": "K",
    "kelvin-lower": "k",
    "dotted-i": "\u0130",
    "i": "i",
    "zero-width": "a\u200b",
}


@pytest.fixture(params=["recall_memory", "recall_maintenance"], ids=["both-walls", "first-wall-alone"])
async def store(database: Database, request: pytest.FixtureRequest) -> MemoryStore:
    """As the service has it; and as a role that row security lets through, so that the queries must hold by themselves."""
    return MemoryStore(await database.pool(role=request.param), "m", 3, 10_000)


@pytest.fixture
async def plain_store(database: Database) -> MemoryStore:
    return await database.store(3)


@pytest.fixture
async def twins(plain_store: MemoryStore) -> dict[str, list[Entry]]:
    """Two subjects that keep the same texts."""
    return {subject: [await keep(plain_store, subject, text) for text in TEXTS] for subject in (ANA, BEN)}


async def keep(store: MemoryStore, subject: str, text: str) -> Entry:
    kept = await store.keep(subject, Draft("fact", text, Source("person", "test")), EAST)
    assert not kept.existed, "another subject's twin is no duplicate"
    return kept.entry


async def everything(database: Database, subject: str) -> list[tuple[object, ...]]:
    """All rows of a subject, past every wall."""
    entries = await database.rows("select * from memory.entries where subject = $1 order by id", subject)
    vectors = await database.rows(
        "select *, vector::text from memory.entry_vectors where subject = $1 order by entry", subject
    )
    return [tuple(map(str, row.values())) for row in (*entries, *vectors)]


@asynccontextmanager
async def acting(database: Database, subject: str | None) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A transaction as the memory service's role, with the subject set or not."""
    async with database.connection("recall_memory") as connection, connection.transaction():
        if subject is not None:
            await connection.execute("select set_config('recall.subject', $1, true)", subject)
        yield connection


# Through the store -------------------------------------------------------------------------------------------------


async def test_every_way_to_read_gives_only_my_rows(store: MemoryStore, twins: dict[str, list[Entry]]) -> None:
    """M02."""
    for subject, mine in twins.items():
        newest_first = sorted(mine, key=lambda entry: entry.id, reverse=True)
        assert await store.page(subject, None, None, 100) == newest_first
        assert await store.page(subject, "fact", None, 100) == newest_first
        assert [one.entry for one in (await store.recall(subject, EAST, ALL)).shown] == newest_first
        assert [await store.get(subject, entry.id) for entry in mine] == mine


FORMS = {
    "as-it-is": str,
    "upper-case": str.upper,
    "braces": "{{{}}}".format,
    "list": "['{}']".format,
    "trailing-space": "{} ".format,
    "prefix": lambda one: one[:-1],
    "wildcard": lambda one: f"{one[:-4]}%",
    "underscores": lambda one: f"{one[:-4]}____",
    "everything": lambda one: "%",
    "empty": lambda one: "",
    "other-subject-in-front": f"{BEN}/{{}}".format,
    "sql": "' or id = '{}".format,
    "nul": "{}\x00".format,
    "lone-surrogate": "{}\ud800".format,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
async def test_another_subjects_id_is_like_no_id_at_all(
    database: Database, store: MemoryStore, twins: dict[str, list[Entry]], form: object
) -> None:
    """M01: read, correct and forget in every spelling of the id."""
    assert callable(form)
    before = await everything(database, BEN)
    for entry in (EntryId(form(twins[BEN][0].id)), EntryId(form("m_" + "0" * 28))):
        assert await store.get(ANA, entry) is None
        assert await store.correct(ANA, entry, Change("taken over"), NORTH) is None
        assert await store.forget(ANA, entry) is False
    assert await everything(database, BEN) == before


async def test_another_subjects_id_is_only_a_place_in_time_as_a_cursor(
    store: MemoryStore, twins: dict[str, list[Entry]]
) -> None:
    """M01: list."""
    page = await store.page(ANA, None, twins[BEN][-1].id, 100)
    assert {entry.id for entry in page} == {entry.id for entry in twins[ANA]}


async def test_another_subjects_twin_is_no_conflict(store: MemoryStore, twins: dict[str, list[Entry]]) -> None:
    await store.forget(ANA, twins[ANA][0].id)
    corrected = await store.correct(ANA, twins[ANA][1].id, Change(TEXTS[0]), EAST)
    assert corrected is not None and corrected.entry.text == TEXTS[0]
    with pytest.raises(EntryConflict) as refused:
        await store.correct(ANA, twins[ANA][2].id, Change(TEXTS[0]), EAST)
    assert refused.value.other == twins[ANA][1].id


async def test_forgetting_all_of_one_leaves_the_other_untouched(
    database: Database, store: MemoryStore, twins: dict[str, list[Entry]]
) -> None:
    """M03: delete-all of one user wiped everybody."""
    before = await everything(database, BEN)
    assert len(before) == 2 * len(TEXTS)
    assert [await store.forget(ANA, entry.id) for entry in twins[ANA]] == [True] * len(TEXTS)
    assert await everything(database, ANA) == []
    assert await everything(database, BEN) == before
    assert len((await store.recall(BEN, EAST, ALL)).shown) == len(TEXTS)


@pytest.fixture
async def crowd(plain_store: MemoryStore) -> dict[str, Entry]:
    """Every subject of `ALIKE` keeps the same text."""
    return {subject: await keep(plain_store, subject, TEXTS[0]) for subject in ALIKE.values()}


async def test_subjects_that_look_alike_are_separate(
    database: Database, store: MemoryStore, crowd: dict[str, Entry]
) -> None:
    """M07, T12."""
    for subject, entry in crowd.items():
        assert await store.page(subject, None, None, 100) == [entry]
        assert [one.entry for one in (await store.recall(subject, EAST, ALL)).shown] == [entry]
        async with acting(database, subject) as connection:
            assert await connection.fetchval("select array_agg(id) from memory.entries") == [entry.id]
            assert await connection.fetchval("select array_agg(entry) from memory.entry_vectors") == [entry.id]


async def test_forgetting_of_one_that_looks_alike_forgets_only_that(
    database: Database, store: MemoryStore, crowd: dict[str, Entry]
) -> None:
    """M03, M07."""
    for gone, (subject, entry) in enumerate(crowd.items(), 1):
        assert await store.forget(subject, entry.id)
        assert await everything(database, subject) == []
        assert await database.value("select count(*) from memory.entries") == len(crowd) - gone
        assert await database.value("select count(*) from memory.entry_vectors") == len(crowd) - gone


async def test_subjects_that_look_alike_have_budgets_of_their_own(ledger: LedgerDatabase) -> None:
    """M07, T12."""
    budgets = Budgets(ledger)
    for place, subject in enumerate(ALIKE.values(), 1):
        await budgets.settle(await budgets.reserve(subject, place, 1000, timedelta(seconds=60)), place)
    used = [(await budgets.usage(subject, 1000)).used for subject in ALIKE.values()]
    assert used == list(range(1, len(ALIKE) + 1))


# Through SQL, as the memory service's role -------------------------------------------------------------------------

WHO = {
    "nobody": None,
    "another": ANA,
    "a-prefix": BEN[:-1],
    "a-pattern": "key|%",
    "empty": "",
    "upper-case": BEN.upper(),
}
TABLES = ("memory.entries", "memory.entry_vectors")


@pytest.mark.parametrize("who", WHO.values(), ids=WHO.keys())
async def test_sql_without_the_subject_reads_none_of_its_rows(
    database: Database, twins: dict[str, list[Entry]], who: str | None
) -> None:
    """M06."""
    async with acting(database, who) as connection:
        for table in TABLES:
            assert await connection.fetch(f"select * from {table} where subject = $1", BEN) == []
            expected = len(TEXTS) if who == ANA else 0
            assert await connection.fetchval(f"select count(*) from {table}") == expected


@pytest.mark.parametrize("who", WHO.values(), ids=WHO.keys())
async def test_sql_without_the_subject_changes_none_of_its_rows(
    database: Database, twins: dict[str, list[Entry]], who: str | None
) -> None:
    """M06."""
    before = await everything(database, BEN)
    async with acting(database, who) as connection:
        for table in TABLES:
            assert (
                await connection.execute(f"update {table} set subject = subject where subject = $1", BEN) == "UPDATE 0"
            )
            assert await connection.execute(f"delete from {table} where subject = $1", BEN) == "DELETE 0"
        await connection.execute("delete from memory.entries")
    assert await everything(database, BEN) == before


SMUGGLED = {
    "insert": "insert into memory.entries (subject, id, kind, text, folded_sha256, source)"
    " values ($1, 'm_x', 'fact', 'planted', 'x', '{}')",
    "upsert": "insert into memory.entries (subject, id, kind, text, folded_sha256, source)"
    " select $1, $2, 'fact', 'planted', 'x', '{}' on conflict (subject, id) do update set text = 'planted'",
    "vector": "insert into memory.entry_vectors (subject, model, entry, vector) values ($1, 'other', $2, '[1,0,0]')",
    "hand-over": "update memory.entries set subject = $1",
    "hand-over-of-a-vector": "update memory.entry_vectors set subject = $1, entry = $2",
    "merge": "merge into memory.entries e using (select $1::text as subject, $2::text as id) n"
    " on e.subject = n.subject and e.id = n.id when matched then delete"
    " when not matched then insert (subject, id, kind, text, folded_sha256, source)"
    " values (n.subject, n.id, 'fact', 'planted', 'x', '{}')",
}


@pytest.mark.parametrize("statement", SMUGGLED.values(), ids=SMUGGLED.keys())
@pytest.mark.parametrize("who", [None, ANA], ids=["nobody", "another"])
async def test_sql_writes_no_row_for_another_subject(
    database: Database, twins: dict[str, list[Entry]], who: str | None, statement: str
) -> None:
    """M06, behaviour 5: as someone else it is refused; as nobody there is also nothing of one's own to hand over."""
    before = await everything(database, BEN)
    arguments = [BEN, twins[BEN][0].id][: 2 if "$2" in statement else 1]
    async with database.connection("recall_memory") as connection:
        await connection.execute("select set_config('recall.subject', $1, false)", who or "")
        if who is None and statement.startswith("update"):
            assert await connection.execute(statement, *arguments) == "UPDATE 0"
        else:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement, *arguments)
    assert await everything(database, BEN) == before


async def test_a_vector_cannot_hang_on_another_subjects_entry(
    database: Database, twins: dict[str, list[Entry]]
) -> None:
    async with acting(database, ANA) as connection:
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            await connection.execute(
                "insert into memory.entry_vectors (subject, model, entry, vector) values ($1, 'm', $2, '[1,0,0]')",
                ANA,
                twins[BEN][0].id,
            )


async def test_no_row_can_belong_to_the_empty_subject(database: Database) -> None:
    """M07: a pooled connection whose transaction is over has the empty subject, so such a row would be everyone's."""
    async with acting(database, "") as connection:
        with pytest.raises(asyncpg.PostgresError):
            await connection.execute(
                "insert into memory.entries (subject, id, kind, text, folded_sha256, source)"
                " values ('', 'm_x', 'fact', 'nobody''s', 'x', '{}')"
            )


# Over one pooled connection ----------------------------------------------------------------------------------------


@pytest.fixture
async def one_connection(database: Database, twins: dict[str, list[Entry]]) -> asyncpg.Pool[asyncpg.Record]:
    """A pool of one connection, so that every use is a reuse."""
    return await database.pool(1)


async def carries_nothing(pool: asyncpg.Pool[asyncpg.Record]) -> bool:
    async with pool.acquire() as connection:
        subject = await connection.fetchval("select current_setting('recall.subject', true)")
        rows = await connection.fetchval("select count(*) from memory.entries")
    return not subject and rows == 0


async def test_a_pooled_connection_carries_no_subject_over(
    one_connection: asyncpg.Pool[asyncpg.Record], twins: dict[str, list[Entry]]
) -> None:
    """M06."""
    store = MemoryStore(one_connection, "m", 3, len(TEXTS))
    draft = Draft("fact", "one more", Source("person", "test"))
    assert await store.page(ANA, None, None, 100)
    assert await carries_nothing(one_connection)
    with pytest.raises(MemoryFull):
        await store.keep(ANA, draft, EAST)
    assert await carries_nothing(one_connection)
    leaving = asyncio.create_task(store.recall(ANA, EAST, ALL))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    assert await carries_nothing(one_connection)
    assert await store.page(BEN, None, None, 100) == sorted(twins[BEN], key=lambda entry: entry.id, reverse=True)


async def test_the_subject_ends_with_its_transaction(database: Database, twins: dict[str, list[Entry]]) -> None:
    """M06: by the store's own statement, without a pool that resets what was set."""
    act_as = sql.load(Path(store_module.__file__).with_name("queries.sql"))["act_as"]
    async with database.connection("recall_memory") as connection:
        async with connection.transaction():
            await connection.execute(act_as, ANA)
            assert await connection.fetchval("select count(*) from memory.entries") == len(TEXTS)
        assert await connection.fetchval("select count(*) from memory.entries") == 0


async def test_a_subject_set_for_the_session_does_not_outlive_its_use(
    one_connection: asyncpg.Pool[asyncpg.Record],
) -> None:
    """M06: even if someone wrote SET where SET LOCAL belongs."""
    async with one_connection.acquire() as connection:
        await connection.execute(f"set recall.subject = '{ANA}'")
        assert await connection.fetchval("select count(*) from memory.entries") == len(TEXTS)
    assert await carries_nothing(one_connection)


async def test_many_subjects_over_few_connections_never_mix(database: Database, crowd: dict[str, Entry]) -> None:
    store = await database.store(3, size=2)
    subjects = list(crowd) * 5
    pages = await asyncio.gather(*(store.page(subject, None, None, 10) for subject in subjects))
    assert [[crowd[subject]] for subject in subjects] == pages


# Roles -------------------------------------------------------------------------------------------------------------


async def tables_in(database: Database, *schemas: str) -> list[str]:
    rows = await database.rows(
        "select schemaname || '.' || tablename as name from pg_tables where schemaname = any($1) order by 1", schemas
    )
    assert rows
    return [row["name"] for row in rows]


@pytest.mark.parametrize(
    ("role", "schema"), [("recall_memory", "ledger"), ("recall_ledger", "memory")], ids=["memory", "ledger"]
)
async def test_no_service_reads_the_others_schema(database: Database, role: str, schema: str) -> None:
    tables = await tables_in(database, schema)
    async with database.connection(role) as connection:
        for table in tables:
            for statement in (f"select * from {table}", f"delete from {table}", f"table {table}"):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await connection.execute(statement)


async def test_the_sweeper_cannot_read_keys(database: Database) -> None:
    async with database.connection("recall_maintenance") as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("select id from ledger.keys")


@pytest.mark.parametrize("role", SERVICES)
async def test_a_service_owns_nothing_and_passes_no_wall(database: Database, role: str) -> None:
    """M06: no table owner, no BYPASSRLS, and no way to become one who is."""
    (able,) = await database.rows(
        "select rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication from pg_roles where rolname = $1",
        role,
    )
    assert not any(able.values())
    members = await database.rows(
        "select roleid::regrole::text as of from pg_auth_members where member = $1::regrole", role
    )
    allowed = {"pg_read_all_stats", "pg_checkpoint"} if role == "recall_maintenance" else set()
    assert {row["of"] for row in members} == allowed, "what a scrub needs, and nothing that reads or writes tables"
    assert await database.value("select count(*) from pg_class where relowner = $1::regrole", role) == 0
    assert await database.value("select count(*) from pg_proc where proowner = $1::regrole", role) == 0
    assert await database.value("select count(*) from pg_namespace where nspowner = $1::regrole", role) == 0
    assert await database.value("select count(*) from pg_database where datdba = $1::regrole", role) == 0


FORBIDDEN = (
    "alter table memory.entries disable row level security",
    "alter table memory.entries no force row level security",
    "create policy mine on memory.entries using (true)",
    "drop policy own_entries on memory.entries",
    "truncate memory.entries cascade",
    "create table memory.copy as select 1",
    "create table public.copy as select 1",
    "create table ledger.copy as select 1",
    "set role recall_owner",
    "set role recall_maintenance",
    "set session authorization recall_owner",
    "copy (select 1) to program 'true'",
    "select pg_read_file('postgresql.conf')",
)


@pytest.mark.parametrize("statement", FORBIDDEN)
async def test_the_memory_services_role_cannot_take_the_wall_down(database: Database, statement: str) -> None:
    async with database.connection("recall_memory") as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)


async def tables_with_a_subject(database: Database) -> list[str]:
    """The tables of memory that hold anything of anyone; the others hold names of models and days."""
    rows = await database.rows(
        "select format('%I.%I', table_schema, table_name) as name from information_schema.columns"
        " where table_schema = 'memory' and column_name = 'subject'"
    )
    return [row["name"] for row in rows]


async def test_row_security_is_forced_on_every_table_with_a_subject(
    database: Database, twins: dict[str, list[Entry]]
) -> None:
    """M06: it holds for the owner of the tables too."""
    tables = await tables_with_a_subject(database)
    assert set(TABLES) <= set(tables)
    for table in tables:
        (state,) = await database.rows(
            "select relrowsecurity, relforcerowsecurity from pg_class where oid = $1::text::regclass", table
        )
        assert all(state.values()), table
        async with database.connection("recall_owner") as connection:
            assert await connection.fetchval(f"select count(*) from {table}") == 0, table
