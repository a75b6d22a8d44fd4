"""Names to addresses, once for each hop, with every address of the answer checked.

A name that has one public and one private address is refused: which of them a connection takes is the attacker's choice.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from deployments.web import addresses
from deployments.web.addresses import Address
from deployments.web.errors import AddressRefused, DnsFailed
from deployments.web.policy import Allow
from deployments.web.url import Url

_LOOKUPS_AT_ONCE = 8
_TRIED = 4  # addresses of one name


class Resolver(Protocol):
    """Who knows the addresses of a name."""

    async def resolve(self, host: str) -> Sequence[str]:
        """Every address of the absolute name `host`, as text. Raises OSError where there is none."""


class SystemResolver:
    """The machine's own resolver. A lookup that hangs holds one of few threads and no more."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_LOOKUPS_AT_ONCE, thread_name_prefix="dns")

    async def resolve(self, host: str) -> Sequence[str]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host)


def _look_up(host: str) -> list[str]:
    absolute = f"{host}.".encode()  # the dot keeps search domains of the machine out; bytes keep Python's own IDNA out
    return [_text(found[4]) for found in socket.getaddrinfo(absolute, None, type=socket.SOCK_STREAM)]


def _text(endpoint: Sequence[Any]) -> str:
    """The address of a socket's endpoint; a scope that stands beside it (IPv6) goes with it, and is refused later."""
    scope = endpoint[3] if len(endpoint) == 4 else 0
    return f"{endpoint[0]}%{scope}" if scope else str(endpoint[0])


async def checked(url: Url, resolver: Resolver, allow: Allow, seconds: float) -> list[Address]:
    """The addresses to connect to, in the resolver's order. Raises AddressRefused, DnsFailed."""
    found = [url.address] if url.address else await _resolved(url.host, resolver, seconds)
    for address in found:
        if address is None or not allow(address):
            raise AddressRefused(url.host)
    distinct = dict.fromkeys(address for address in found if address is not None)
    return list(distinct)[:_TRIED]


async def _resolved(host: str, resolver: Resolver, seconds: float) -> list[Address | None]:
    try:
        async with asyncio.timeout(seconds):
            answer = await resolver.resolve(host)
    except (OSError, UnicodeError, TimeoutError):
        raise DnsFailed(host) from None
    if not answer:
        raise DnsFailed(host)
    return [addresses.read(text) for text in answer]
