"""A small internet on loopback: names and public addresses that lead to one server, which answers byte for byte as told.

The reader keeps its own address policy: names resolve to public addresses, and the network that is handed to it notes each
connection it was asked for and makes it to the loopback server instead. An address nobody has takes no connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpcore
import pytest

from deployments.web import transport
from deployments.web.reader import Page, PageReader
from deployments.web.resolve import Resolver
from deployments.web.settings import WebSettings

GOOD = "8.8.8.8"
OTHER = "1.1.1.1"
DEADLINE_SECONDS = 4.0
Responder = bytes | Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Names:
    """The resolver. A list of lists is one answer after another."""

    known: dict[str, Sequence[str] | Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def resolve(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        answer = self.known.get(host, OSError("no such name"))
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class Network(httpcore.AsyncNetworkBackend):
    """Leads `ports` of public addresses to ports of this machine."""

    ports: dict[tuple[str, int], int] = field(default_factory=dict)
    attempts: list[tuple[str, int]] = field(default_factory=list)

    async def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:  # fmt: skip
        self.attempts.append((host, port))
        if (host, port) not in self.ports:
            raise httpcore.ConnectError("refused")
        return await httpcore.AnyIOBackend().connect_tcp("127.0.0.1", self.ports[host, port])


class Web:
    """What the tests talk to: pages by path or by host and path, and what was asked for."""

    def __init__(self) -> None:
        self.names = Names({"good.example": [GOOD], "other.example": [OTHER]})
        self.network = Network()
        self.requests: list[bytes] = []
        self._pages: dict[str, Responder] = {}
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, at: Iterable[tuple[str, int]], tls: ssl.SSLContext | None = None) -> None:
        """A server behind the given public addresses and ports."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self._servers.append(server)
        self.network.ports |= dict.fromkeys(at, server.sockets[0].getsockname()[1])

    def answer(self, place: str, responder: Responder) -> None:
        """`place` is a path with its query, or a Host header and a path."""
        self._pages[place] = responder

    def reader(self, tls: ssl.SSLContext | None = None, resolver: Resolver | None = None, **bounds: Any) -> PageReader:
        settings = WebSettings(**{"deadline_seconds": DEADLINE_SECONDS} | bounds)
        return PageReader(settings, resolver or self.names, network=self.network, tls=tls or trust)

    async def open(self, url: str = "http://good.example/", **bounds: Any) -> Page:
        return await self.reader(**bounds).open(url)

    async def get(self, responder: Responder, **bounds: Any) -> Page:
        """The page that `responder` makes."""
        self.answer("/", responder)
        return await self.open(**bounds)

    async def idle(self) -> None:
        """Returns when no connection is open."""
        await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._respond(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the reader left, or the test is over
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(request)
        path, host = request.split(b" ")[1].decode(), header(request, "host")
        responder = self._pages.get(host + path, self._pages.get(path, response(b"", status="404 Not Found")))
        if isinstance(responder, bytes):
            writer.write(responder)
            await writer.drain()
        else:
            await responder(reader, writer)


def header(request: bytes, name: str) -> str:
    """The value of a request's header, "" without it."""
    lines = (line.partition(": ") for line in request.decode("latin-1").split("\r\n"))
    return next((value for key, _, value in lines if key.lower() == name), "")


def response(body: bytes, *headers: str, status: str = "200 OK", type: str | None = "text/html") -> bytes:
    """A whole answer with its right length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, *([f"Content-Type: {type}"] if type is not None else []), "", ""]).encode() + body


def words(text: str) -> list[str]:
    return text.split()


def redirect(to: str, status: int = 302) -> bytes:
    return response(b"", f"Location: {to}", status=f"{status} Found")


trust = transport.trusted()  # read once; certifi's file is large


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    one = Web()
    await one.listen([(GOOD, 80), (OTHER, 80)])
    yield one
    await one.close()
