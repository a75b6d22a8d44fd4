"""Names (D): one lookup for each hop, every address of it checked, and a connection to one of those alone."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Sequence

import pytest

from deployments.web.errors import AddressRefused, ConnectFailed, DnsFailed, TimedOut
from deployments.web.resolve import SystemResolver
from tests.web.conftest import GOOD, OTHER, Web, redirect, response

PAGE = response(b"<p>Here it is")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param([GOOD, "10.0.0.1"], id="D01"),
        pytest.param(["10.0.0.1", GOOD], id="D01-reversed"),
        pytest.param([GOOD, "fd00:ec2::254"], id="D02-private-AAAA"),
        pytest.param(["fd00:ec2::254", GOOD], id="D02-private-AAAA-first"),
        pytest.param(["127.0.0.1", "2606:4700:4700::1111"], id="D02-private-A"),
        pytest.param(["2606:4700:4700::1111", "127.0.0.1"], id="D02-private-A-last"),
        pytest.param(["192.168.1.5"], id="D03-through-a-CNAME"),
        pytest.param([GOOD] * 50 + ["10.0.0.1"], id="far-behind-what-would-be-tried"),
    ],
)
async def test_one_private_address_refuses_the_name(answer: list[str], web: Web) -> None:
    web.names.known["evil.example"] = answer
    with pytest.raises(AddressRefused):
        await web.open("http://evil.example/")
    assert web.network.attempts == []


class Rebinding:
    """Public the first time, private from then on."""

    def __init__(self) -> None:
        self.answers = 0

    async def resolve(self, host: str) -> Sequence[str]:
        self.answers += 1
        return [GOOD] if self.answers == 1 else ["127.0.0.1"]


async def test_a_name_that_changes_is_connected_to_where_it_was_checked(web: Web) -> None:
    """D04, D11: one lookup for one opening; the next opening checks again and reuses no connection."""
    web.answer("/", PAGE)
    rebinding = Rebinding()
    reader = web.reader(resolver=rebinding)
    assert (await reader.open("http://evil.example/")).text == "Here it is"
    assert (rebinding.answers, web.network.attempts) == (1, [(GOOD, 80)])
    with pytest.raises(AddressRefused):
        await reader.open("http://evil.example/")
    assert web.network.attempts == [(GOOD, 80)]


async def test_each_redirect_is_looked_up_afresh(web: Web) -> None:
    web.answer("/", redirect("/next"))
    rebinding = Rebinding()
    reader = web.reader(resolver=rebinding)
    with pytest.raises(AddressRefused):
        await reader.open("http://evil.example/")
    assert rebinding.answers == 2


@pytest.mark.parametrize(
    "answer",
    [[], socket.gaierror(socket.EAI_NONAME, "x"), socket.gaierror(socket.EAI_AGAIN, "x"), socket.gaierror(socket.EAI_FAIL, "x"),
     OSError("no network"), UnicodeError("label too long")],
    ids=["empty", "NXDOMAIN", "SERVFAIL", "FAIL", "no-network", "label"],
)  # fmt: skip
async def test_a_name_without_an_address(answer: list[str] | Exception, web: Web) -> None:
    """D06: one text for all of them."""
    web.names.known["none.example"] = answer
    with pytest.raises(DnsFailed) as error:
        await web.open("http://none.example/")
    assert (error.value.code, error.value.args) == ("dns_failed", ("none.example",))


class Silent:
    async def resolve(self, host: str) -> Sequence[str]:
        await asyncio.Event().wait()
        return []


async def test_a_resolver_that_never_answers_ends_with_its_time(web: Web) -> None:
    """D07."""
    for bounds, error in (({"dns_seconds": 0.1}, DnsFailed), ({"deadline_seconds": 0.1}, TimedOut)):
        reader = web.reader(resolver=Silent(), **bounds)
        with pytest.raises(error):
            await reader.open("http://good.example/")


async def test_hanging_lookups_hold_few_threads(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """D07: the system's resolver cannot be interrupted, so the threads that wait for it are counted."""
    release, running = threading.Event(), []

    def hang(*arguments: object, **keywords: object) -> list[object]:
        running.append(threading.current_thread().name)
        release.wait(20)
        raise socket.gaierror(socket.EAI_AGAIN, "x")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    reader = web.reader(resolver=SystemResolver(), deadline_seconds=0.2)
    began = time.monotonic()
    ended = await asyncio.gather(*(reader.open("http://good.example/") for _ in range(40)), return_exceptions=True)
    release.set()
    assert time.monotonic() - began < 2 and all(isinstance(error, TimedOut) for error in ended)
    assert len(set(running)) <= 8


async def test_the_system_is_asked_for_the_absolute_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """F31: a search domain of the machine (`svc.cluster.local`) never comes into it."""
    asked = []

    def getaddrinfo(host: bytes, port: None, **keywords: object) -> list[object]:
        asked.append(host)
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", 0)),
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2606:4700::1", 0, 0, 0)),
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2606:4700::1", 0, 0, 3)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert await SystemResolver().resolve("a.b") == ["8.8.8.8", "2606:4700::1", "2606:4700::1%3"]
    assert asked == [b"a.b."]


async def test_the_next_checked_address_is_tried_without_a_new_lookup(web: Web) -> None:
    """D09."""
    web.answer("/", PAGE)
    web.names.known["two.example"] = ["9.9.9.9", "2606:4700:4700::1111", OTHER]
    assert (await web.open("http://two.example/")).text == "Here it is"
    assert web.network.attempts == [("9.9.9.9", 80), ("2606:4700:4700::1111", 80), (OTHER, 80)]
    assert web.names.asked == ["two.example"]


async def test_few_addresses_of_a_name_are_tried(web: Web) -> None:
    web.names.known["many.example"] = [f"9.9.9.{last}" for last in range(1, 200)] + ["9.9.9.1"]
    with pytest.raises(ConnectFailed):
        await web.open("http://many.example/")
    assert web.network.attempts == [(f"9.9.9.{last}", 80) for last in range(1, 5)]
