"""Batches under a scripted computation that waits until it is let go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.batching import Batcher


@dataclass
class Scripted:
    """Makes a text's result of the text; each batch waits for its turn in `go`."""

    batches: list[tuple[str, list[str]]] = field(default_factory=list)
    go: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    begun: asyncio.Queue[list[str]] = field(default_factory=asyncio.Queue)
    fails: Callable[[list[str]], bool] = lambda _: False

    async def __call__(self, key: str, texts: list[str]) -> list[str]:
        self.batches.append((key, texts))
        self.begun.put_nowait(texts)
        await self.go.acquire()
        if self.fails(texts):
            raise ValueError("broken")
        return [f"{key}:{text}" for text in texts]

    def let_go(self, batches: int = 1000) -> None:
        for _ in range(batches):
            self.go.release()


def batcher(scripted: Scripted, most: int = 4) -> Batcher[str, str, str]:
    return Batcher(scripted, most, len)


async def asked(batches: Batcher[str, str, str], *texts: str, key: str = "k") -> asyncio.Task[list[str]]:
    """A request that has already taken its place."""
    task = asyncio.create_task(batches.run(key, list(texts)))
    await asyncio.sleep(0)
    return task


async def test_an_idle_one_begins_at_once_and_the_next_batch_is_what_came_meanwhile() -> None:
    scripted = Scripted()
    batches = batcher(scripted)
    first = await asked(batches, "a")
    assert await scripted.begun.get() == ["a"]
    others = [await asked(batches, text) for text in "bcd"]
    assert len(scripted.batches) == 1
    scripted.let_go()
    assert [await one for one in [first, *others]] == [["k:a"], ["k:b"], ["k:c"], ["k:d"]]
    assert scripted.batches == [("k", ["a"]), ("k", ["b", "c", "d"])]


async def test_requests_of_one_moment_go_together() -> None:
    scripted = Scripted()
    scripted.let_go()
    batches = batcher(scripted)
    await asyncio.gather(*(batches.run("k", [text]) for text in "abcd"))
    assert scripted.batches == [("k", ["a", "b", "c", "d"])]


async def test_a_list_is_cut_into_batches_of_like_lengths_and_answered_in_order() -> None:
    scripted = Scripted()
    scripted.let_go()
    texts = ["a" * length for length in (7, 1, 5, 2, 8, 3)]
    assert await batcher(scripted, most=2).run("k", texts) == [f"k:{text}" for text in texts]
    assert [[len(text) for text in batch] for _, batch in scripted.batches] == [[1, 2], [3, 5], [7, 8]]


async def test_nothing_is_computed_for_no_texts() -> None:
    scripted = Scripted()
    assert await batcher(scripted).run("k", []) == []
    assert scripted.batches == []


async def test_the_same_text_twice_is_answered_twice() -> None:
    scripted = Scripted()
    scripted.let_go()
    assert await batcher(scripted).run("k", ["a", "a"]) == ["k:a", "k:a"]


async def test_keys_are_kept_apart_and_each_has_its_turn() -> None:
    scripted = Scripted()
    batches = batcher(scripted, most=2)
    first = await asked(batches, "a")
    await scripted.begun.get()
    many = await asked(batches, "b", "c", "d", "e", key="passage")
    other = await asked(batches, "f", key="query")
    scripted.let_go()
    assert await many == ["passage:b", "passage:c", "passage:d", "passage:e"]
    assert (await first, await other) == (["k:a"], ["query:f"])
    assert [key for key, _ in scripted.batches] == ["k", "passage", "query", "passage"]


async def test_a_single_text_does_not_wait_for_a_long_list() -> None:
    scripted = Scripted()
    batches = batcher(scripted, most=4)
    many = await asked(batches, *(f"m{number:03}" for number in range(100)))
    await scripted.begun.get()
    single = await asked(batches, "s")
    scripted.let_go(2)
    assert await single == ["k:s"]
    assert not many.done()
    scripted.let_go()
    assert len(await many) == 100
    assert max(len(batch) for _, batch in scripted.batches) == 4


async def test_a_waiting_request_that_is_cancelled_is_not_computed() -> None:
    scripted = Scripted()
    batches = batcher(scripted)
    first = await asked(batches, "a")
    await scripted.begun.get()
    gone, kept = await asked(batches, "gone"), await asked(batches, "kept")
    gone.cancel()
    scripted.let_go()
    assert (await first, await kept) == (["k:a"], ["k:kept"])
    assert gone.cancelled()
    assert scripted.batches == [("k", ["a"]), ("k", ["kept"])]


async def test_the_request_that_began_a_batch_may_be_cancelled_in_it() -> None:
    scripted = Scripted()
    batches = batcher(scripted)
    tasks = [asyncio.create_task(batches.run("k", [text])) for text in "ab"]
    assert await scripted.begun.get() == ["a", "b"]
    tasks[0].cancel()
    await asyncio.wait(tasks[:1])
    scripted.let_go()
    assert await tasks[1] == ["k:b"]
    assert await batches.run("k", ["c"]) == ["k:c"]


async def test_a_failure_is_told_to_its_batch_alone() -> None:
    scripted = Scripted(fails=lambda texts: "bad" in texts)
    batches = batcher(scripted, most=2)
    first = await asked(batches, "a")
    await scripted.begun.get()
    bad, beside = await asked(batches, "bad", "long-1", "long-2"), await asked(batches, "b")
    later = await asked(batches, "c", key="other")
    scripted.let_go()
    outcomes = await asyncio.gather(first, bad, beside, later, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [list, ValueError, ValueError, list]
    assert [batch for _, batch in scripted.batches] == [["a"], ["bad", "b"], ["c"]]
    assert await batches.run("k", ["d"]) == ["k:d"]


async def test_a_computation_that_loses_a_result_fails_and_hangs_nobody() -> None:
    async def losing(key: str, texts: list[str]) -> list[str]:
        return texts[1:]

    with pytest.raises(ValueError):
        await Batcher(losing, 4, len).run("k", ["a", "b"])


@given(st.lists(st.tuples(st.sampled_from(["query", "passage"]), st.lists(st.text(max_size=8), max_size=9)), max_size=9),
       st.integers(1, 5))  # fmt: skip
def test_everyone_gets_the_results_of_their_own_texts(requests: list[tuple[str, list[str]]], most: int) -> None:
    async def all_at_once() -> tuple[list[list[str]], Scripted]:
        scripted = Scripted()
        scripted.let_go()
        batches = batcher(scripted, most)
        return await asyncio.gather(*(batches.run(key, texts) for key, texts in requests)), scripted

    answers, scripted = asyncio.run(all_at_once())
    assert answers == [[f"{key}:{text}" for text in texts] for key, texts in requests]
    assert all(len(batch) <= most for _, batch in scripted.batches)
    assert sum(len(batch) for _, batch in scripted.batches) == sum(len(texts) for _, texts in requests)
