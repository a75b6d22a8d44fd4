"""The platform's other services, called through the operator's gateway as the caller.

The gateway gets an identity token made for it, never the caller's own credential, and decides itself what the caller may do.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping
from typing import Any

import httpx

from configs.settings import Settings
from deployments.tiers.errors import EngineFailed
from tools.errors import ModelShouldKnow, ModelShouldRetry

_REFUSED = {401: "does not know the person", 403: "does not allow this to the person", 404: "has no such thing"}


class Remote:
    """HTTP calls to `gateway.base_url`: no redirect is followed, no proxy asked, nothing else of the caller sent."""

    def __init__(self, settings: Settings) -> None:
        self._gateway = settings.gateway
        self._tools = {entry.name: entry for entry in settings.remote_tools}

    async def call(self, name: str, token: str, arguments: Mapping[str, Any]) -> str:
        """What the service answers, as text. Raises ModelShouldRetry, ModelShouldKnow, EngineFailed."""
        entry = self._tools[name]
        if entry.method == "GET":
            raw = await self._send("GET", entry.path, token, params=_query(arguments))
        else:
            raw = await self._send("POST", entry.path, token, json=dict(arguments))
        return raw.decode("utf-8", "replace")

    async def get(self, path: str, token: str) -> bytes:
        """The body of a GET. Raises as `call`."""
        return await self._send("GET", path, token)

    async def _send(self, method: str, path: str, token: str, **more: Any) -> bytes:
        if self._gateway.base_url is None:
            raise ModelShouldKnow("This platform has no gateway to its other services.")
        url = self._gateway.base_url.rstrip("/") + path
        headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
        try:
            async with (
                asyncio.timeout(self._gateway.deadline_seconds),
                httpx.AsyncClient(trust_env=False, timeout=self._gateway.deadline_seconds) as http,
                http.stream(method, url, headers=headers, **more) as response,
            ):
                return await self._body(response)
        except (httpx.HTTPError, TimeoutError) as error:
            raise EngineFailed(type(error).__name__) from None

    async def _body(self, response: httpx.Response) -> bytes:
        _check(response.status_code)
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > self._gateway.answer_bytes:
                raise ModelShouldKnow("The service's answer is too long to be read.")
        return bytes(body)

    async def refusable(self, work: Awaitable[Any]) -> dict[str, Any]:
        """The result as `{"answer"}`, or `{"refused", "kind"}`: Ray would log an error that crosses its handle."""
        try:
            return {"answer": await work}
        except ModelShouldRetry as error:
            return {"refused": str(error), "kind": "retry"}
        except ModelShouldKnow as error:
            return {"refused": str(error), "kind": "know"}


def _check(status: int) -> None:
    """Raises for an answer that is none."""
    if status in (400, 422):
        raise ModelShouldRetry("The service does not understand these arguments.")
    if status in _REFUSED:
        raise ModelShouldKnow(f"The service {_REFUSED[status]}.")
    if status == 429:
        raise ModelShouldKnow("The service has too many requests now; try later.")
    if not 200 <= status < 300:
        raise EngineFailed(f"http_{status}")


def _query(arguments: Mapping[str, Any]) -> dict[str, str]:
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()}
