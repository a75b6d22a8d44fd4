"""The door for MCP clients, in this process: the real application over a real ledger, with a platform of the tests' own.

Names of cases (C1 …) are those of the security cases.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)

from configs import loader
from configs.settings import ALL_RIGHTS, Oidc, Right, Settings
from deployments.identity import Verifier, make_keys
from deployments.ledger.errors import LedgerUnavailable
from deployments.ledger.keys import KeyRing
from memory_store.embedded import EmbeddedPostgres
from serve import gateway
from serve.edge import Edge, Handles
from serve.mcp import McpApp
from tests.conftest import Database, cloned
from tests.serve.conftest import AUDIENCE, ISSUER, Issuer
from tools.errors import PlatformBroken
from tools.table import TABLE
from tools.tool import Context, Tool

PROFILE = Path(__file__).parents[2] / "configs" / "local.yaml"
ROOT = "http://127.0.0.1:8000"
OLD, NEW = "2025-11-25", "2026-07-28"
ANY = {"type": "object"}
BOTH = pytest.mark.parametrize("era", [OLD, NEW])


class OurPlatform:
    """The platform behind its handle: looks at the token, and remembers all it was handed."""

    def __init__(self, home: Path) -> None:
        self._verifier = Verifier("caller", home / "secrets", "platform")
        self.handed: list[Any] = []

    def __getattr__(self, method: str) -> Any:
        return SimpleNamespace(remote=getattr(self, f"_{method}"))

    async def _snapshot(self, token: str) -> dict[str, Any]:
        self._verifier.verify(token)
        self.handed += [token]
        return {"healthy": True, "tiers": []}

    async def _radar(self, token: str, gateway_token: str, limit: int) -> dict[str, Any]:
        self._verifier.verify(token)
        self.handed += [token, gateway_token, limit]
        one = {"title": "Half a pair \ud83d", "published": "2026-01-02T00:00:00Z", "summary": "Words.", "url": ""}
        return {"answer": [one] * limit}


class Tools:
    """Reviewed tools that hang, break and tell who called, and one that is not reviewed; `ran` has who ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.began, self.goes_on, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.error: Exception = RuntimeError()

    def table(self) -> dict[str, Tool]:
        own = {"hangs": self._hang, "breaks": self._break, "tells": self._tell, "echoes": self._echo}
        reads = {name: Tool(name, f"It {name}.", ANY, "tools.read", "read", run) for name, run in own.items()}
        acts = Tool("acts", "An operator's own.", ANY, "tools.read", "act", self._tell)
        return TABLE | reads | {"acts": acts}

    async def _hang(self, context: Context, arguments: dict[str, Any]) -> str:
        self.began.set()
        try:
            await self.goes_on.wait()
        finally:
            self.ended.set()
        return "went on"

    async def _break(self, context: Context, arguments: dict[str, Any]) -> str:
        raise self.error

    async def _tell(self, context: Context, arguments: dict[str, Any]) -> str:
        self.ran.append(context.caller.subject)
        await asyncio.sleep(0)
        return context.caller.subject

    async def _echo(self, context: Context, arguments: dict[str, Any]) -> str:
        return json.dumps(arguments)


class House:
    """The application as one test sees it: tools of its own, and subjects nobody else has; `calls` is their audit log."""

    def __init__(self, app: Any, edge: Edge, platform: OurPlatform, database: Database) -> None:
        self.app, self.edge, self.platform, self._database = app, edge, platform, database
        self.keys = KeyRing(edge.ledger, edge.settings.limits)
        self.tools = Tools()
        self._suffix = secrets.token_hex(6)

    def name(self, person: str = "ana") -> str:
        return f"{person}.{self._suffix}"

    @property
    def ana(self) -> str:
        """The subject of `key()`."""
        return f"key|{self.name()}"

    async def key(self, person: str = "ana", rights: tuple[Right, ...] = ALL_RIGHTS, **limits: int) -> str:
        return (await self.keys.issue(self.name(person), rights, limits, None))[1]

    @asynccontextmanager
    async def http(self, key: str | None) -> AsyncIterator[httpx.AsyncClient]:
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url=ROOT, headers=bearer(key)) as one:
            yield one

    async def ask(
        self,
        era: str,
        method: str,
        params: Mapping[str, Any] | None = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """One message as a client of that version sends it."""
        async with self.http(key or await self.key()) as http:
            sent, body = message(era, method, params)
            return await http.post("/mcp", json=body, headers={**sent, **(headers or {})})

    async def call(self, era: str, tool: str, arguments: Any = None, **more: Any) -> httpx.Response:
        params = {"name": tool} if arguments is None else {"name": tool, "arguments": arguments}
        return await self.ask(era, "tools/call", params, **more)

    @asynccontextmanager
    async def client(self, mode: Any, key: str) -> AsyncIterator[Client]:
        """The official client."""
        http = httpx2.AsyncClient(transport=httpx2.ASGITransport(self.app), headers=bearer(key))
        async with http, Client(streamable_http_client(f"{ROOT}/mcp", http_client=http), mode=mode) as client:
            yield client

    async def calls(self) -> list[tuple[str, str, str, str]]:
        """Subject, door, tool and status, sorted."""
        rows = await self._database.rows(
            "select subject, door, tool, status from ledger.tool_calls where subject like $1 order by 1, 2, 3, 4",
            f"%{self._suffix}",
        )
        return [tuple(row) for row in rows]


def bearer(key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def message(era: str, method: str, params: Mapping[str, Any] | None = None) -> tuple[dict[str, str], dict[str, Any]]:
    """Headers and body of a request."""
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": era}
    said = dict(params or {})
    if era == NEW:
        said["_meta"] = {PROTOCOL_VERSION_META_KEY: NEW, CLIENT_CAPABILITIES_META_KEY: {}}
        headers |= {"Mcp-Method": method} | ({"Mcp-Name": said["name"]} if "name" in said else {})
    return headers, {"jsonrpc": "2.0", "id": 1, "method": method, "params": said}


def failed(response: httpx.Response, status: int, code: int = INVALID_REQUEST) -> str:
    """The message of a JSON-RPC error."""
    assert response.status_code == status, response.text
    body = response.json()
    assert body["jsonrpc"] == "2.0" and body["error"]["code"] == code, body
    assert "mcp-session-id" not in response.headers
    return str(body["error"]["message"])


def told(response: httpx.Response) -> dict[str, Any]:
    """The result."""
    assert response.status_code == 200, response.text
    assert "mcp-session-id" not in response.headers
    result: dict[str, Any] = response.json()["result"]
    return result


def text(response: httpx.Response, error: bool = False) -> str:
    """The text of a tool's result."""
    result = told(response)
    assert result.get("isError", False) is error, result
    (content,) = result["content"]
    return str(content["text"])


@asynccontextmanager
async def running(app: Any) -> AsyncIterator[None]:
    """The application between startup and shutdown, in a task of its own as under a server."""
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    outbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    served = asyncio.ensure_future(app({"type": "lifespan", "asgi": {"version": "3.0"}}, inbox.get, outbox.put))
    await inbox.put({"type": "lifespan.startup"})
    assert await outbox.get() == {"type": "lifespan.startup.complete"}
    yield
    await inbox.put({"type": "lifespan.shutdown"})
    await served
    assert await outbox.get() == {"type": "lifespan.shutdown.complete"}


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mcp")
    (folder / "secrets").mkdir()
    make_keys(folder / "secrets")
    (folder / "secrets" / "answers.key").write_bytes(b"k" * 32)
    return folder


@pytest.fixture(scope="session")
def issuer(home: Path) -> Issuer:
    return Issuer(home)


@pytest.fixture(scope="session")
def settings(home: Path, issuer: Issuer) -> Settings:
    profile = loader.load(PROFILE)
    oidc = Oidc(
        issuer=ISSUER, audience=AUDIENCE, jwks=issuer.jwks, algorithms=["EdDSA"], default_rights=list(ALL_RIGHTS)
    )
    changes = {
        "data": profile.data.model_copy(update={"home": home}),
        "http": profile.http.model_copy(update={"hosts": ["recall.example"]}),
        "auth": profile.auth.model_copy(update={"oidc": oidc, "failures_per_minute": 1000}),
    }
    return profile.model_copy(update=changes)


class Nothing:
    """No upkeep in tests."""

    async def close(self) -> None:
        """Nothing was opened."""


@pytest.fixture(scope="session")
async def served(
    settings: Settings, home: Path, postgres: EmbeddedPostgres, template: str, superuser: Any
) -> AsyncIterator[tuple[Any, Edge, OurPlatform, Database]]:
    """The real application, started once over a database of its own."""
    async with cloned(postgres, template, superuser) as database:
        platform = OurPlatform(home)
        handles = Handles({}, None, None, platform)
        edge = Edge(settings, handles, await database.ledger(), Nothing(), {})  # type: ignore[arg-type]

        async def opened(*_: Any) -> Edge:
            return edge

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Edge, "open", opened)
            app = gateway.app(settings, handles)
            async with running(app):
                yield app, edge, platform, database


@pytest.fixture
def house(served: tuple[Any, Edge, OurPlatform, Database]) -> House:
    house = House(*served)
    house.edge.tools = house.tools.table()
    house.platform.handed.clear()
    return house


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """All that reaches the root logger, where files and terminals listen; every logger says what it can."""
    text, root, sdk = io.StringIO(), logging.getLogger(), logging.getLogger("mcp")
    handler, level = logging.StreamHandler(text), root.level
    root.addHandler(handler)
    for one in (root, sdk):
        one.setLevel(logging.DEBUG)
    yield text
    root.removeHandler(handler)
    root.setLevel(level)
    sdk.setLevel(logging.NOTSET)


# The official client


@pytest.mark.parametrize(("mode", "version"), [("legacy", OLD), ("auto", NEW), (NEW, NEW)])
async def test_the_official_client_lists_and_calls(house: House, mode: str, version: str) -> None:
    key = await house.key()
    async with house.client(mode, key) as client:
        assert client.protocol_version == version
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"platform_status", "list_models", "radar_latest"} <= set(tools)
        assert not {"run_code", "open_page", "remember", "forget", "acts"} & set(tools)
        results = {
            name: await client.call_tool(name, {"limit": 2} if name == "radar_latest" else {})
            for name in ("platform_status", "list_models", "radar_latest")
        }
    texts = {name: result.content[0].text for name, result in results.items()}
    assert not any(result.is_error for result in results.values())
    assert texts["platform_status"].startswith("The platform is healthy.")
    assert "code-reviewer: " in texts["list_models"]
    assert (
        texts["radar_latest"] == "- Half a pair ? (2026-01-02): Words.\n" * 1 + "- Half a pair ? (2026-01-02): Words."
    )
    assert await house.calls() == [
        (house.ana, "mcp", name, "done") for name in ("list_models", "platform_status", "radar_latest")
    ]


async def test_a_listed_tool_is_described_as_it_is(house: House) -> None:
    (radar,) = [one for one in told(await house.ask(OLD, "tools/list"))["tools"] if one["name"] == "radar_latest"]
    assert radar == {
        "name": "radar_latest",
        "description": TABLE["radar_latest"].description,
        "inputSchema": TABLE["radar_latest"].parameters,
        "annotations": {"readOnlyHint": True, "openWorldHint": True},
    }


@pytest.mark.parametrize("asked", ["2024-11-05", "2025-03-26", "2025-06-18", OLD, "1999-01-01", NEW])
async def test_initialize_agrees_on_a_version(house: House, asked: str) -> None:
    """C5: and opens no session."""
    params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "bar", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    async with house.http(await house.key()) as http:
        result = told(await http.post("/mcp", json=body, headers={"Accept": "application/json, text/event-stream"}))
    assert result["protocolVersion"] == (asked if asked < OLD and asked != "1999-01-01" else OLD)
    assert result["serverInfo"]["name"] == "recall-serve"
    assert set(result["capabilities"]) == {"tools"}


async def test_a_version_nobody_knows_is_refused_with_those_that_are_served(house: House) -> None:
    headers, body = message(NEW, "tools/list")
    body["params"]["_meta"][PROTOCOL_VERSION_META_KEY] = "2099-01-01"
    async with house.http(await house.key()) as http:
        response = await http.post("/mcp", json=body, headers=headers | {"MCP-Protocol-Version": "2099-01-01"})
    failed(response, 400, UNSUPPORTED_PROTOCOL_VERSION)
    assert response.json()["error"]["data"]["supported"] == [NEW]


@BOTH
@pytest.mark.parametrize("method", ["resources/list", "prompts/list", "logging/setLevel", "subscriptions/listen", "x"])
async def test_what_is_not_offered_is_not_found(house: House, era: str, method: str) -> None:
    params = {"level": "info"} if method == "logging/setLevel" else {}
    answer = await house.ask(era, method, params)
    if method == "subscriptions/listen" and era == NEW:
        failed(answer, 400, INVALID_PARAMS)
    else:
        failed(answer, 404 if era == NEW else 200, METHOD_NOT_FOUND)


@BOTH
async def test_there_is_one_page(house: House, era: str) -> None:
    status = 400 if era == NEW else 200
    failed(await house.ask(era, "tools/list", {"cursor": "abc"}), status, INVALID_PARAMS)


# C1: where it comes from


@pytest.mark.parametrize(
    "origin",
    [None, ROOT, "http://LOCALHOST:8000", "https://localhost:8000", "http://[::1]:8000", "https://recall.example"],
)
async def test_C1_own_origins_and_none_may_ask(house: House, origin: str | None) -> None:
    told(await house.ask(OLD, "ping", headers={"Origin": origin} if origin else {}))


@BOTH
@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://evil.example",
        "http://127.0.0.1:8001",
        "http://127.0.0.1",
        "http://127.0.0.1:8000.evil.example",
        "http://localhost:8000@evil.example",
        "http://127.0.0.1.evil.example:8000",
        "http://recall.example:8000",
        "ftp://127.0.0.1:8000",
        "127.0.0.1:8000",
        f"{ROOT}/",
        f"{ROOT}, http://evil.example",
        "chrome-extension://abcdef",
    ],
)
async def test_C1_other_origins_may_not(house: House, era: str, origin: str) -> None:
    response = await house.call(era, "tells", headers={"Origin": origin})
    failed(response, 403)
    assert not [name for name in response.headers if name.startswith("access-control-")]
    assert house.tools.ran == []


async def test_C1_a_second_origin_does_not_hide_behind_the_first(house: House) -> None:
    headers, body = message(OLD, "ping")
    sent = [*headers.items(), ("Origin", ROOT), ("Origin", "http://evil.example")]
    async with house.http(await house.key()) as http:
        failed(await http.post("/mcp", json=body, headers=sent), 403)


@pytest.mark.parametrize("host", ["evil.example", "localhost:evil", "127.0.0.1.evil", "localhost", ""])
async def test_C1_P07_another_host_is_misdirected(house: House, host: str) -> None:
    response = await house.ask(OLD, "ping", headers={"Host": host})
    assert response.status_code == 421


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8000", "localhost:8000", "[::1]:8000", "recall.example", "0.0.0.0:8000", "example.com"]
)
async def test_C1_origins_are_those_of_the_hosts_served(house: House, host: str) -> None:
    by_host = await house.ask(OLD, "ping", headers={"Host": host})
    by_origin = await house.ask(OLD, "ping", headers={"Origin": f"http://{host}"})
    assert (by_host.status_code == 200) == (by_origin.status_code == 200)


# C2, C7, C8: form


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("key", [False, True], ids=["without a key", "with one"])
async def test_C2_C7_there_is_nothing_but_POST(house: House, method: str, key: bool) -> None:
    headers = {"Mcp-Session-Id": "a", "Last-Event-ID": "1", "Accept": "text/event-stream"}
    async with house.http(await house.key() if key else None) as http:
        response = await http.request(method, "/mcp", headers=headers)
    assert response.status_code == 405 and (method == "HEAD" or failed(response, 405))
    assert response.headers["allow"] == "POST"
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize("method", ["GET", "OPTIONS", "DELETE"])
async def test_C1_P06_an_origin_is_looked_at_before_the_method(house: House, method: str) -> None:
    async with house.http(None) as http:
        response = await http.request(
            method, "/mcp", headers={"Origin": "null", "Access-Control-Request-Method": "POST"}
        )
    failed(response, 403)
    assert not [name for name in response.headers if name.startswith("access-control-")]


@BOTH
@pytest.mark.parametrize("accept", [None, "", "application/jsonp", "text/html", "text/event-stream"])
async def test_C2_an_answer_in_JSON_must_be_acceptable(house: House, era: str, accept: str | None) -> None:
    headers, body = message(era, "tools/call", {"name": "tells"})
    async with house.http(await house.key()) as http:
        request = http.build_request("POST", "/mcp", json=body, headers=headers)
        del request.headers["accept"]
        if accept is not None:
            request.headers["accept"] = accept
        assert (await http.send(request)).status_code == 406
    assert house.tools.ran == []


@BOTH
@pytest.mark.parametrize("accept", ["application/json", "*/*", "application/*", "text/html, application/json;q=0.1"])
async def test_C2_JSON_alone_is_enough(house: House, era: str, accept: str) -> None:
    assert text(await house.call(era, "tells", headers={"Accept": accept})) == house.ana


@BOTH
@pytest.mark.parametrize("kind", ["text/plain", "application/jsonp", "application/json-seq", "multipart/form-data", ""])
async def test_C2_another_content_type(house: House, era: str, kind: str) -> None:
    failed(await house.call(era, "tells", headers={"Content-Type": kind}), 415)
    assert house.tools.ran == []


ONE = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "tells"}}'


@BOTH
@pytest.mark.parametrize(
    "raw",
    {
        "empty": "",
        "garbage": "{{{",
        "batch": f"[{ONE}]",
        "empty batch": "[]",
        "two documents": f"{ONE}\n{ONE}",
        "a string": '"tools/call"',
        "null": "null",
        "a key twice": ONE.replace('"id": 1', '"id": 1, "method": "ping"'),
        "not a number": ONE.replace('"id": 1', '"id": NaN'),
        "NUL": ONE.replace("tells", "tells\\u0000"),
        "half a pair": ONE.replace("tells", "\\ud83d"),
        "65 levels": ONE.replace('"tells"', '"tells", "arguments": ' + '{"a":' * 65 + "1" + "}" * 65),
        "many levels": "[" * 50_000,
        "a mark": f"\ufeff{ONE}",
        "an old version of JSON-RPC": ONE.replace("2.0", "1.0"),
        "no message": '{"jsonrpc": "2.0"}',
        "a fraction as id": ONE.replace('"id": 1', '"id": 1.5'),
        "an object as id": ONE.replace('"id": 1', '"id": {}'),
        "parameters in a list": ONE.replace('{"name": "tells"}', '["tells"]'),
    }.items(),
    ids=lambda case: case[0],
)
async def test_C2_what_is_not_one_message(house: House, era: str, raw: tuple[str, str]) -> None:
    headers, _ = message(era, "tools/call", {"name": "tells"})
    async with house.http(await house.key()) as http:
        response = await http.post("/mcp", content=raw[1], headers=headers | {"Content-Type": "application/json"})
    assert response.status_code == 400, response.text
    assert response.json()["error"]["code"] < 0
    assert house.tools.ran == []


@BOTH
async def test_notifications_are_taken_and_answers_to_nothing_change_nothing(house: House, era: str) -> None:
    headers, _ = message(era, "notifications/initialized")
    async with house.http(await house.key()) as http:
        told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await http.post("/mcp", json=told, headers=headers)).status_code == 202
        answered = {"jsonrpc": "2.0", "id": 7, "result": {}}
        assert (await http.post("/mcp", json=answered, headers=headers)).status_code in (202, 400)


@BOTH
@pytest.mark.parametrize("sent", [{"Mcp-Session-Id": "someone-elses"}, {"Last-Event-ID": "1"}])
async def test_C5_C8_a_session_or_an_event_named_by_a_client_changes_nothing(
    house: House, era: str, sent: dict[str, str]
) -> None:
    key = await house.key()
    plain = await house.ask(era, "tools/list", key=key)
    assert (await house.ask(era, "tools/list", key=key, headers=sent)).json() == plain.json()
    assert text(await house.call(era, "tells", key=key, headers=sent)) == house.ana


# C3: what headers say, and what the body does


@pytest.mark.parametrize(
    ("era", "headers"),
    [
        (NEW, {"Mcp-Name": "list_models"}),
        (NEW, {"Mcp-Name": "=?base64?bGlzdF9tb2RlbHM=?="}),
        (NEW, {"Mcp-Name": "=?base64?%%%?="}),
        (NEW, {"Mcp-Method": "tools/list"}),
        (NEW, {"Mcp-Method": ""}),
        (NEW, {"MCP-Protocol-Version": "2026-07-27"}),
        (NEW, {"MCP-Protocol-Version": OLD}),
        (NEW, {"MCP-Protocol-Version": "2024-11-05"}),
        (OLD, {"Mcp-Method": "tools/list"}),
        (OLD, {"Mcp-Name": "list_models"}),
        (OLD, {"Mcp-Name": "=?base64?bGlzdF9tb2RlbHM=?="}),
    ],
)
async def test_C3_headers_that_say_something_else(house: House, era: str, headers: dict[str, str]) -> None:
    failed(await house.call(era, "tells", headers=headers), 400, HEADER_MISMATCH)
    assert house.tools.ran == [] and await house.calls() == []


@pytest.mark.parametrize("missing", ["Mcp-Method", "Mcp-Name", "MCP-Protocol-Version"])
async def test_C3_headers_the_newest_version_needs(house: House, missing: str) -> None:
    headers, body = message(NEW, "tools/call", {"name": "tells"})
    del headers[missing]
    async with house.http(await house.key()) as http:
        failed(await http.post("/mcp", json=body, headers=headers), 400, HEADER_MISMATCH)
    assert house.tools.ran == []


@pytest.mark.parametrize("first", [OLD, NEW])
@pytest.mark.parametrize(
    "second", [("MCP-Protocol-Version", OLD), ("Mcp-Method", "tools/list"), ("mcp-name", "list_models")]
)
async def test_C3_a_header_twice(house: House, first: str, second: tuple[str, str]) -> None:
    headers, body = message(NEW, "tools/call", {"name": "tells"})
    headers["MCP-Protocol-Version"] = first
    if first == OLD:
        del body["params"]["_meta"]
    async with house.http(await house.key()) as http:
        failed(await http.post("/mcp", json=body, headers=[*headers.items(), second]), 400, HEADER_MISMATCH)
    assert house.tools.ran == []


@BOTH
@pytest.mark.parametrize("name", ["tells", "=?base64?dGVsbHM=?="], ids=["plain", "encoded"])
async def test_C3_headers_that_agree(house: House, era: str, name: str) -> None:
    headers = {"Mcp-Method": "tools/call", "Mcp-Name": name}
    assert text(await house.call(era, "tells", headers=headers)) == house.ana


@BOTH
async def test_C3_the_body_decides(house: House, era: str) -> None:
    """What a header calls reviewed does not open a tool that is not."""
    failed(await house.call(era, "acts", headers={"Mcp-Name": "tells"}), 400, HEADER_MISMATCH)
    failed(await house.call(era, "acts"), 400 if era == NEW else 200, INVALID_PARAMS)
    assert house.tools.ran == []


# C4, K01, K07: whose it is


@BOTH
@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({}, ""),
        ({"Authorization": "Bearer"}, ""),
        ({"Authorization": "Bearer rs_" + "a" * 43}, ""),
        ({"Authorization": "Basic KEY"}, ""),
        ({"Authorization": "KEY"}, ""),
        ({"Authorization": "Bearer KEY KEY"}, ""),
        ({"X-Api-Key": "KEY"}, ""),
        ({"Cookie": "access_token=KEY"}, ""),
        ({}, "?access_token=KEY&token=KEY&key=KEY"),
        ({"Authorization": ""}, "?access_token=KEY"),
    ],
)
async def test_C4_K01_one_place_for_a_key(house: House, era: str, headers: dict[str, str], query: str) -> None:
    key = await house.key()
    sent, body = message(era, "tools/call", {"name": "tells"})
    headers = {name: value.replace("KEY", key) for name, value in headers.items()}
    async with house.http(None) as http:
        response = await http.post(f"/mcp{query.replace('KEY', key)}", json=body, headers=sent | headers)
    failed(response, 401)
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json()["error"]["data"] == {"code": "invalid_credential"}
    assert house.tools.ran == [] and await house.calls() == []


async def test_C4_K01_two_credentials_are_none(house: House) -> None:
    headers, body = message(OLD, "ping")
    one = ("Authorization", f"Bearer {await house.key()}")
    async with house.http(None) as http:
        failed(await http.post("/mcp", json=body, headers=[*headers.items(), one, one]), 401)


@BOTH
async def test_C4_an_expired_or_revoked_key(house: House, era: str) -> None:
    _, expired = await house.keys.issue(house.name(), ALL_RIGHTS, {}, timedelta(microseconds=1))
    one, revoked = await house.keys.issue(house.name(), ALL_RIGHTS, {}, None)
    told(await house.ask(era, "tools/list", key=revoked))
    await house.keys.revoke(one.id)
    for key in (expired, revoked):
        failed(await house.ask(era, "tools/list", key=key), 401)


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({}, 200),
        ({"aud": "someone-else"}, 401),
        ({"aud": None}, 401),
        ({"exp": 1}, 401),
        ({"iss": "https://evil.example"}, 401),
    ],
)
async def test_C4_tokens_of_an_issuer(house: House, issuer: Issuer, claims: dict[str, Any], status: int) -> None:
    response = await house.call(OLD, "tells", key=issuer.token(**claims))
    assert response.status_code == status
    assert house.tools.ran == ([f"{ISSUER}|ana"] if status == 200 else [])


@BOTH
async def test_C4_the_key_goes_no_further(house: House, era: str) -> None:
    key = await house.key()
    await house.call(era, "platform_status", key=key)
    await house.call(era, "radar_latest", {"limit": 1}, key=key)
    assert len(house.platform.handed) == 4
    assert key not in json.dumps(house.platform.handed)


async def test_C4_C5_C8_the_SDK_sees_no_credential_no_session_and_no_event(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, str]] = []

    async def handle(_: Any, scope: dict[str, Any], receive: Any, send: Any) -> None:
        seen.append({name.decode(): value.decode() for name, value in scope["headers"]})

    monkeypatch.setattr("mcp.server.streamable_http_manager.StreamableHTTPSessionManager.handle_request", handle)
    client = Leaving(OLD, await house.key(), "tells")
    client.scope["headers"] += [(b"cookie", b"a=b"), (b"mcp-session-id", b"a"), (b"last-event-id", b"1")]
    await house.app(client.scope, client.receive, client.send)
    assert set(seen[0]) == {"accept", "mcp-protocol-version", "host", "content-type"}


@BOTH
async def test_K07_nobody_is_someone_else_by_saying_so(house: House, era: str) -> None:
    headers, body = message(era, "tools/call", {"name": "tells", "arguments": {"subject": "key|eve"}, "user": "eve"})
    body["params"].setdefault("_meta", {}).update({"subject": "key|eve", "recall.caller": "key|eve"})
    async with house.http(await house.key()) as http:
        response = await http.post("/mcp", json=body, headers=headers | {"X-User-Id": "eve", "X-Forwarded-User": "eve"})
    assert text(response) == house.ana
    assert await house.calls() == [(house.ana, "mcp", "tells", "done")]


@BOTH
async def test_callers_side_by_side_are_never_mixed_up(house: House, era: str) -> None:
    names = [f"person{number}" for number in range(12)]
    keys = [await house.key(name) for name in names]
    answers = await asyncio.gather(*(house.call(era, "tells", key=key) for key in keys))
    subjects = [f"key|{house.name(name)}" for name in names]
    assert [text(answer) for answer in answers] == subjects
    assert [row[0] for row in await house.calls()] == sorted(subjects)


# C9: a client that leaves


class Leaving:
    """A client that speaks ASGI: sends one message, and leaves when told to."""

    def __init__(self, era: str, key: str, tool: str) -> None:
        headers, body = message(era, "tools/call", {"name": tool})
        sent = {**headers, **bearer(key), "Host": "127.0.0.1:8000", "Content-Type": "application/json"}
        self.scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "path": "/mcp",
            "raw_path": b"/mcp",
            "root_path": "",
            "scheme": "http",
            "query_string": b"",
            "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8000),
        }
        self.leaves = asyncio.Event()
        self.sent: list[Any] = []
        self._body = [json.dumps(body).encode()]

    async def receive(self) -> dict[str, Any]:
        if self._body:
            return {"type": "http.request", "body": self._body.pop(), "more_body": False}
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)


@BOTH
@pytest.mark.parametrize("how", ["disconnects", "is cancelled by the server"])
async def test_C9_leaving_ends_the_tool(house: House, era: str, how: str) -> None:
    client = Leaving(era, await house.key(), "hangs")
    served = asyncio.ensure_future(house.app(client.scope, client.receive, client.send))
    async with asyncio.timeout(10):
        await house.tools.began.wait()
        if how == "disconnects":
            client.leaves.set()
            await served
        else:
            served.cancel()
            with pytest.raises(asyncio.CancelledError):
                await served
        await house.tools.ended.wait()
        while not await house.calls():
            await asyncio.sleep(0)
    assert await house.calls() == [(house.ana, "mcp", "hangs", "timed_out")]
    assert client.sent == []


async def test_C9_leaving_is_not_asked_of_a_client_that_stays(house: House) -> None:
    client = Leaving(OLD, await house.key(), "tells")
    await house.app(client.scope, client.receive, client.send)
    assert [one["type"] for one in client.sent] == ["http.response.start", "http.response.body"]
    assert house.ana.encode() in client.sent[1]["body"]


@pytest.mark.parametrize("who", ["ana", "eve"])
async def test_a_call_is_not_cancelled_by_its_number(house: House, who: str) -> None:
    """Numbers are the client's own, and there is no session to tell one client's from another's."""
    key, others = await house.key(), await house.key(who)
    call = asyncio.ensure_future(house.call(OLD, "hangs", key=key))
    await house.tools.began.wait()
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    async with house.http(others) as http:
        headers, _ = message(OLD, "notifications/cancelled")
        assert (await http.post("/mcp", json=cancel, headers=headers)).status_code == 202
    house.tools.goes_on.set()
    assert text(await call) == "went on"


async def test_the_end_of_the_replica_ends_calls(house: House) -> None:
    """What runs when the application shuts down is cut and still written into the log."""
    door = McpApp(house.edge.settings.http)
    house.app = with_edge(door, house.edge)
    key = await house.key()
    async with door.running():
        call = asyncio.ensure_future(house.call(OLD, "hangs", key=key))
        await house.tools.began.wait()
    failed(await call, 500, INTERNAL_ERROR)
    assert await house.calls() == [(house.ana, "mcp", "hangs", "timed_out")]


def with_edge(door: McpApp, edge: Edge) -> Any:
    app = SimpleNamespace(state=SimpleNamespace(edge=edge))

    async def served(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await door({**scope, "app": app}, receive, send)

    return served


# C10 to C12: what may be called, and with what


def deep(levels: int) -> dict[str, Any]:
    return {"limit": deep(levels - 1)} if levels else {}


@BOTH
@pytest.mark.parametrize(
    "arguments",
    [
        {"limit": "many"},
        {"limit": 0},
        {"limit": 11},
        {"limit": 2.5},
        {"limit": True},
        {"limit": None},
        {"limit": [1]},
        {"limit": 10**30},
        {"limit": 1, "extra": 1},
        {"__proto__": {"limit": 1}},
        {"constructor": {}, "toString": 1},
        {"lïmit": 1},
        {"LIMIT": 1},
        deep(30),
        {"limit": "ž" * 100_000},
    ],
    ids=lambda arguments: json.dumps(arguments)[:40],
)
async def test_C10_arguments_that_do_not_fit(house: House, era: str, arguments: dict[str, Any]) -> None:
    """As in the chat and over HTTP: the call fails and says which rule was broken."""
    key = await house.key()
    said = text(await house.call(era, "radar_latest", arguments, key=key), error=True)
    async with house.http(key) as http:
        alone = await http.post("/v1/tools/radar_latest/call", json={"arguments": arguments})
    assert alone.status_code == 400
    assert alone.json()["error"]["message"] == f"{said}."
    assert len(said) < 200
    assert house.platform.handed == []
    logged = {(house.ana, door, "radar_latest", "failed") for door in ("http", "mcp")}
    assert set(await house.calls()) == logged, "one audit log whatever the door (I20)"


@BOTH
@pytest.mark.parametrize("arguments", [[], "limit", 1, True])
async def test_C10_arguments_that_are_no_object(house: House, era: str, arguments: Any) -> None:
    response = await house.call(era, "radar_latest", arguments)
    failed(response, 400 if era == NEW else 200, INVALID_PARAMS)
    assert house.platform.handed == []


@BOTH
@pytest.mark.parametrize("arguments", [None, {}])
async def test_C10_no_arguments_are_none(house: House, era: str, arguments: Any) -> None:
    assert text(await house.call(era, "echoes", arguments)) == "{}"


@BOTH
@pytest.mark.parametrize("announced", [True, False])
async def test_C11_a_large_body_is_refused_before_it_is_read(house: House, era: str, announced: bool) -> None:
    pieces: list[bytes] = []

    async def body() -> AsyncIterator[bytes]:
        for _ in range(5 * 1024):
            pieces.append(b" " * 1024)
            yield pieces[-1]

    headers, _ = message(era, "tools/call", {"name": "tells"})
    headers |= {"Content-Type": "application/json"} | ({"Content-Length": "5242880"} if announced else {})
    async with house.http(await house.key()) as http:
        failed(await http.post("/mcp", content=body(), headers=headers), 413)
    assert len(pieces) <= (0 if announced else house.edge.settings.http.body_bytes // 1024 + 1)
    assert house.tools.ran == [] and await house.calls() == []


@BOTH
@pytest.mark.parametrize(
    "tool", ["run_code", "open_page", "remember", "forget", "acts", "nothing", "", "Tells", "__proto__"]
)
async def test_C12_what_is_not_reviewed_is_never_run(house: House, era: str, tool: str) -> None:
    response = await house.call(era, tool, {"program": "print(1)"}, headers={"Mcp-Name": tool})
    said = failed(response, 400 if era == NEW else 200, INVALID_PARAMS)
    assert said.startswith("There is no tool of that name here.") and "run_code" not in said
    assert house.tools.ran == []
    logged = tool if tool in house.edge.tools else "unknown"
    assert await house.calls() == [(house.ana, "mcp", logged, "refused")]


@BOTH
@pytest.mark.parametrize("rights", [ALL_RIGHTS, ("chat", "memory"), ("tools.read",), ()], ids=str)
async def test_C12_the_list_is_the_callers_own(house: House, era: str, rights: tuple[Right, ...]) -> None:
    key = await house.key(rights=rights)
    async with house.http(key) as http:
        over_http = (await http.get("/v1/tools")).json()["data"]
    listed = told(await house.ask(era, "tools/list", key=key))["tools"]
    assert [one["name"] for one in listed] == [one["name"] for one in over_http]
    assert [one["inputSchema"] for one in listed] == [one["parameters"] for one in over_http]
    assert bool(listed) == ("tools.read" in rights)
    if not listed:
        failed(await house.call(era, "tells", key=key), 400 if era == NEW else 200, INVALID_PARAMS)
        assert house.tools.ran == []


@BOTH
async def test_C12_requests_count_as_everywhere(house: House, era: str) -> None:
    key = await house.key(requests_per_minute=3)
    async with house.http(key) as http:
        await http.get("/v1/tools")
    told(await house.ask(era, "tools/list", key=key))
    told(await house.call(era, "tells", key=key))
    refused = await house.call(era, "tells", key=key)
    assert "3 requests this minute" in failed(refused, 429)
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert house.tools.ran == [house.ana]


# C13: faults, and what is said and logged of them

SECRET = f"secret{secrets.token_hex(6)}"


@BOTH
@pytest.mark.parametrize("error", [RuntimeError(SECRET), KeyError(SECRET), ValueError(SECRET)], ids=type)
async def test_C13_a_fault_of_a_tool_says_nothing_internal(
    house: House, era: str, error: Exception, logged: io.StringIO
) -> None:
    house.tools.error = error
    response = await house.call(era, "breaks")
    failed(response, 200, INTERNAL_ERROR)
    assert SECRET not in response.text and SECRET not in logged.getvalue()
    assert type(error).__name__ in logged.getvalue()
    assert await house.calls() == [(house.ana, "mcp", "breaks", "failed")]


@BOTH
async def test_C13_a_part_of_the_platform_that_is_away(house: House, era: str) -> None:
    house.tools.error = PlatformBroken(SECRET)
    said = text(await house.call(era, "breaks"), error=True)
    assert "fault in the platform" in said and SECRET not in said


@BOTH
@pytest.mark.parametrize("part", ["records", "tools"])
async def test_C13_faults_around_a_call(
    house: House, era: str, part: str, monkeypatch: pytest.MonkeyPatch, logged: io.StringIO
) -> None:
    monkeypatch.setattr(house.edge, part, Faulty())
    response = await house.call(era, "tells")
    assert failed(response, 200, INTERNAL_ERROR).endswith("not answering. Try again in a moment.")
    assert SECRET not in response.text + logged.getvalue()


class Faulty(dict[str, Tool]):
    """A table or a log behind a database that is away."""

    def values(self) -> Any:
        raise LedgerUnavailable(SECRET)

    async def add_tool_call(self, one: Any) -> None:
        raise LedgerUnavailable(SECRET)


@BOTH
async def test_C13_a_fault_of_the_SDK_is_an_answer_too(
    house: House, era: str, monkeypatch: pytest.MonkeyPatch, logged: io.StringIO
) -> None:
    async def handle(*_: Any) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr("mcp.server.streamable_http_manager.StreamableHTTPSessionManager.handle_request", handle)
    response = await house.call(era, "tells")
    failed(response, 500, INTERNAL_ERROR)
    assert SECRET not in response.text + logged.getvalue() and "RuntimeError" in logged.getvalue()


@BOTH
async def test_no_word_is_logged(house: House, era: str, logged: io.StringIO) -> None:
    async with house.client("legacy" if era == OLD else NEW, await house.key()) as client:
        assert SECRET in (await client.call_tool("echoes", {"said": SECRET})).content[0].text
        with pytest.raises(MCPError):
            await client.call_tool(SECRET, {SECRET: SECRET})
        await client.call_tool("radar_latest", {SECRET: SECRET})
    await house.ask(era, "tools/call", {"name": "echoes", "arguments": SECRET, SECRET: SECRET})
    await house.ask(era, SECRET, {SECRET: SECRET})
    headers, _ = message(era, "tools/list")
    async with house.http(await house.key()) as http:
        for raw in (f'{{"{SECRET}": ', f'{{"jsonrpc": "{SECRET}", "id": "{SECRET}"}}'):
            await http.post("/mcp", content=raw, headers=headers | {"Content-Type": "application/json"})
    assert SECRET not in logged.getvalue()


def test_of_the_SDKs_own_records_only_class_and_place_pass(logged: io.StringIO, settings: Settings) -> None:
    McpApp(settings.http).running()
    try:
        raise ValueError(SECRET)
    except ValueError:
        logging.getLogger("mcp.server.runner").exception("handler for %r raised", SECRET)
    logging.getLogger("mcp.server.transport_security").error("Invalid Origin header: %s", SECRET)
    assert SECRET not in logged.getvalue()
    assert logged.getvalue().startswith("ValueError\n") and "test_mcp.py" in logged.getvalue()
