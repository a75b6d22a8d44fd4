"""The ledger's connection to Postgres: its queries by name, foreign errors translated once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg

from deployments.ledger.errors import LedgerUnavailable
from memory_store import sql
from memory_store.connect import AWAY

Connection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
SQL = sql.load(Path(__file__).with_name("queries.sql"))


class LedgerDatabase:
    """Runs the named queries of `queries.sql` over a pool; every call may raise LedgerUnavailable."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        self._pool = pool

    @classmethod
    async def open(cls, connect: dict[str, Any], size: int) -> LedgerDatabase:
        """`connect` holds keyword arguments of `asyncpg.connect`."""
        try:
            pool = await asyncpg.create_pool(
                **connect, min_size=1, max_size=size, init=_prepare, command_timeout=15, timeout=15
            )
        except AWAY:
            raise LedgerUnavailable("ledger_unavailable") from None
        return cls(pool)

    async def close(self) -> None:
        await self._pool.close()

    async def row(self, query: str, *values: Any) -> asyncpg.Record | None:
        async with self.connection() as connection:
            return await connection.fetchrow(SQL[query], *values)

    async def rows(self, query: str, *values: Any) -> list[asyncpg.Record]:
        async with self.connection() as connection:
            return await connection.fetch(SQL[query], *values)

    async def run(self, query: str, *values: Any) -> None:
        async with self.connection() as connection:
            await connection.execute(SQL[query], *values)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        try:
            async with self._pool.acquire(timeout=15) as connection:
                yield connection
        except AWAY:
            raise LedgerUnavailable("ledger_unavailable") from None


async def _prepare(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
