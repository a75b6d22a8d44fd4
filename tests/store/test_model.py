"""Whatever is kept, corrected, forgotten, imported or expires, the store equals a dictionary that does the same."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from memory_store.entry import Draft, EntryId, Kind, Source, folded_sha256
from memory_store.errors import EntryConflict, MemoryFull
from memory_store.recall import Caps
from memory_store.store import Change, MemoryStore
from memory_store.transfer import Line
from tests.conftest import Database

MOST = 6
ME = Source("person", "test")
ALL = Caps(floor=-1, entries=20, tokens=100_000)
TEXTS = (
    "tabs",
    "Tabs!",
    " TABS ",
    "spaces",
    "port 5432",
    "port 5433",
    "Port: 5433.",
    "a != b",
    "a = b",
    "čaj",
    "ČAJ",
    "7",
)
KINDS: tuple[Kind, ...] = ("fact", "preference", "episode")


def vector(text: str) -> list[float]:
    """Of the folded text, so that equal texts have equal vectors and others do not."""
    digest = folded_sha256(text)
    return [byte / 255 + 0.01 for byte in digest[:3]]


@dataclass(frozen=True)
class Known:
    kind: Kind
    text: str

    @property
    def folded(self) -> bytes:
        return folded_sha256(self.text)


@dataclass
class Model:
    """The plain model: ids in the order of their making."""

    entries: dict[str, Known] = field(default_factory=dict)

    def twin(self, text: str, but: str | None = None) -> str | None:
        same = (one for one, known in self.entries.items() if known.folded == folded_sha256(text) and one != but)
        return next(same, None)

    def nth(self, place: int) -> str | None:
        return list(self.entries)[place % len(self.entries)] if self.entries else None


@dataclass
class Both:
    """The store and its model, for one subject."""

    store: MemoryStore
    database: Database
    subject: str
    model: Model = field(default_factory=Model)

    async def keep(self, kind: Kind, text: str) -> None:
        twin = self.model.twin(text)
        if twin is None and len(self.model.entries) >= MOST:
            with pytest.raises(MemoryFull):
                await self.store.keep(self.subject, Draft(kind, text, ME), vector(text))
            return
        kept = await self.store.keep(self.subject, Draft(kind, text, ME), vector(text))
        assert kept.existed == (twin is not None) and (twin is None or kept.entry.id == twin)
        if twin is None:
            self.model.entries[kept.entry.id] = Known(kind, text)

    async def correct(self, place: int, text: str | None, kind: Kind | None) -> None:
        entry = self.model.nth(place)
        if entry is None:
            missing = EntryId("m_" + "0" * 28)
            assert await self.store.correct(self.subject, missing, Change("x"), vector("x")) is None
            return
        change, new = Change(text, kind), vector(text) if text is not None else None
        if text is not None and self.model.twin(text, but=entry):
            with pytest.raises(EntryConflict):
                await self.store.correct(self.subject, EntryId(entry), change, new)
            return
        changed = await self.store.correct(self.subject, EntryId(entry), change, new)
        known = self.model.entries[entry]
        becomes: Kind = kind or ("fact" if known.kind == "episode" and text is not None else known.kind)
        self.model.entries[entry] = replace(known, kind=becomes, text=text if text is not None else known.text)
        assert changed is not None and changed.entry.kind == becomes

    async def forget(self, place: int) -> None:
        entry = self.model.nth(place) or "m_" + "0" * 28
        there = entry in self.model.entries
        assert await self.store.forget(self.subject, EntryId(entry)) is there
        self.model.entries.pop(entry, None)
        assert not await self.store.forget(self.subject, EntryId(entry))

    async def forget_all(self) -> None:
        assert await self.store.count(self.subject) == len(self.model.entries)
        assert await self.store.forget_all(self.subject) == len(self.model.entries)
        self.model.entries.clear()

    async def expire(self, place: int) -> None:
        """Time passes; nobody has swept yet."""
        if entry := self.model.nth(place):
            await self.database.rows("update memory.entries set expires_at = now() where id = $1", entry)
            del self.model.entries[entry]

    async def import_(self, texts: list[str]) -> None:
        now = datetime.now(UTC)
        lines = [Line(Draft("fact", text, ME, now + timedelta(days=1)), None, now, now) for text in texts]
        first = {folded_sha256(text): text for text in reversed(texts)}
        new = [text for text in first.values() if self.model.twin(text) is None]
        told = await self.store.new_among(self.subject, lines)
        assert sorted(line.draft.text for line in told) == sorted(new)
        vectors = {line.folded: vector(line.draft.text) for line in told}
        if new and len(self.model.entries) + len(new) > MOST:
            with pytest.raises(MemoryFull):
                await self.store.import_all(self.subject, lines, vectors)
            return
        done = await self.store.import_all(self.subject, lines, vectors)
        assert (done.added, done.existed) == (len(new), len(texts) - len(new))
        page = await self.store.page(self.subject, None, None, 100)
        added = {entry.id: Known(entry.kind, entry.text) for entry in reversed(page) if entry.text in new}
        self.model.entries |= {one: known for one, known in added.items() if one not in self.model.entries}

    async def check(self) -> None:
        page = await self.store.page(self.subject, None, None, 100)
        assert {entry.id: Known(entry.kind, entry.text) for entry in page} == self.model.entries
        assert [entry.id for entry in page] == sorted((entry.id for entry in page), reverse=True)
        for text in {known.text for known in self.model.entries.values()}:
            found = await self.store.recall(self.subject, vector(text), ALL)
            assert {one.entry.id for one in found.shown} | {
                one.entry.id for one, why in found.left_out if why == "older_wording"
            } == set(self.model.entries)
            assert found.shown[0].score == pytest.approx(1, abs=1e-3) and found.not_embedded == 0


OPERATIONS = st.one_of(
    st.tuples(st.just("keep"), st.sampled_from(KINDS), st.sampled_from(TEXTS)),
    st.tuples(
        st.just("correct"),
        st.integers(0, 9),
        st.none() | st.sampled_from(TEXTS),
        st.none() | st.sampled_from(KINDS[:2]),
    ),
    st.tuples(st.just("forget"), st.integers(0, 9)),
    st.tuples(st.just("forget_all")),
    st.tuples(st.just("expire"), st.integers(0, 9)),
    st.tuples(st.just("import_"), st.lists(st.sampled_from(TEXTS), max_size=5)),
)


@hypothesis.settings(
    max_examples=60,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
)
@hypothesis.given(operations=st.lists(OPERATIONS, min_size=1, max_size=25))
async def test_the_store_equals_a_plain_model(database: Database, operations: list[tuple[Any, ...]]) -> None:
    await database.close()
    both = Both(await database.store(3, entries=MOST), database, f"key|{secrets.token_hex(6)}")
    for name, *arguments in operations:
        await getattr(both, name)(*arguments)
        await both.check()
