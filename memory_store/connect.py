"""How a service reaches the database as its own role."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg

from configs.settings import Database
from memory_store.bootstrap import DATABASE

SOCKET_PORT = 5432
# What asyncpg raises when the database is away, restarting or full: try again later.
AWAY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.DeadlockDetectedError,
    asyncpg.InternalClientError,  # a connection whose server said goodbye between two statements
)


def name(url: str) -> str:
    """The database that a URL names."""
    return urlsplit(url).path.removeprefix("/") or DATABASE


def arguments(database: Database, secrets: Path, role: str) -> dict[str, Any]:
    """Keyword arguments of `asyncpg.connect` for a role; its password is a file in `secrets`."""
    password = (secrets / f"{role}.password").read_text().strip()
    if not database.embedded:
        return {"dsn": database.url, "user": role, "password": password}
    return {"host": str(database.socket), "port": SOCKET_PORT, "database": DATABASE, "user": role, "password": password}
