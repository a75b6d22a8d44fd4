"""An operator's services behind the gateway: called as the caller, bounded, and nothing of theirs leaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from configs import loader
from configs.settings import Gateway, Radar, RemoteTool, Settings
from deployments.identity import IdentityRefused, Signer, Verifier, make_keys
from deployments.platform import Platform, _last_error
from deployments.remote import Remote
from deployments.tiers.errors import EngineFailed
from tests.serve.gateway import TOOLS
from tools.errors import ModelShouldKnow, ModelShouldRetry
from tools.platform_status import summarise

PROFILE = Path(__file__).parents[2] / "configs" / "local.yaml"
Responder = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Answers as the test says, and keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.respond: Responder | bytes = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head.decode())
        try:
            if isinstance(self.respond, bytes):
                writer.write(self.respond)
            else:
                await self.respond(head, writer)
            await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, Settings]]:
    one = Server()
    listening = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    gateway = Gateway(
        base_url=f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/api", deadline_seconds=1, answer_bytes=2000
    )
    tools = [RemoteTool(**tool) for tool in TOOLS]
    yield one, loader.load(PROFILE).model_copy(update={"gateway": gateway, "remote_tools": tools})
    listening.close()


def answer(status: str, body: bytes = b"{}", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def test_a_call_carries_the_token_and_the_arguments_and_nothing_else(
    server: tuple[Server, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    one, settings = server
    one.respond = answer("200 OK", b'{"state": "open"}')
    assert await Remote(settings).call("ticket_status", "token", {"number": 7}) == '{"state": "open"}'
    (head,) = one.requests
    assert head.startswith("GET /api/tickets?number=7 HTTP/1.1") and "authorization: bearer token" in head.lower()
    assert "cookie" not in head.lower()


ANSWERS: dict[str, tuple[bytes, type[Exception], str]] = {
    "400": (answer("400 Bad Request", b"secret-detail"), ModelShouldRetry, "does not understand"),
    "401": (answer("401 Unauthorized"), ModelShouldKnow, "does not know the person"),
    "403": (answer("403 Forbidden"), ModelShouldKnow, "does not allow"),
    "404": (answer("404 Not Found"), ModelShouldKnow, "has no such thing"),
    "429": (answer("429 Too Many Requests"), ModelShouldKnow, "too many requests"),
    "500": (answer("500 Internal Server Error", b"secret-detail"), EngineFailed, "http_500"),
    "a redirect": (answer("302 Found", b"", "Location: http://127.0.0.1:9/"), EngineFailed, "http_302"),
    "an endless answer": (answer("200 OK", b"x" * 5000), ModelShouldKnow, "too long"),
    "no HTTP": (b"secret-detail\r\n\r\n", EngineFailed, "Error"),
    "nothing": (b"", EngineFailed, "Error"),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_what_the_service_answers_becomes_one_of_three_failures(
    server: tuple[Server, Settings], name: str
) -> None:
    one, settings = server
    one.respond, kind, says = ANSWERS[name]
    with pytest.raises(kind, match=says) as failed:
        await Remote(settings).call("ticket_status", "token", {"number": 7})
    assert "secret-detail" not in str(failed.value) and len(one.requests) == 1


async def test_a_service_that_hangs_is_left_at_the_deadline(server: tuple[Server, Settings]) -> None:
    one, settings = server

    async def hang(head: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    one.respond = hang
    with pytest.raises(EngineFailed, match="Timeout"):
        await Remote(settings).get("/feed", "token")


async def test_a_service_that_dribbles_is_left_at_the_deadline_too(server: tuple[Server, Settings]) -> None:
    one, settings = server

    async def dribble(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.2)

    one.respond = dribble
    with pytest.raises(EngineFailed, match="Timeout"):
        await Remote(settings).get("/feed", "token")


async def test_a_radar_behind_the_gateway_is_read_as_the_caller(
    server: tuple[Server, Settings], tmp_path: Path
) -> None:
    one, settings = server
    make_keys(tmp_path)
    one.respond = answer("200 OK", b'{"items": [{"title": "Newest", "date_published": "2026-11-03T00:00:00Z"}]}')
    platform = object.__new__(Platform)
    platform._settings = settings.model_copy(update={"radar": Radar(path="/radar")})
    platform._verifier, platform._remote = Verifier("caller", tmp_path, "platform"), Remote(settings)
    token = Signer("caller", tmp_path).mint("key|ana", frozenset({"tools.read"}), "platform", "", 60)
    (digest,) = (await platform.radar(token, "for-the-gateway", 3))["answer"]
    assert digest["title"] == "Newest" and one.requests[0].startswith("GET /api/radar HTTP/1.1")
    assert "authorization: bearer for-the-gateway" in one.requests[0].lower()
    with pytest.raises(IdentityRefused):
        await platform.radar("key|ana", "for-the-gateway", 3)


async def test_a_refusal_is_a_value_and_a_fault_is_an_error(server: tuple[Server, Settings]) -> None:
    one, settings = server
    remote = Remote(settings)
    one.respond = answer("403 Forbidden")
    refused = await remote.refusable(remote.call("ticket_status", "token", {"number": 7}))
    assert refused["kind"] == "know" and "does not allow" in refused["refused"]
    one.respond = answer("500 Internal Server Error")
    with pytest.raises(EngineFailed):
        await remote.refusable(remote.call("ticket_status", "token", {"number": 7}))


async def test_without_a_gateway_there_is_none() -> None:
    with pytest.raises(ModelShouldKnow, match="no gateway"):
        await Remote(loader.load(PROFILE)).get("/feed", "token")


class Overview:
    """What Serve tells of a deployment."""

    def __init__(self, status: str, message: str) -> None:
        self.status, self.message = status, message


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        ("HEALTHY", "ValueError: a person's words", {}),
        ("UNHEALTHY", "", {}),
        (
            "DEPLOY_FAILED",
            "Traceback …\nValueError: a person's words\nray.exceptions.RayActorError: gone",
            "RayActorError",
        ),
        ("UNHEALTHY", "memory_store.errors.StoreUnavailable: the words", "StoreUnavailable"),
    ],
)
def test_the_last_error_is_a_class_and_never_a_message(status: str, message: str, error: Any) -> None:
    told = _last_error(Overview(status, message))  # type: ignore[arg-type]
    assert told == ({"last_error": error} if error else {})


def test_what_is_not_well_is_told_first_and_lines_stay_whole() -> None:
    well = {"name": "deep", "kind": "chat", "health": "healthy", "replicas": 1, "target": 1, "ongoing": 2, "waiting": 3}
    ill = {
        "name": "memory",
        "kind": "service",
        "health": "unhealthy",
        "replicas": 0,
        "target": 1,
        "last_error": "OSError",
    }
    text = summarise({"healthy": False, "tiers": [well] * 40, "services": [ill]})
    lines = text.splitlines()
    assert lines[1] == "- memory (service): unhealthy, 0 of 1 replicas running, last error OSError"
    assert lines[2] == "- deep (chat): healthy, 1 of 1 replicas running, 2 requests now, 3 waiting"
    assert lines[-1] == "…" and len(text) <= 1200
