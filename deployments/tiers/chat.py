"""A chat tier as a deployment: one engine a replica, so many generations side by side, so many waiting, the rest refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from configs import settings
from deployments import replica
from deployments.tiers.contract import ChatRequest, Delta, Message
from deployments.tiers.engines import chat_engine
from deployments.tiers.errors import EngineFailed, Overloaded

Prefix = tuple[list[Message], list[dict[str, Any]]]


class ChatTier:
    """The replica is ready when the weights are loaded and the agents' prefixes have been read once."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self, name: str, tier: settings.ChatTier, weights: Path, prefixes: Sequence[Prefix], prefill: Any = None
    ) -> None:
        """`weights` is the cache folder; `prefill` the handle of the tier's prefill replicas, where it has any."""
        replica.prepare()
        self._engine = chat_engine(name, tier, weights, prefill)
        self._slots = asyncio.Semaphore(tier.slots)
        self._most_ongoing, self._most_waiting = tier.slots, tier.queue
        self._ongoing = self._waiting = 0
        await self._engine.start()
        for messages, tools in prefixes:
            await self._warm(messages, tools)

    async def count(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> int:
        """Tokens of the prompt these make."""
        return await self._engine.count(messages, tools)

    async def schema_fault(self, schema: dict[str, Any]) -> str | None:
        """Why an answer cannot be held to this schema, None when it can."""
        return self._engine.schema_fault(schema)

    async def chat(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        """One round. Raises Overloaded, SchemaUnsupported, EngineFailed."""
        async with self._slot(), aclosing(self._engine.chat(request)) as deltas:
            async for delta in deltas:
                yield delta

    async def load(self) -> dict[str, int]:
        """Generations under way and waiting in this replica, and its slots."""
        return {"ongoing": self._ongoing, "waiting": self._waiting, "slots": self._most_ongoing}

    async def check_health(self) -> None:
        """Asked by Serve; a replica that fails is replaced."""
        if not await self._engine.healthy():
            raise EngineFailed("unhealthy")

    def __del__(self) -> None:
        """Called by Serve when the replica is shut down, and again when the object goes."""
        if engine := self.__dict__.pop("_engine", None):
            engine.stop()

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        if self._slots.locked() and self._waiting >= self._most_waiting:
            raise Overloaded("overloaded")
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        self._ongoing += 1
        try:
            yield
        finally:
            self._ongoing -= 1
            self._slots.release()

    async def _warm(self, messages: list[Message], tools: list[dict[str, Any]]) -> None:
        async with aclosing(self._engine.chat(ChatRequest(messages, 1, tools))) as deltas:
            async for _ in deltas:
                pass
