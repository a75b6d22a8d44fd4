"""The official MCP client on the real graph, in both generations of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.serve.running import RunningService
from tests.serve.test_bounds import sql

pytestmark = [pytest.mark.graph, pytest.mark.timeout(240)]
ACCEPT = {"Accept": "application/json, text/event-stream"}
TOOLS = ("list_models", "platform_status", "radar_latest")


@asynccontextmanager
async def official(service: RunningService, key: str, mode: Any) -> AsyncIterator[Client]:
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60, trust_env=False)
    async with http, Client(streamable_http_client(f"{service.root}/mcp", http_client=http), mode=mode) as client:
        yield client


async def logged(service: RunningService, key: str) -> list[tuple[str, str, str]]:
    """Door, tool and status of the calls made with a key."""
    rows = await sql(
        service,
        "select door, tool, status from ledger.tool_calls join ledger.keys using (subject)"
        " where secret_sha256 = sha256($1::bytea) order by tool",
        key.encode(),
    )
    return [tuple(row) for row in rows]


def called(tool: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}}


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
async def test_the_official_client_lists_and_calls(service: RunningService, key: str, mode: str, version: str) -> None:
    async with official(service, key, mode) as client:
        assert client.protocol_version == version
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert listed >= set(TOOLS) and not listed & {"run_code", "open_page", "remember", "forget"}
        results = [await client.call_tool(name, {}) for name in TOOLS]
    assert not any(result.is_error for result in results)
    models, status, radar = (result.content[0].text for result in results)
    assert "code-reviewer: " in models and "deep" in status and radar
    assert await logged(service, key) == [("mcp", name, "done") for name in TOOLS]


async def test_many_callers_at_once(service: RunningService) -> None:
    """Each in a connection of its own, both generations side by side; every call is in its own caller's log."""
    keys = [service.key(f"crowd-{number}") for number in range(6)]

    async def one(number: int) -> None:
        async with official(service, keys[number], ("legacy", "auto")[number % 2]) as client:
            await asyncio.gather(*(client.call_tool("list_models", {}) for _ in range(5)))

    await asyncio.gather(*map(one, range(6)))
    assert [await logged(service, key) for key in keys] == [[("mcp", "list_models", "done")] * 5] * 6


async def test_C9_a_client_that_leaves_ends_its_call(service: RunningService, key: str) -> None:
    """The platform's replica is halted meanwhile, so the call can end in no other way."""
    (platform,) = service.replicas("platform")
    platform.suspend()
    try:
        async with httpx.AsyncClient(base_url=service.root, headers=ACCEPT, trust_env=False) as http:
            with pytest.raises(httpx.ReadTimeout):
                bearer = {"Authorization": f"Bearer {key}"}
                await http.post("/mcp", json=called("platform_status"), headers=bearer, timeout=1)
        async with asyncio.timeout(10):
            while not (calls := await logged(service, key)):
                await asyncio.sleep(0.1)
    finally:
        platform.resume()
    assert calls == [("mcp", "platform_status", "timed_out")]


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", {"Origin": "http://evil.example"}, 403),
        ("POST", {"Origin": "null"}, 403),
        ("POST", {"Host": "evil.example"}, 421),
        ("POST", {"Authorization": "Bearer rs_nobody"}, 401),
        ("POST", {"Accept": "text/html"}, 406),
        ("GET", {"Last-Event-ID": "1"}, 405),
        ("DELETE", {"Mcp-Session-Id": "a"}, 405),
        ("HEAD", {}, 405),
        ("OPTIONS", {"Access-Control-Request-Method": "POST"}, 405),
    ],
)
def test_refusals_come_through_the_proxy(
    service: RunningService, http: httpx.Client, method: str, headers: dict[str, str], status: int
) -> None:
    response = http.request(method, "/mcp", json=called("list_models"), headers=ACCEPT | headers)
    assert response.status_code == status
    assert "mcp-session-id" not in response.headers and "access-control-allow-origin" not in response.headers


def test_C11_a_large_body(http: httpx.Client) -> None:
    body = called("list_models") | {"more": "a" * 5_000_000}
    assert http.post("/mcp", json=body, headers=ACCEPT).status_code == 413
