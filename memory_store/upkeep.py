"""What time leaves behind: entries that have expired, and deleted texts that still lie in the files.

Postgres marks a deleted row and leaves its bytes where they are; a vacuum lets them be overwritten some day. Only a rewrite
of the table removes them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg
from pgvector.asyncpg import register_vector

from memory_store import sql
from memory_store.connect import AWAY
from memory_store.errors import ScrubBlocked, StoreUnavailable

SQL = sql.load(Path(__file__).with_name("maintenance.sql"))
_TABLES = ("entries", "entry_vectors")
_AGAIN_SECONDS = 0.2

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"


@dataclass(frozen=True)
class Scrubbed:
    """What a scrub did to the tables and their indexes, in bytes."""

    bytes_before: int
    bytes_after: int


@asynccontextmanager
async def connected(connect: dict[str, Any]) -> AsyncIterator[asyncpg.Connection]:
    """A connection of recall_maintenance; `connect` holds keyword arguments of `asyncpg.connect`.

    Raises StoreUnavailable, also for what goes wrong inside the block.
    """
    try:
        connection = await asyncpg.connect(**connect)
        try:
            await register_vector(connection)
            yield connection
        finally:
            await connection.close()
    except AWAY as error:
        raise StoreUnavailable("the database does not answer; start the service with `make up` first") from error


async def expire(connection: Connection) -> None:
    """Delete what has expired; safe to run from any number of places at once."""
    await connection.execute(SQL["expire"])


async def scrub_is_due(connection: Connection, hour: int) -> bool:
    """Whether a text was deleted on an earlier day (UTC) and this one is past `hour`."""
    return bool(await connection.fetchval(SQL["scrub_is_due"], hour))


async def scrub(connection: Connection, wait_seconds: float = 60) -> Scrubbed:
    """Rewrite the tables so that deleted texts are gone from the files, rows of a subject side by side again.

    Reads and writes of the memory wait while a table is rewritten. The write-ahead log's older segments are let go at the
    end; the server deletes them unless it archives or replicates. Raises ScrubBlocked when another scrub runs or work from
    before does not end within `wait_seconds`: then nothing has changed, and the nightly scrub tries again.
    """
    if not await connection.fetchval(SQL["try_scrub_lock"]):
        raise ScrubBlocked(0)
    try:
        return await _scrub(connection, wait_seconds)
    finally:
        with contextlib.suppress(*AWAY):
            await connection.execute(SQL["scrub_unlock"])


async def _scrub(connection: Connection, wait_seconds: float) -> Scrubbed:
    bytes_before = await connection.fetchval(SQL["table_bytes"])
    today = await connection.fetchval(SQL["today"])
    await connection.execute(SQL["begin_scrub"])
    try:
        await _older_work_ended(connection, wait_seconds)
        await connection.execute(f"set lock_timeout = {int(wait_seconds * 1000)}")
        for table in _TABLES:
            await connection.execute(f"cluster memory.{table} using {table}_pkey", timeout=None)
            await connection.execute(f"analyze memory.{table}")
    except asyncpg.LockNotAvailableError:
        raise ScrubBlocked(wait_seconds) from None
    await _let_go_of_the_log(connection)
    await connection.execute(SQL["scrub_ended"], today)
    return Scrubbed(bytes_before, await connection.fetchval(SQL["table_bytes"]))


async def _older_work_ended(connection: Connection, wait_seconds: float) -> None:
    """A rewrite keeps rows that an older transaction could still see, deleted or not; so there must be none."""
    mark = await connection.fetchval(SQL["mark"])
    try:
        async with asyncio.timeout(wait_seconds):
            while await connection.fetchval(SQL["older_work"], mark):  # noqa: ASYNC110 (what ends it is elsewhere)
                await asyncio.sleep(_AGAIN_SECONDS)
    except TimeoutError:
        raise ScrubBlocked(wait_seconds) from None


async def _let_go_of_the_log(connection: Connection) -> None:
    """The next checkpoint begins in a new segment, so no earlier one is needed for recovery any more."""
    await connection.execute("checkpoint")
    await connection.execute("select pg_switch_wal()")
    await connection.execute("checkpoint")
