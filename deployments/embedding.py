"""The embedding tier as a deployment: CPU only, texts in, unit vectors out. It keeps nothing and knows no subject."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from configs import settings
from deployments import replica
from deployments.batching import Batcher
from deployments.tiers.contract import EmbedRole
from deployments.tiers.engines import embedding_engine

Embedded = tuple[list[float], int]


class Embedding:
    """One engine a replica, which computes one batch of its requests at a time; `weights` is the cache folder."""

    def __init__(self, tier: settings.EmbedTier, weights: Path) -> None:
        replica.prepare()
        self._engine = embedding_engine(tier, weights)
        self._engine.start()
        self._computing = ThreadPoolExecutor(1, thread_name_prefix="embed")
        self._counting = ThreadPoolExecutor(1, thread_name_prefix="count")  # counts need not wait for a batch
        self._batches: Batcher[EmbedRole, str, Embedded] = Batcher(self._compute, tier.engine.batch_texts, len)

    async def describe(self) -> dict[str, Any]:
        """`{"model", "dimension", "window_tokens"}`."""
        engine = self._engine
        return {"model": engine.model, "dimension": engine.dimension, "window_tokens": engine.window_tokens}

    async def embed(self, texts: Sequence[str], role: EmbedRole) -> tuple[list[list[float]], list[int]]:
        """Vectors and tokens of the texts, each cut to the model's window."""
        embedded = await self._batches.run(role, texts)
        return [vector for vector, _ in embedded], [tokens for _, tokens in embedded]

    async def count(self, texts: Sequence[str], role: EmbedRole) -> list[int]:
        """Tokens of each text."""
        return await asyncio.get_running_loop().run_in_executor(self._counting, self._engine.count, texts, role)

    async def check_health(self) -> None:
        """Asked by Serve; a replica that fails is replaced."""
        await self._engine.healthy()

    async def _compute(self, role: EmbedRole, texts: list[str]) -> list[Embedded]:
        loop = asyncio.get_running_loop()
        vectors, tokens = await loop.run_in_executor(self._computing, self._engine.embed, texts, role)
        return list(zip(vectors, tokens, strict=True))
