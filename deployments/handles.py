"""Calls over Ray handles as plain async calls: what went wrong on the other side or on the way comes back as our errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import ray.exceptions
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, RayServeException

from configs import settings
from deployments.identity import IdentityRefused
from deployments.tiers.contract import ChatRequest, Delta, EmbedRole, Message
from deployments.tiers.errors import EngineFailed, Overloaded, TierError, TierUnavailable
from memory_store.errors import MemoryStoreError

_OURS = (TierError, MemoryStoreError, IdentityRefused)
_AWAY = (DeploymentUnavailableError, RayServeException, ray.exceptions.RayActorError, ray.exceptions.RaySystemError)


@contextmanager
def translated() -> Iterator[None]:
    """Ray's errors become ours; what a deployment raised of its own comes out as itself."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        cause = getattr(error, "cause", None)
        raise (cause if isinstance(cause, _OURS) else EngineFailed(type(cause).__name__)) from None
    except BackPressureError:
        raise Overloaded("overloaded") from None
    except _AWAY:
        raise TierUnavailable("tier_unavailable") from None


class TierHandle:
    """A chat tier, or one of its adapters; meets `deployments.agent.world.TierPort`."""

    def __init__(self, name: str, tier: settings.ChatTier, handle: Any, adapter: str | None = None) -> None:
        self.name = name
        self.model = f"{tier.engine.model}:{adapter}" if adapter else tier.engine.model
        self._adapter = adapter
        self.window_tokens = tier.engine.context_tokens
        self.max_output_tokens = tier.max_output_tokens
        self.deadline_seconds = tier.deadline_seconds
        self._handle = handle
        self._streaming = handle.options(stream=True)

    async def count(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> int:
        with translated():
            return int(await self._handle.count.remote(messages, tools))

    async def schema_fault(self, schema: dict[str, Any]) -> str | None:
        with translated():
            fault: str | None = await self._handle.schema_fault.remote(schema)
        return fault

    async def load(self) -> dict[str, int]:
        """`{"ongoing", "waiting", "slots"}` of one replica."""
        with translated():
            return dict(await self._handle.load.remote())

    async def chat(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        """Closing the generator cancels the round in the replica."""
        stream = self._streaming.chat.remote(replace(request, adapter=self._adapter))
        try:
            with translated():
                async for delta in stream:
                    yield delta
        finally:
            stream.cancel()


class EmbeddingHandle:
    """The embedding tier. A request that outlasts its deadline finds it unavailable."""

    def __init__(self, handle: Any, deadline_seconds: float) -> None:
        self._handle = handle
        self._deadline_seconds = deadline_seconds
        self._about: dict[str, Any] | None = None

    async def describe(self) -> dict[str, Any]:
        """`{"model", "dimension", "window_tokens"}`, asked once: a graph does not change its model."""
        if self._about is None:
            with translated():
                self._about = dict(await self._handle.describe.remote())
        return self._about

    async def embed(self, texts: Sequence[str], role: EmbedRole) -> tuple[list[list[float]], list[int]]:
        with translated():
            vectors, tokens = await self._within(self._handle.embed.remote(list(texts), role))
            return vectors, tokens

    async def count(self, texts: Sequence[str], role: EmbedRole) -> list[int]:
        with translated():
            return list(await self._within(self._handle.count.remote(list(texts), role)))

    async def _within(self, answer: Any) -> Any:
        try:
            async with asyncio.timeout(self._deadline_seconds):
                return await answer
        except TimeoutError:
            raise TierUnavailable("embedding_deadline") from None


class ServiceHandle:
    """A service that verifies its callers: every call carries a token."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def call(self, method: str, token: str, *arguments: Any) -> Any:
        with translated():
            return await getattr(self._handle, method).remote(token, *arguments)
