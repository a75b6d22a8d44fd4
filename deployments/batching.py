"""Many small requests computed together, as fast as one large one.

`ray.serve.batch` is not used: it takes a batch from its queue before the one under way has ended, so that under load a
batch holds what came first alone, often one text; and it can neither split a request nor keep roles apart.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")


class _Request(Generic[Key, Item, Result]):
    """Items that wait, the nearest in length side by side, and the results that have come."""

    def __init__(self, key: Key, items: Sequence[Item], length: Callable[[Item], int]) -> None:
        self.key = key
        self.items = items
        self.waiting = deque(sorted(range(len(items)), key=lambda place: length(items[place])))
        self.results: dict[int, Result] = {}
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def keep(self, place: int, result: Result) -> None:
        self.results[place] = result
        if len(self.results) == len(self.items) and not self.done.done():
            self.done.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class Batcher(Generic[Key, Item, Result]):
    """One batch at a time, made of what arrived while the one before was computed; an idle one begins at once.

    Items of one key go together, at most `most` in a batch. Waiting requests give an item each in turn, so that a single
    text need not wait for a long list.
    """

    def __init__(
        self,
        compute: Callable[[Key, list[Item]], Awaitable[Sequence[Result]]],
        most: int,
        length: Callable[[Item], int],
    ) -> None:
        self._compute = compute
        self._most = most
        self._length = length
        self._requests: deque[_Request[Key, Item, Result]] = deque()
        self._worker: asyncio.Task[None] | None = None

    async def run(self, key: Key, items: Sequence[Item]) -> list[Result]:
        """The items' results in their order. Raises what `compute` raised for a batch with one of them.

        A caller that is cancelled takes its waiting items with it and disturbs no other.
        """
        if not items:
            return []
        request: _Request[Key, Item, Result] = _Request(key, items, self._length)
        self._requests.append(request)
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        await request.done
        return [request.results[place] for place in range(len(items))]

    async def _work(self) -> None:
        try:
            while batch := self._next():
                await self._settle(batch)
        finally:
            self._worker = None

    def _next(self) -> list[tuple[_Request[Key, Item, Result], int]]:
        """The next batch, of the first request's key. Who gave and still has items goes behind those who gave none."""
        waiting = [one for one in self._requests if one.waiting and not one.done.done()]
        served = deque(one for one in waiting if one.key == waiting[0].key)
        others = [one for one in waiting if one.key != waiting[0].key]
        batch: list[tuple[_Request[Key, Item, Result], int]] = []
        while served and len(batch) < self._most:
            request = served.popleft()
            batch.append((request, request.waiting.popleft()))
            if request.waiting:
                served.append(request)
        self._requests = deque([*others, *served])
        return batch

    async def _settle(self, batch: list[tuple[_Request[Key, Item, Result], int]]) -> None:
        key = batch[0][0].key
        try:
            results = await self._compute(key, [request.items[place] for request, place in batch])
            for (request, place), result in zip(batch, results, strict=True):
                request.keep(place, result)
        except Exception as error:
            for request, _ in batch:
                request.fail(error)
