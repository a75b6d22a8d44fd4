"""Forgotten texts lie in free space until a scrub; after it their bytes are nowhere in the server's folder."""

from __future__ import annotations

import asyncio
import mmap
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from memory_store import upkeep
from memory_store.embedded import EmbeddedPostgres
from memory_store.entry import Draft, Source
from memory_store.errors import ScrubBlocked
from memory_store.store import Change, MemoryStore
from tests.conftest import Database

ANA, BEN = "key|ana", "key|ben"
EAST = (1.0, 0.0, 0.0)


def files_that_hold(folder: Path, text: str) -> set[Path]:
    """Files under `folder`, relative to it, in which the bytes of `text` stand."""
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and _holds(path, text.encode())}


def _holds(path: Path, needle: bytes) -> bool:
    if not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(needle) >= 0


@pytest.fixture
def data(postgres: EmbeddedPostgres) -> Path:
    """Everything the server writes: tables, catalogues, statistics, its log and the write-ahead log."""
    return postgres._data_dir.parent


@pytest.fixture
async def store(clone: Database) -> MemoryStore:
    return await clone.store(3)


@pytest.fixture
async def maintenance(clone: Database) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    async with upkeep.connected(clone.connect("recall_maintenance")) as connection:
        yield connection


async def keep(store: MemoryStore, subject: str, text: str) -> str:
    return (await store.keep(subject, Draft("fact", text, Source("person", "test")), EAST)).entry.id


def words() -> str:
    return secrets.token_hex(8)


async def test_what_was_forgotten_is_in_no_file_after_a_scrub(
    clone: Database, store: MemoryStore, maintenance: asyncpg.Connection[asyncpg.Record], data: Path
) -> None:
    forgotten, replaced, expired, refused, lives = (f"marker {words()}" for _ in range(5))
    neighbours = [
        await keep(store, subject, f"A neighbour of {subject}, {place}.")
        for subject in (ANA, BEN)
        for place in range(20)
    ]
    alive = await keep(store, ANA, f"It is {lives}.")
    first = await keep(store, ANA, f"It was {forgotten}.")
    second = await keep(store, ANA, f"It was {replaced}.")
    third = await keep(store, ANA, f"It was {expired}.")
    async with clone.connection() as superuser:
        await superuser.execute("analyze")
        with pytest.raises(asyncpg.CheckViolationError):  # its detail would quote the whole row
            await superuser.execute(
                "insert into memory.entries (subject, id, kind, text, folded_sha256, source) values"
                " ('key|ana', 'm_1', 'rumour', $1, '\\x00', '{}')",
                f"Not kept: {refused}.",
            )
        await superuser.execute("checkpoint")
    await store.forget(ANA, first)
    await store.correct(ANA, second, Change("It is another now."), EAST)
    await clone.rows("update memory.entries set expires_at = now() where id = $1", third)
    await upkeep.expire(maintenance)
    await maintenance.execute("checkpoint")
    before = [files_that_hold(data, marker) for marker in (forgotten, replaced, expired)]
    assert all(any(path.parts[-3:-1] != () and "base" in path.parts for path in found) for found in before), before

    done = await upkeep.scrub(maintenance)

    assert done.bytes_after <= done.bytes_before
    for marker in (forgotten, replaced, expired, refused):
        assert files_that_hold(data, marker) == set(), "the write-ahead log included"
    assert any("base" in path.parts for path in files_that_hold(data, lives)), "the search finds what lives"
    assert {entry.id for entry in await store.page(ANA, None, None, 100)} >= {alive, *neighbours[:20]}
    assert {entry.id for entry in await store.page(BEN, None, None, 100)} == set(neighbours[20:])


async def test_a_scrub_is_due_on_the_day_after_something_was_deleted(
    clone: Database, store: MemoryStore, maintenance: asyncpg.Connection[asyncpg.Record]
) -> None:
    entry = await keep(store, ANA, "to be forgotten")
    assert await clone.value("select count(*) from memory.scrub_due") == 0, "nothing was deleted yet"
    await store.forget(ANA, entry)
    assert not await upkeep.scrub_is_due(maintenance, 0), "not on the same day"
    await clone.rows("update memory.scrub_due set day = day - 1")
    assert await upkeep.scrub_is_due(maintenance, 0)
    assert not await upkeep.scrub_is_due(maintenance, 24), "not before its hour"
    await upkeep.scrub(maintenance)
    assert not await upkeep.scrub_is_due(maintenance, 0)


async def test_forgetting_nothing_makes_no_scrub_due(clone: Database, store: MemoryStore) -> None:
    await keep(store, ANA, "stays")
    await store.forget(ANA, "m_" + "0" * 28)  # type: ignore[arg-type]
    await store.forget_all(BEN)
    assert await clone.value("select count(*) from memory.scrub_due") == 0


async def test_a_scrub_waits_for_a_transaction_that_could_still_see_the_deleted(
    clone: Database, store: MemoryStore, maintenance: asyncpg.Connection[asyncpg.Record], data: Path
) -> None:
    marker = f"marker {words()}"
    entry = await keep(store, ANA, f"It was {marker}.")
    async with clone.connection() as reader:
        transaction = reader.transaction(isolation="repeatable_read")
        await transaction.start()
        await reader.fetchval("select count(*) from memory.entry_vectors")
        await store.forget(ANA, entry)
        with pytest.raises(ScrubBlocked):
            await upkeep.scrub(maintenance, wait_seconds=0.5)
        assert await upkeep.scrub_is_due(maintenance, 0), "a scrub that could not be done stays due"
        scrubbing = asyncio.ensure_future(upkeep.scrub(maintenance, wait_seconds=20))
        await transaction.rollback()
        await scrubbing
    assert files_that_hold(data, marker) == set()


async def test_a_scrub_that_was_cut_short_stays_due(
    clone: Database, store: MemoryStore, maintenance: asyncpg.Connection[asyncpg.Record]
) -> None:
    """Its connection is cut in the middle, as by a restart of the server: nobody can write down that it failed."""
    await store.forget(ANA, await keep(store, ANA, "to be forgotten"))  # type: ignore[arg-type]
    async with clone.connection() as holder, clone.connection("recall_maintenance") as other, holder.transaction():
        await holder.execute("lock table memory.entries in access share mode")
        scrubbing = asyncio.ensure_future(upkeep.scrub(other, wait_seconds=20))
        pid = await clone.waiting_process()
        await holder.execute("select pg_terminate_backend($1)", pid)
        with pytest.raises(asyncpg.PostgresError):
            await scrubbing
    assert await upkeep.scrub_is_due(maintenance, 0)
    await upkeep.scrub(maintenance)
    assert not await upkeep.scrub_is_due(maintenance, 0)


async def test_two_scrubs_do_not_run_at_once(clone: Database, maintenance: asyncpg.Connection[asyncpg.Record]) -> None:
    async with clone.connection("recall_maintenance") as other:
        await other.fetchval(upkeep.SQL["try_scrub_lock"])
        with pytest.raises(ScrubBlocked):
            await upkeep.scrub(maintenance)
    await upkeep.scrub(maintenance)


async def test_the_memory_goes_on_while_it_is_scrubbed(
    clone: Database, store: MemoryStore, maintenance: asyncpg.Connection[asyncpg.Record]
) -> None:
    ids: list[str] = []
    done = asyncio.Event()

    async def keep_on() -> None:
        while not done.is_set():
            ids.append(await keep(store, ANA, f"number {len(ids)}"))
            if len(ids) % 3 == 0:
                await store.forget(ANA, ids.pop())  # type: ignore[arg-type]

    keeping = asyncio.ensure_future(keep_on())
    for _ in range(3):
        await upkeep.scrub(maintenance)
    done.set()
    await keeping
    assert {entry.id for entry in await store.page(ANA, None, None, 10_000)} == set(ids)
