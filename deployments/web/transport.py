"""A connection to an address that was checked, for a name that TLS still verifies.

httpcore speaks HTTP; this is the network below it. It never looks a name up: it is made for one URL and the addresses
that were checked for it, and it counts what arrives, so that nothing that is no body (interim answers, chunk marks,
trailers) comes in without a bound.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Sequence
from typing import Any

import certifi
import httpcore

from deployments.web.addresses import Address
from deployments.web.errors import ConnectFailed, TlsFailed, TooLarge


def trusted() -> ssl.SSLContext:
    """TLS 1.2 and later, certifi's authorities, and nothing from the environment (SSL_CERT_FILE, SSLKEYLOGFILE)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificate and name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(certifi.where())
    return context


class Pinned(httpcore.AsyncNetworkBackend):
    """Connects to the given addresses only, in turn, whatever name it is asked for."""

    def __init__(
        self,
        host: str,
        addresses: Sequence[Address],
        connect_seconds: float,
        wire_bytes: int,
        network: httpcore.AsyncNetworkBackend,
    ) -> None:
        self._host, self._addresses = host, addresses
        self._connect_seconds, self._wire_bytes, self._network = connect_seconds, wire_bytes, network

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        for address in self._addresses:
            try:
                stream = await self._network.connect_tcp(str(address), port, timeout=self._connect_seconds)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
            return _Counted(stream, self._host, self._wire_bytes)
        raise ConnectFailed(self._host)


class _Counted(httpcore.AsyncNetworkStream):
    """A stream that gives at most so many bytes; over TLS, as many decrypted ones."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, host: str, left_bytes: int) -> None:
        self._stream, self._host, self._left_bytes = stream, host, left_bytes

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's
        data = await self._stream.read(max_bytes, timeout)
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            raise TooLarge(self._host)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - httpcore's
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's
    ) -> httpcore.AsyncNetworkStream:
        try:
            stream = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except (httpcore.ConnectError, httpcore.ConnectTimeout):
            raise TlsFailed(self._host) from None
        except BaseException:  # a deadline in the handshake: httpcore would leave the socket to the garbage collector
            await self.aclose()
            raise
        return _Counted(stream, self._host, self._left_bytes)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
