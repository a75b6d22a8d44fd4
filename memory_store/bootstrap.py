"""From an empty server to the project's database: roles, database, extension, then migrations.

The superuser does only this. Services connect as roles of their own: `recall_memory` and `recall_ledger` see one schema
each, `recall_maintenance` sweeps, and `recall_owner` owns the tables and runs migrations.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import asyncpg

from configs import private
from memory_store.migrate import migrate

ROLES = ("recall_owner", "recall_memory", "recall_ledger", "recall_maintenance")
DATABASE = "recall"
_LOCK = 7_255_102  # any number of our own: two starts at once run one after the other


def passwords(folder: Path) -> dict[str, str]:
    """The roles' passwords, made on the first call; files of mode 0600 in `folder`, which is made where it is missing."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {
        role: private.made_once(folder / f"{role}.password", lambda: secrets.token_urlsafe(32)).decode().strip()
        for role in ROLES
    }


async def bootstrap(
    superuser: Mapping[str, Any], role_passwords: Mapping[str, str], database: str = DATABASE
) -> list[str]:
    """Make what is missing and migrate; safe to run at every start. Returns the migrations that ran.

    `superuser` and what is derived from it are keyword arguments of `asyncpg.connect`.
    """
    owner = {**superuser, "user": "recall_owner", "password": role_passwords["recall_owner"]}
    gate = await asyncpg.connect(**{**superuser, "database": "postgres"})
    try:
        await gate.execute("select pg_advisory_lock($1)", _LOCK)  # held until the connection closes
        await _make_roles(gate, role_passwords)
        await _make_database(gate, database)
        await _as(superuser, database, _make_extension_and_grants)
        ran: list[str] = await _as(owner, database, migrate)
    finally:
        await gate.close()
    return ran


async def _as(who: Mapping[str, Any], database: str, action: Any, *arguments: Any) -> Any:
    connection = await asyncpg.connect(**{**who, "database": database})
    try:
        return await action(connection, *arguments)
    finally:
        await connection.close()


async def _make_roles(connection: asyncpg.Connection, role_passwords: Mapping[str, str]) -> None:
    present = {row["rolname"] for row in await connection.fetch("select rolname from pg_roles")}
    for role in ROLES:
        verb = "alter" if role in present else "create"
        # A password cannot be bound in DDL; ours are URL-safe base64 and cannot end the literal.
        await connection.execute(f"{verb} role {role} login password '{role_passwords[role]}'")


async def _make_database(connection: asyncpg.Connection, database: str) -> None:
    if not await connection.fetchval("select 1 from pg_database where datname = $1", database):
        await connection.execute(f'create database "{database}" owner recall_owner')
    await connection.execute(f'revoke connect on database "{database}" from public')
    await connection.execute(f'grant connect on database "{database}" to {", ".join(ROLES)}')


async def _make_extension_and_grants(connection: asyncpg.Connection) -> None:
    await connection.execute("create extension if not exists vector")
    await connection.execute("grant usage, create on schema public to recall_owner")
    # A scrub waits for old transactions, and ends with the log's old segments being let go.
    await connection.execute("grant pg_read_all_stats, pg_checkpoint to recall_maintenance")
    await connection.execute("grant execute on function pg_switch_wal() to recall_maintenance")
