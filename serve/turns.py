"""A turn that runs while its answer is sent. It runs in a task of its own, so that its deadline holds however slowly the
client reads, and it ends when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from deployments.agent.events import Event

Emit = Callable[[Event], None]


class RunningTurn:
    """Starts at once; `batches` gives its events, each time all that are ready."""

    def __init__(self, run: Callable[[Emit], Awaitable[None]]) -> None:
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._task = asyncio.ensure_future(self._run(run))

    async def _run(self, run: Callable[[Emit], Awaitable[None]]) -> None:
        try:
            await run(self._events.put_nowait)
        finally:
            self._events.put_nowait(None)

    async def batches(self) -> AsyncIterator[list[Event]]:
        """Events in order until the turn ends; then raises what the turn raised."""
        while True:
            batch, ended = self._drain(await self._events.get())
            if batch:
                yield batch
            if ended:
                await self._task
                return

    def _drain(self, first: Event | None) -> tuple[list[Event], bool]:
        batch: list[Event] = []
        event = first
        while event is not None:
            batch.append(event)
            if self._events.empty():
                return batch, False
            event = self._events.get_nowait()
        return batch, True

    async def close(self) -> None:
        """End the turn if it still runs, and wait until it has settled."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()  # looked at here: whoever cared got it from `batches`
