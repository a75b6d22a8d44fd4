"""Redirects (R): each is a new URL with every check, few of them, and nothing is carried along."""

from __future__ import annotations

import asyncio

import pytest

from deployments.web.errors import AddressRefused, BadResponse, HttpStatus, RedirectRefused, TooManyRedirects, WebError
from tests.web.conftest import GOOD, OTHER, Web, header, redirect, response
from tests.web.test_url import cases

PAGE = response(b"<p>Here it is")
STATUSES = [301, 302, 303, 307, 308]


@pytest.mark.parametrize("status", STATUSES)
async def test_a_redirect_to_another_host_is_followed_with_nothing_of_the_first(status: int, web: Web) -> None:
    """R04, R14."""
    web.answer("good.example/", response(b"", "Location: http://other.example/b", "Set-Cookie: id=1; Domain=example",
                                         "WWW-Authenticate: Basic", status=f"{status} Found"))  # fmt: skip
    web.answer("other.example/b", redirect("/c"))
    web.answer("other.example/c", PAGE)
    page = await web.open()
    assert (page.text, page.url, page.host) == ("Here it is", "http://other.example/c", "other.example")
    assert web.network.attempts == [(GOOD, 80), (OTHER, 80), (OTHER, 80)]
    for name in ("cookie", "authorization", "referer", "origin"):
        assert not any(header(request, name) for request in web.requests)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("to", ["http://169.254.169.254/", "http://localhost/", "http://evil.example/", "//10.0.0.1/"])
async def test_a_redirect_into_a_private_network_is_refused_at_that_hop(to: str, status: int, web: Web) -> None:
    """R01, R12."""
    web.names.known["evil.example"] = ["10.0.0.1"]
    web.answer("/", redirect(to, status))
    with pytest.raises(AddressRefused):
        await web.open()
    assert web.network.attempts == [(GOOD, 80)]


@pytest.mark.parametrize("url", [case for case in cases() if "\n" not in case.values[0] and "\r" not in case.values[0]
                                 and "\0" not in case.values[0] and "\ud800" not in case.values[0]
                                 and case.id.split("-")[0] not in ("F15", "F16", "F18", "F23", "F27")])  # fmt: skip
async def test_every_form_that_is_refused_is_refused_in_a_redirect(url: str, web: Web) -> None:
    """R01, R07. Forms that are relative references to a redirect (F18, F23) stand below; blanks are encoded."""
    web.answer("/", redirect(url))
    with pytest.raises(WebError) as error:
        await web.open()
    assert error.value.code in ("redirect_refused", "address_refused", "bad_response")
    assert web.network.attempts == [(GOOD, 80)] and web.names.asked == ["good.example"]


@pytest.mark.parametrize(
    "to",
    ["file:///etc/passwd", "ftp://good.example/", "data:text/html,x", "javascript:alert(1)", "gopher://good.example/",
     "FILE:/etc/passwd", "view-source:http://good.example/", "about:blank", "ws://good.example/", "http:good.example",
     "http:/x", "http:///x", "//", "http://", "https2://x.example/", "//user@other.example/", r"\\other.example\x",
     r"/\other.example", "//good.example:22/", "http://good.example:8265/", "x" * 3000],
)  # fmt: skip
async def test_a_redirect_to_what_is_no_page(to: str, web: Web) -> None:
    """R02, R07, N01."""
    web.answer("/", redirect(to))
    with pytest.raises(RedirectRefused):
        await web.open()
    assert len(web.network.attempts) == 1


async def test_five_redirects_are_followed_and_no_sixth(web: Web) -> None:
    """R03."""
    for place in range(7):
        web.answer(f"/{place}", redirect(f"/{place + 1}"))
    with pytest.raises(TooManyRedirects) as error:
        await web.open("http://good.example/0")
    assert (error.value.limit, len(web.requests)) == (5, 6)
    web.answer("/6", PAGE)
    assert (await web.open("http://good.example/1")).url == "http://good.example/6"


@pytest.mark.parametrize(
    "chain", [{"/": "/"}, {"/": "/b", "/b": "/"}, {"/": "//other.example/", "other.example/": "//good.example/"}]
)
async def test_a_circle_ends_by_count(chain: dict[str, str], web: Web) -> None:
    """R03."""
    for place, to in chain.items():
        web.answer(place if "." in place else f"good.example{place}", redirect(to))
    with pytest.raises(TooManyRedirects):
        await web.open()
    assert len(web.requests) == 6


async def test_none_is_followed_where_none_is_allowed(web: Web) -> None:
    with pytest.raises(TooManyRedirects):
        await web.get(redirect("/b"), redirects=0)
    assert len(web.requests) == 1


@pytest.mark.parametrize(
    ("to", "path"),
    [("b", "/x/b"), ("../b", "/b"), ("?q=1", "/x/y?q=1"), ("//other.example/b", "/b"), ("/č d", "/%C4%8D%20d"),
     ("http://good.example/b#f", "/b"), ("/b?u=http://127.0.0.1/", "/b?u=http://127.0.0.1/")],
)  # fmt: skip
async def test_a_relative_redirect_is_joined(to: str, path: str, web: Web) -> None:
    """R05."""
    web.answer("/x/y", redirect(to))
    web.answer(path, PAGE)
    assert (await web.open("http://good.example/x/y")).text == "Here it is"


@pytest.mark.parametrize(
    "answer",
    [response(b"", status="302 Found"), redirect(""), redirect("   "),
     response(b"", "Location: /a", "Location: /b", status="302 Found")],
    ids=["missing", "empty", "blank", "two"],
)  # fmt: skip
async def test_a_redirect_to_nowhere_is_a_bad_response(answer: bytes, web: Web) -> None:
    """R05."""
    with pytest.raises(BadResponse):
        await web.get(answer)


@pytest.mark.parametrize("status", [300, 304, 305, 306, 399])
async def test_other_statuses_with_a_location_are_not_followed(status: int, web: Web) -> None:
    """R08."""
    with pytest.raises(HttpStatus) as error:
        await web.get(redirect("http://other.example/", status))
    assert error.value.status == status and len(web.requests) == 1


@pytest.mark.parametrize(
    "headers", ["Content-Length: 99999999", "Transfer-Encoding: chunked", "Content-Encoding: gzip"]
)
async def test_the_body_of_a_redirect_is_never_read(headers: str, web: Web) -> None:
    """R10: it never ends and is no gzip."""
    left = asyncio.Event()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 302 Found\r\nLocation: /b\r\n{headers}\r\n\r\n".encode())
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        finally:
            left.set()

    web.answer("/", flood)
    web.answer("/b", PAGE)
    assert (await web.open()).text == "Here it is"
    await asyncio.wait_for(left.wait(), 2)


async def test_a_page_that_refreshes_itself_says_where_to_and_is_not_followed(web: Web) -> None:
    """R11."""
    page = await web.get(response(
        b'<meta http-equiv="Refresh" content="0; URL=\'/next?a=1\'"><script>location="/js"</script><p>Moved',
        "Refresh: 0; url=/header"))  # fmt: skip
    assert page.text == "Moved\n\nThis page sends browsers on to [1]." and page.links == [
        "http://good.example/next?a=1"
    ]
    assert len(web.requests) == 1


@pytest.mark.parametrize("to", ["javascript:alert(1)", "http://localhost/", "file:///etc/passwd"])
async def test_a_refresh_to_what_is_not_opened_is_not_shown(to: str, web: Web) -> None:
    page = await web.get(response(f'<meta http-equiv=refresh content="0;url={to}"><p>Moved'.encode()))
    assert (page.text, page.links) == ("Moved", [])
