"""Transactions that act as one subject. A database that restarts is waited for, as long as nothing was done yet."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg
from pgvector.asyncpg import register_vector

from memory_store import sql
from memory_store.connect import AWAY
from memory_store.errors import StoreUnavailable

Connection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
SQL = sql.load(Path(__file__).with_name("queries.sql"))
_AGAIN_SECONDS = 0.1
_COMMAND_SECONDS = 30


async def open_pool(connect: dict[str, Any], size: int) -> asyncpg.Pool:
    """A pool whose connections know pgvector's types; `connect` holds keyword arguments of `asyncpg.connect`.

    Raises StoreUnavailable.
    """
    try:
        return await asyncpg.create_pool(
            **connect, min_size=1, max_size=size, init=_prepare, command_timeout=_COMMAND_SECONDS
        )
    except AWAY as error:
        raise StoreUnavailable("the database does not answer; try again") from error


async def _prepare(connection: asyncpg.Connection) -> None:
    await register_vector(connection)
    await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")


class SubjectPool:
    """A pool of the role `recall_memory`, each connection used for one subject at a time."""

    def __init__(self, pool: asyncpg.Pool, wait_seconds: float) -> None:
        self._pool = pool
        self._wait_seconds = wait_seconds

    @asynccontextmanager
    async def acting_as(self, subject: str) -> AsyncIterator[Connection]:
        """A transaction that sees the rows of `subject` alone.

        Raises StoreUnavailable when the database stays away for longer than the wait, or goes away inside the block: then
        nothing of the block was kept, or all of it and only the answer is missing.
        """
        try:
            connection, ending = await self._begun(subject)
            async with ending:
                yield connection
        except AWAY as error:
            raise StoreUnavailable("the database does not answer; try again") from error

    async def _begun(self, subject: str) -> tuple[Connection, AsyncExitStack]:
        deadline = time.monotonic() + self._wait_seconds
        while True:
            try:
                return await self._begin(subject)
            except AWAY:
                if time.monotonic() >= deadline:
                    raise
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _begin(self, subject: str) -> tuple[Connection, AsyncExitStack]:
        """An open transaction, and what ends it and gives the connection back."""
        async with AsyncExitStack() as ending:
            connection = await ending.enter_async_context(self._pool.acquire(timeout=_COMMAND_SECONDS))
            await ending.enter_async_context(connection.transaction())
            await connection.execute(SQL["act_as"], subject)
            return connection, ending.pop_all()
