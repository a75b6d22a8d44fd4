"""What tools need of the platform, as protocols: the graph gives the real ones, each acting as the caller."""

from __future__ import annotations

from typing import Any, Protocol


class MemoryService(Protocol):
    """The caller's own entries."""

    async def keep(self, kind: str, text: str, source: dict[str, str]) -> dict[str, Any]:
        """The entry kept, with `duplicate_of` where it was there before."""

    async def forget(self, entry: str) -> bool:
        """Whether there was such an entry."""


class PlatformService(Protocol):
    """The platform itself."""

    async def snapshot(self) -> dict[str, Any]:
        """`{"healthy": bool, "tiers": [{"name", "kind", "health", "replicas", "target", "ongoing", "slots"}]}`."""

    def models(self) -> list[dict[str, Any]]:
        """The tiers and agents as `/v1/models` lists them."""
