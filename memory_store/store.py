"""The entries of a subject, kept in Postgres: every call acts as one subject and sees no other's rows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import asyncpg
import numpy as np
from pgvector import HalfVector

from memory_store import models
from memory_store.entry import (
    Draft,
    Entry,
    EntryId,
    Kind,
    Source,
    check_expiry,
    check_kind,
    check_text,
    folded_sha256,
    is_id,
    new_id,
)
from memory_store.errors import EntryConflict, MemoryFull, WrongDimension
from memory_store.language import detect
from memory_store.pool import SQL, Connection, SubjectPool
from memory_store.recall import Caps, Recall, Scored, choose
from memory_store.transfer import Line

_CANDIDATES = 20  # how many of the nearest a recall looks at and explains
_MOST_SIMILAR = 3

Vector = Sequence[float]


@dataclass(frozen=True)
class Kept:
    """The entry that is there now, whether it was there before, and others that nearly say the same."""

    entry: Entry
    existed: bool
    similar: tuple[EntryId, ...] = ()


@dataclass(frozen=True)
class Change:
    """What a correction changes; None leaves a part as it is. `source` says who told the new text.

    Raises InvalidEntry when it cannot be made.
    """

    text: str | None = None
    kind: Kind | None = None
    sets_expiry: bool = False
    expires_at: datetime | None = None
    source: Source = field(default_factory=lambda: Source("person", "api"))

    def __post_init__(self) -> None:
        if self.text is not None:
            check_text(self.text)
        if self.kind is not None:
            check_kind(self.kind)
        check_expiry(self.expires_at)


@dataclass(frozen=True)
class Imported:
    """How many entries a file added, and how many of its lines were there before."""

    added: int
    existed: int


class MemoryStore:
    """Entries and their vectors. Vectors come from the caller, made by `model`, all of `dimension` numbers.

    `similar` is the cosine from which another entry is named as nearly the same. Every method raises StoreUnavailable when
    the database stays away for longer than `wait_seconds`.
    """

    def __init__(
        self,
        pool: asyncpg.Pool,
        model: str,
        dimension: int,
        entries_per_subject: int,
        similar: float = 0.9,
        wait_seconds: float = 0,
    ) -> None:
        self._pool = SubjectPool(pool, wait_seconds)
        self._model = model
        self._dimension = dimension
        self._entries_per_subject = entries_per_subject
        self._similar = similar

    async def register_model(self) -> None:
        """Note the model's dimension on its first use. Raises WrongDimension when it had another one before."""
        async with self._pool.acting_as("") as connection:  # nobody
            await models.register(connection, self._model, self._dimension)

    async def keep(self, subject: str, draft: Draft, vector: Vector) -> Kept:
        """Keep a draft, or find the entry whose text is the same after folding. Raises MemoryFull, WrongDimension."""
        folded, halfvec = folded_sha256(draft.text), self._halfvec(vector)
        async with self._writing(subject) as connection:
            if row := await connection.fetchrow(SQL["find_folded"], subject, folded):
                return Kept(_entry(row), existed=True)
            await self._check_room(connection, subject, 1)
            row = await connection.fetchrow(SQL["insert"], *_values(subject, draft, folded))
            assert row is not None, "the subject is locked and has no twin"
            await connection.execute(SQL["put_vector"], subject, self._model, row["id"], halfvec)
            return Kept(_entry(row), False, await self._similar_to(connection, subject, row["id"], halfvec))

    async def correct(self, subject: str, entry: EntryId, change: Change, vector: Vector | None) -> Kept | None:
        """Change an entry; a new text takes new vectors, the first given here. None when there is no such entry.

        Raises EntryConflict when another entry already says this, WrongDimension.
        """
        if not is_id(entry):
            return None
        halfvec = self._halfvec(vector) if vector is not None else None
        async with self._writing(subject) as connection:
            folded = await self._unique(connection, subject, entry, change.text)
            row = await connection.fetchrow(SQL["correct"], subject, entry, *_changed(change, folded))
            if row is None:
                return None
            if halfvec is None:
                return Kept(_entry(row), existed=True)
            await connection.execute(SQL["drop_vectors"], subject, entry)
            await connection.execute(SQL["put_vector"], subject, self._model, entry, halfvec)
            return Kept(_entry(row), True, await self._similar_to(connection, subject, entry, halfvec))

    async def get(self, subject: str, entry: EntryId) -> Entry | None:
        """The entry, or None when this subject has none of that id."""
        if not is_id(entry):
            return None
        async with self._pool.acting_as(subject) as connection:
            row = await connection.fetchrow(SQL["get"], subject, entry)
        return _entry(row) if row else None

    async def page(self, subject: str, kind: Kind | None, before: EntryId | None, limit: int) -> list[Entry]:
        """At most `limit` entries, newest first, older than the entry `before`."""
        async with self._pool.acting_as(subject) as connection:
            rows = await connection.fetch(SQL["page"], subject, kind, before, limit)
        return [_entry(row) for row in rows]

    async def search(
        self, subject: str, words: Sequence[str], kind: Kind | None, before: EntryId | None, limit: int
    ) -> list[Entry]:
        """As `page`, of the entries in whose text each of the words stands."""
        async with self._pool.acting_as(subject) as connection:
            rows = await connection.fetch(SQL["search"], subject, kind, before, limit, list(words))
        return [_entry(row) for row in rows]

    async def forget(self, subject: str, entry: EntryId) -> bool:
        """Delete an entry with all that derives from it; False when there was none."""
        if not is_id(entry):
            return False
        async with self._writing(subject) as connection:
            return await connection.fetchval(SQL["forget"], subject, entry) is not None

    async def count(self, subject: str) -> int:
        async with self._pool.acting_as(subject) as connection:
            return int(await connection.fetchval(SQL["count"], subject))

    async def forget_all(self, subject: str) -> int:
        """Delete every entry of the subject; how many there were."""
        async with self._writing(subject) as connection:
            return int(await connection.fetchval(SQL["forget_all"], subject))

    async def new_among(self, subject: str, lines: Sequence[Line]) -> list[Line]:
        """The lines whose text the subject does not have; of several that fold to one text, the first."""
        async with self._pool.acting_as(subject) as connection:
            return await _unknown(connection, subject, lines)

    async def import_all(self, subject: str, lines: Sequence[Line], vectors: Mapping[bytes, Vector]) -> Imported:
        """Add the lines the subject does not have, all or none. `vectors` by folded text; a line without one must exist.

        Raises MemoryFull, WrongDimension.
        """
        halfvecs = {folded: self._halfvec(vector) for folded, vector in vectors.items()}
        async with self._writing(subject) as connection:
            unknown = await _unknown(connection, subject, [line for line in lines if line.folded in halfvecs])
            await self._check_room(connection, subject, len(unknown))
            ids = await _free_ids(connection, subject, unknown)
            await connection.execute(SQL["import"], subject, *_columns(unknown, ids))
            named = zip(ids, unknown, strict=True)
            puts = [(subject, self._model, one, halfvecs[line.folded]) for one, line in named]
            await connection.executemany(SQL["put_vector"], puts)
        return Imported(len(unknown), len(lines) - len(unknown))

    async def recall(self, subject: str, query: Vector, caps: Caps) -> Recall:
        """What a turn would be shown for a query vector. Raises WrongDimension."""
        vector = self._halfvec(query)
        try:
            async with self._pool.acting_as(subject) as connection:
                rows = await connection.fetch(SQL["nearest"], subject, self._model, vector, _CANDIDATES)
                missing = await connection.fetchval(SQL["not_embedded"], subject, self._model)
        except asyncpg.DataError:
            raise WrongDimension(await self._stored_dimension(subject), len(query)) from None
        return choose([Scored(_entry(row), row["score"]) for row in rows], caps, missing)

    async def _stored_dimension(self, subject: str) -> int:
        async with self._pool.acting_as(subject) as connection:
            return int(await connection.fetchval(SQL["stored_dimension"], subject, self._model))

    @asynccontextmanager
    async def _writing(self, subject: str) -> AsyncIterator[Connection]:
        """A transaction in which no other writes for this subject, and nothing that has expired is in the way."""
        async with self._pool.acting_as(subject) as connection:
            await connection.execute(SQL["lock_subject"], subject)
            await connection.execute(SQL["drop_expired"], subject)
            yield connection

    async def _check_room(self, connection: Connection, subject: str, more: int) -> None:
        if more and await connection.fetchval(SQL["count"], subject) + more > self._entries_per_subject:
            raise MemoryFull(self._entries_per_subject)

    async def _unique(self, connection: Connection, subject: str, entry: EntryId, text: str | None) -> bytes | None:
        """The folded form of a new text that no other entry has."""
        if text is None:
            return None
        folded = folded_sha256(text)
        twin = await connection.fetchrow(SQL["find_folded"], subject, folded)
        if twin and twin["id"] != entry and await connection.fetchrow(SQL["get"], subject, entry):
            raise EntryConflict(twin["id"])
        return folded

    async def _similar_to(
        self, connection: Connection, subject: str, entry: EntryId, vector: HalfVector
    ) -> tuple[EntryId, ...]:
        rows = await connection.fetch(SQL["similar"], subject, self._model, vector, entry, self._similar, _MOST_SIMILAR)
        return tuple(row["entry"] for row in rows)

    def _halfvec(self, vector: Vector) -> HalfVector:
        if len(vector) != self._dimension:
            raise WrongDimension(self._dimension, len(vector))
        return HalfVector(np.asarray(vector, dtype=np.float32))


async def _unknown(connection: Connection, subject: str, lines: Sequence[Line]) -> list[Line]:
    first = {line.folded: line for line in reversed(lines)}
    rows = await connection.fetch(SQL["known"], subject, list(first))
    known = {bytes(row["folded_sha256"]) for row in rows}
    return [line for line in lines if first[line.folded] is line and line.folded not in known]


async def _free_ids(connection: Connection, subject: str, lines: Sequence[Line]) -> list[EntryId]:
    """Each line's own id where it is still free, so that an export that is imported again keeps its ids."""
    rows = await connection.fetch(SQL["ids_taken"], subject, [line.id for line in lines if line.id])
    taken = {row["id"] for row in rows}
    ids: list[EntryId] = []
    for line in lines:
        one = new_id() if line.id is None or line.id in taken else line.id
        taken.add(one)
        ids.append(one)
    return ids


def _values(subject: str, draft: Draft, folded: bytes) -> tuple[Any, ...]:
    source = asdict(draft.source)
    return subject, new_id(), draft.kind, draft.text, folded, source, draft.language, draft.expires_at


def _changed(change: Change, folded: bytes | None) -> tuple[Any, ...]:
    source = asdict(change.source)
    language = detect(change.text) if change.text is not None else None
    return change.text, folded, language, change.kind, change.sets_expiry, change.expires_at, source


def _columns(lines: Sequence[Line], ids: Collection[EntryId]) -> tuple[list[Any], ...]:
    """The lines as arrays, column by column, in the order of the query `import`."""
    return (
        list(ids),
        [line.draft.kind for line in lines],
        [line.draft.text for line in lines],
        [line.folded for line in lines],
        [asdict(line.draft.source) for line in lines],
        [line.draft.language for line in lines],
        [line.created_at for line in lines],
        [line.updated_at for line in lines],
        [line.draft.expires_at for line in lines],
    )


def _entry(row: asyncpg.Record) -> Entry:
    values = {key: value for key, value in row.items() if key != "score"}
    return Entry(**{**values, "source": Source(**values["source"])})
