"""Migrations run at start, once each, in order, as the owner of the tables. A newer database than the code refuses."""

from __future__ import annotations

import hashlib
from pathlib import Path

import asyncpg

from memory_store.errors import SchemaMismatch

FOLDER = Path(__file__).parent / "migrations"
_LOCK = 7_255_101  # any number of our own: two starts at once run one after the other


async def migrate(connection: asyncpg.Connection) -> list[str]:
    """Bring the database to this code's schema; returns the names of the migrations that ran.

    Raises SchemaMismatch when the database knows a migration this code does not, or one was edited after it ran.
    """
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock($1)", _LOCK)
        await connection.execute(
            "create table if not exists public.migrations (name text primary key, sha256 text not null,"
            " ran_at timestamptz not null default now())"
        )
        rows = await connection.fetch("select name, sha256 from public.migrations")
        applied = {row["name"]: row["sha256"] for row in rows}
        pending = _pending(applied)
        for path in pending:
            await connection.execute(path.read_text(encoding="utf-8"))
            await connection.execute(
                "insert into public.migrations (name, sha256) values ($1, $2)", path.name, _digest(path)
            )
    return [path.name for path in pending]


def _pending(applied: dict[str, str]) -> list[Path]:
    known = {path.name: path for path in sorted(FOLDER.glob("*.sql"))}
    if newer := sorted(applied.keys() - known.keys()):
        raise SchemaMismatch(
            f"the database has the migration {newer[-1]}, which this version does not know; start the version that made it"
        )
    for name, digest in applied.items():
        if _digest(known[name]) != digest:
            raise SchemaMismatch(f"the migration {name} was changed after it ran; restore the file")
    return [path for name, path in known.items() if name not in applied]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
