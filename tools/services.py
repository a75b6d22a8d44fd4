"""What tools need of the platform, as protocols: the graph gives the real ones, each acting as the caller."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal, Protocol

Resource = Literal["runs", "pages"]


class MemoryService(Protocol):
    """The caller's own entries."""

    async def keep(self, kind: str, text: str, source: dict[str, str]) -> dict[str, Any]:
        """The entry kept, with `duplicate_of` where it was there before."""

    async def forget(self, entry: str) -> bool:
        """Whether there was such an entry."""


class PlatformService(Protocol):
    """The platform itself. Raises PlatformBroken."""

    async def snapshot(self) -> dict[str, Any]:
        """`{"healthy": bool, "tiers": [{"name", "kind", "health", "replicas", "target", "ongoing", "slots"}]}`."""

    def models(self) -> list[dict[str, Any]]:
        """The tiers and agents as `/v1/models` lists them."""

    async def radar(self, limit: int) -> list[dict[str, str]]:
        """The latest digests, newest first: `{"title", "published", "summary", "url"}`. Raises ModelShouldKnow."""

    async def remote(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What a service of the platform answers to the caller. Raises ModelShouldRetry, ModelShouldKnow."""


class SandboxService(Protocol):
    """Programs, each in walls of its own."""

    async def run(self, program: str) -> dict[str, Any]:
        """The fields of `deployments.sandbox.Result`. Raises ModelShouldRetry, PlatformBroken."""


class WebService(Protocol):
    """Public pages."""

    async def open(self, url: str) -> dict[str, Any]:
        """`{"url", "host", "title", "text", "links", "size_bytes", "truncated"}`. Raises PageRefused, PlatformBroken."""


class Allowance(Protocol):
    """What the caller may use of what is counted by the day."""

    def spending(self, resource: Resource) -> AbstractAsyncContextManager[None]:
        """One of it is counted for the block, and given back where the block raises PlatformBroken, or PageRefused before
        anything was sent.

        Raises ModelShouldKnow when nothing is left of today's.
        """


class Unlimited:
    """Where nothing counted is offered."""

    @asynccontextmanager
    async def spending(self, resource: Resource) -> AsyncIterator[None]:
        yield
