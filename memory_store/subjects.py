"""A whole subject's entries, for the operator who removes a person. `connection` is one of recall_maintenance."""

from __future__ import annotations

import asyncpg

from memory_store.pool import SQL


async def count(connection: asyncpg.Connection, subject: str) -> int:
    """How many entries the subject has."""
    return int(await connection.fetchval(SQL["count"], subject))


async def forget(connection: asyncpg.Connection, subject: str) -> int:
    """Delete every entry of the subject with all that derives from it; how many there were."""
    return int(await connection.fetchval(SQL["forget_all"], subject))
