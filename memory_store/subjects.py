"""A whole subject's entries, for the operator who removes a person."""

from __future__ import annotations

import asyncpg

from memory_store.upkeep import SQL


async def count(connection: asyncpg.Connection, subject: str) -> int:
    """How many entries the subject has; `connection` is one of recall_maintenance."""
    return int(await connection.fetchval(SQL["count_of"], subject))


async def forget(connection: asyncpg.Connection, subject: str) -> int:
    """Delete every entry of the subject with all that derives from it; how many there were."""
    async with connection.transaction():
        return int(await connection.fetchval(SQL["forget_subject"], subject))
