"""The entries of a subject, kept in Postgres: every call acts as one subject and sees no other's rows."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg
import numpy as np
from pgvector import HalfVector
from pgvector.asyncpg import register_vector

from memory_store import sql
from memory_store.connect import AWAY
from memory_store.entry import Draft, Entry, EntryId, Kind, Source, check_kind, check_text, folded_sha256, is_id, new_id
from memory_store.errors import EntryConflict, MemoryFull, StoreUnavailable, WrongDimension
from memory_store.recall import Caps, Recall, Scored, choose

_SQL = sql.load(Path(__file__).with_name("queries.sql"))
_CANDIDATES = 20  # how many of the nearest a recall looks at and explains

Connection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
Vector = Sequence[float]


@dataclass(frozen=True)
class Kept:
    """The entry that is there now, and whether it was there before."""

    entry: Entry
    existed: bool


async def open_pool(connect: dict[str, Any], size: int) -> asyncpg.Pool:
    """A pool whose connections know pgvector's types; `connect` holds keyword arguments of `asyncpg.connect`.

    Raises StoreUnavailable.
    """
    try:
        return await asyncpg.create_pool(**connect, min_size=1, max_size=size, init=_prepare, command_timeout=30)
    except AWAY as error:
        raise StoreUnavailable("the database does not answer; try again") from error


async def _prepare(connection: asyncpg.Connection) -> None:
    await register_vector(connection)
    await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")


class MemoryStore:
    """Entries and their vectors. Vectors come from the caller, made by `model`, all of `dimension` numbers."""

    def __init__(self, pool: asyncpg.Pool, model: str, dimension: int, entries_per_subject: int) -> None:
        self._pool = pool
        self._model = model
        self._dimension = dimension
        self._entries_per_subject = entries_per_subject

    async def keep(self, subject: str, draft: Draft, vector: Vector) -> Kept:
        """Keep a draft, or find the entry whose text is the same after folding.

        Raises MemoryFull, WrongDimension, StoreUnavailable.
        """
        folded = folded_sha256(draft.text)
        async with self._acting_as(subject) as connection:
            await connection.execute(_SQL["lock_subject"], subject)
            if row := await connection.fetchrow(_SQL["find_folded"], subject, folded):
                return Kept(_entry(row), existed=True)
            if await connection.fetchval(_SQL["count"], subject) >= self._entries_per_subject:
                raise MemoryFull(self._entries_per_subject)
            row = await connection.fetchrow(_SQL["insert"], *self._values(subject, draft, folded))
            assert row is not None, "the subject is locked and has no twin"
            await connection.execute(_SQL["put_vector"], subject, self._model, row["id"], self._halfvec(vector))
            return Kept(_entry(row), existed=False)

    async def get(self, subject: str, entry: EntryId) -> Entry | None:
        """The entry, or None when this subject has none of that id. Raises StoreUnavailable."""
        if not is_id(entry):
            return None
        async with self._acting_as(subject) as connection:
            row = await connection.fetchrow(_SQL["get"], subject, entry)
        return _entry(row) if row else None

    async def page(self, subject: str, kind: Kind | None, before: EntryId | None, limit: int) -> list[Entry]:
        """At most `limit` entries, newest first, older than the entry `before`. Raises StoreUnavailable."""
        async with self._acting_as(subject) as connection:
            rows = await connection.fetch(_SQL["page"], subject, kind, before, limit)
        return [_entry(row) for row in rows]

    async def correct(
        self, subject: str, entry: EntryId, text: str, vector: Vector, kind: Kind | None = None
    ) -> Entry | None:
        """Replace an entry's text and vectors; None when there is no such entry.

        Raises InvalidEntry, EntryConflict when another entry already says this, WrongDimension, StoreUnavailable.
        """
        check_text(text)
        if kind is not None:
            check_kind(kind)
        if not is_id(entry):
            return None
        folded = folded_sha256(text)
        async with self._acting_as(subject) as connection:
            await connection.execute(_SQL["lock_subject"], subject)
            twin = await connection.fetchrow(_SQL["find_folded"], subject, folded)
            if twin and twin["id"] != entry:
                raise EntryConflict(twin["id"])
            row = await connection.fetchrow(_SQL["correct"], subject, entry, text, folded, kind)
            if row is None:
                return None
            await connection.execute(_SQL["drop_vectors"], subject, entry)
            await connection.execute(_SQL["put_vector"], subject, self._model, entry, self._halfvec(vector))
        return _entry(row)

    async def forget(self, subject: str, entry: EntryId) -> bool:
        """Delete an entry with all that derives from it; False when there was none. Raises StoreUnavailable."""
        if not is_id(entry):
            return False
        async with self._acting_as(subject) as connection:
            return await connection.fetchval(_SQL["forget"], subject, entry) is not None

    async def recall(self, subject: str, query: Vector, caps: Caps) -> Recall:
        """What a turn would be shown for a query vector. Raises WrongDimension, StoreUnavailable."""
        vector = self._halfvec(query)
        try:
            async with self._acting_as(subject) as connection:
                rows = await connection.fetch(_SQL["nearest"], subject, self._model, vector, _CANDIDATES)
        except asyncpg.DataError:
            raise WrongDimension(await self._stored_dimension(subject), len(query)) from None
        return choose([Scored(_entry(row), row["score"]) for row in rows], caps)

    async def _stored_dimension(self, subject: str) -> int:
        async with self._acting_as(subject) as connection:
            return int(await connection.fetchval(_SQL["stored_dimension"], subject, self._model))

    @asynccontextmanager
    async def _acting_as(self, subject: str) -> AsyncIterator[Connection]:
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["act_as"], subject)
                yield connection
        except AWAY as error:
            raise StoreUnavailable("the database does not answer; try again") from error

    def _values(self, subject: str, draft: Draft, folded: bytes) -> tuple[Any, ...]:
        source = {"by": draft.source.by, "ref": draft.source.ref}
        return subject, new_id(), draft.kind, draft.text, folded, source, None

    def _halfvec(self, vector: Vector) -> HalfVector:
        if len(vector) != self._dimension:
            raise WrongDimension(self._dimension, len(vector))
        return HalfVector(np.asarray(vector, dtype=np.float32))


def _entry(row: asyncpg.Record) -> Entry:
    values = {key: value for key, value in row.items() if key != "score"}
    return Entry(**{**values, "source": Source(**values["source"])})
