"""One GET over one connection of its own: what is sent, and how much of the answer is read.

Nothing of the caller goes out, nothing is kept for the next request. httpcore is used below httpx's client, which would
add cookies, proxies from the environment, redirects and unbounded decompression.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

import httpcore

from deployments.web import media
from deployments.web.addresses import Address
from deployments.web.decode import Body
from deployments.web.errors import BadResponse, ConnectFailed, HttpStatus, NotText
from deployments.web.media import Kind
from deployments.web.settings import WebSettings
from deployments.web.transport import Pinned
from deployments.web.url import Url

_WIRE_SLACK_BYTES = 1024 * 1024  # headers, chunk marks and TLS's own messages beside the body
_FOLLOWED = (301, 302, 303, 307, 308)
_PAGES = (200, 201, 202, 203)
_CONSTANT_HEADERS = [
    (b"Accept", b"text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5"),
    (b"Accept-Encoding", b"gzip"),
    (b"Accept-Language", b"en,*;q=0.5"),
    (b"Connection", b"close"),
]
_BROKEN = (
    *(httpcore.ProtocolError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.UnsupportedProtocol),
    *(httpcore.ProxyError, ssl.SSLError),
)


@dataclass(frozen=True, repr=False)
class Redirect:
    """`location` as it came, to be checked like any URL."""

    location: str


@dataclass(frozen=True, repr=False)
class Answer:
    """A page's bytes, decompressed, and what was said about them."""

    status: int
    kind: Kind
    media_type: str
    charset: str
    body: bytes
    truncated: bool


class Fetcher:
    """Gets one URL at a time from addresses that were checked."""

    def __init__(self, settings: WebSettings, tls: ssl.SSLContext, network: httpcore.AsyncNetworkBackend) -> None:
        logging.getLogger("httpcore").setLevel(logging.WARNING)  # below it, paths and headers of answers are logged
        self._settings, self._tls, self._network = settings, tls, network
        self._user_agent = (b"User-Agent", settings.user_agent.encode("ascii"))

    async def get(self, url: Url, addresses: Sequence[Address]) -> Redirect | Answer:
        """Raises the package's errors, none of httpcore's."""
        try:
            return await self._get(url, addresses)
        except (httpcore.ConnectError, httpcore.ConnectTimeout):
            raise ConnectFailed(url.host) from None
        except _BROKEN:
            raise BadResponse(url.host, "it is not complete or not HTTP") from None

    async def _get(self, url: Url, addresses: Sequence[Address]) -> Redirect | Answer:
        wire_bytes = self._settings.body_bytes + _WIRE_SLACK_BYTES
        backend = Pinned(url.host, addresses, self._settings.connect_seconds, wire_bytes, self._network)
        headers = [(b"Host", url.netloc.encode()), self._user_agent, *_CONSTANT_HEADERS]
        to = httpcore.URL(scheme=url.scheme.encode(), host=url.host.encode(), port=url.port, target=url.target.encode())
        async with (
            httpcore.AsyncConnectionPool(ssl_context=self._tls, max_connections=1, network_backend=backend) as pool,
            pool.stream("GET", to, headers=headers) as response,
        ):
            return await self._read(url.host, response)

    async def _read(self, host: str, response: httpcore.Response) -> Redirect | Answer:
        headers = Headers(host, response.headers, self._settings)
        if response.status in _FOLLOWED:
            return Redirect(headers.location())
        if response.status not in _PAGES:
            raise HttpStatus(host, response.status)
        media_type, charset = media.declared(headers.one("content-type"))
        kind = media.kind_of(media_type)
        if media_type and kind is None:
            raise NotText(host)
        body, truncated = await self._body(host, response, headers.is_gzip())
        if media.is_binary(body, charset):
            raise NotText(host)
        return Answer(response.status, kind or media.sniffed(body), media_type, charset, body, truncated)

    async def _body(self, host: str, response: httpcore.Response, gzip: bool) -> tuple[bytes, bool]:
        body = Body(host, self._settings.body_bytes, gzip)
        async with aclosing(response.aiter_stream()) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                if not body.feed(chunk):
                    break
        return body.end(), body.truncated


class Headers:
    """The headers of an answer, few and small enough. Raises BadResponse where they are not, or contradict themselves."""

    def __init__(self, host: str, lines: Sequence[tuple[bytes, bytes]], settings: WebSettings) -> None:
        self._host, self._lines = host, lines
        if len(lines) > settings.header_lines or sum(map(len, sum(lines, ()))) > settings.header_bytes:
            raise BadResponse(host, "its headers are too large")
        if self._all("content-length") and self._all("transfer-encoding"):
            raise BadResponse(host, "it says two things about its length")

    def one(self, name: str) -> str:
        """The value of a header that may stand once; "" without it."""
        values = self._all(name)
        if len(values) > 1:
            raise BadResponse(self._host, f"it says two things about its {name.replace('-', ' ')}")
        return values.pop() if values else ""

    def location(self) -> str:
        if not self.one("location").strip():
            raise BadResponse(self._host, "it redirects to nowhere")
        return self.one("location")

    def is_gzip(self) -> bool:
        """Whether the body is compressed with gzip, once. Any other coding is refused."""
        coding = self.one("content-encoding").strip().lower()
        if coding in ("", "identity"):
            return False
        if coding not in ("gzip", "x-gzip"):
            raise BadResponse(self._host, "it is compressed in a way that was not asked for")
        return True

    def _all(self, name: str) -> set[str]:
        wanted = name.encode()
        return {_text(value) for key, value in self._lines if key.lower() == wanted}


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
