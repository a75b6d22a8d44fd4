"""A database that dies or restarts under load: calls wait or say so, and nothing is lost or kept twice."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from memory_store import bootstrap
from memory_store.embedded import EmbeddedPostgres
from memory_store.entry import Draft, Source
from memory_store.errors import StoreUnavailable
from memory_store.pool import open_pool
from memory_store.store import MemoryStore
from tests.conftest import PASSWORDS, passable_folder

pytestmark = pytest.mark.timeout(120)
ANA = "key|ana"
EAST = (1.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[EmbeddedPostgres]:
    """A server of this file's own, which may be killed."""
    with passable_folder() as folder, EmbeddedPostgres(folder / "data", folder / "logs") as server:
        yield server


@pytest.fixture(scope="module")
async def connect(own_postgres: EmbeddedPostgres) -> dict[str, object]:
    await bootstrap.bootstrap(dict(own_postgres.superuser_connection()), PASSWORDS)
    to = dict(own_postgres.superuser_connection(bootstrap.DATABASE))
    return {**to, "user": "recall_memory", "password": PASSWORDS["recall_memory"]}


@pytest.fixture
async def pool(connect: dict[str, object]) -> AsyncIterator[asyncpg.Pool[asyncpg.Record]]:
    pool = await open_pool(connect, 4)
    yield pool
    pool.terminate()


async def keep(store: MemoryStore, text: str) -> bool:
    return (await store.keep(ANA, Draft("fact", text, Source("person", "test")), EAST)).existed


async def kept_until_it_is_there(store: MemoryStore, text: str, refusals: list[str]) -> None:
    """As a client does: what is unavailable is sent again."""
    while True:
        try:
            await keep(store, text)
            return
        except StoreUnavailable:
            refusals.append(text)
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT, signal.SIGINT], ids=lambda number: number.name)
async def test_a_crash_or_restart_under_load_loses_and_doubles_nothing(
    own_postgres: EmbeddedPostgres, pool: asyncpg.Pool[asyncpg.Record], number: signal.Signals
) -> None:
    store = MemoryStore(pool, "m", 3, 100_000)
    await store.forget_all(ANA)
    sent: list[str] = []
    refusals: list[str] = []
    stop = asyncio.Event()

    async def load() -> None:
        while not stop.is_set():
            sent.append(f"Fact {len(sent)} {secrets.token_hex(4)}.")
            await kept_until_it_is_there(store, sent[-1], refusals)

    tasks = [asyncio.ensure_future(load()) for _ in range(8)]
    for _ in range(3):
        count = len(sent) + 50
        while len(sent) < count:
            await asyncio.sleep(0.01)
        os.kill(own_postgres.postmaster_pid, number)
        while own_postgres.running():
            await asyncio.sleep(0.01)
        await asyncio.to_thread(own_postgres.start)
    stop.set()
    await asyncio.gather(*tasks)
    found = [entry.text for entry in await store.page(ANA, None, None, 100_000)]
    assert sorted(found) == sorted(sent) and refusals, "each once, and the outage was felt"


async def test_a_call_waits_for_a_restart_that_is_short_enough(
    own_postgres: EmbeddedPostgres, pool: asyncpg.Pool[asyncpg.Record]
) -> None:
    patient, impatient = (MemoryStore(pool, "m", 3, 100_000, wait_seconds=wait) for wait in (60, 0))
    await asyncio.to_thread(own_postgres.stop)
    with pytest.raises(StoreUnavailable):
        await keep(impatient, "The impatient one.")
    waiting = asyncio.ensure_future(keep(patient, "The patient one."))
    await asyncio.to_thread(own_postgres.start)
    assert await waiting is False
