"""The ingress deployment, which is the composed agent: the loop runs here and talks to tiers and services over handles."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette

from configs.settings import Settings
from deployments import replica
from serve.edge import Edge, Handles
from serve.http import Boundary, exception_handlers
from serve.mcp import McpApp
from serve.routes import ROUTES


class Gateway:
    """A replica. Serve builds the ASGI app in it and runs its lifespan, so pools open in the replica's own event loop."""

    def __init__(
        self,
        settings: Settings,
        tiers: dict[str, Any],
        embedding: Any,
        memory: Any,
        platform: Any,
        sandbox: Any,
        web: Any,
    ) -> None:
        replica.prepare()
        self._settings = settings
        self._handles = Handles(tiers, embedding, memory, platform, sandbox, web)

    def __serve_build_asgi_app__(self) -> Boundary:
        return app(self._settings, self._handles)


def app(settings: Settings, handles: Handles) -> Boundary:
    """The HTTP application over given handles."""
    mcp = McpApp(settings.http)

    @asynccontextmanager
    async def lifespan(starlette: Starlette) -> AsyncIterator[None]:
        starlette.state.edge = await Edge.open(settings, handles)
        try:
            async with mcp.running():
                yield
        finally:
            await starlette.state.edge.close()

    starlette = Starlette(routes=[*ROUTES, mcp.route], lifespan=lifespan, exception_handlers=exception_handlers())
    starlette.router.redirect_slashes = False
    return Boundary(starlette, settings.http)
