"""Answers (B, C01): broken, endless, huge, compressed, mislabelled. A useful page or a clear reason, within the deadline."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable, Iterator

import pytest

from deployments.web import media
from deployments.web.decode import Body
from deployments.web.errors import (
    BadResponse,
    HttpStatus,
    NotText,
    TimedOut,
    TooLarge,
    Unreadable,
    WebError,
)
from tests.web.conftest import Web, response

HTML = b"<!doctype html><title>T</title><p>Here it is"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
CAP = 200_000
Writing = Callable[[asyncio.StreamWriter], Iterator[bytes]]


def for_ever(head: bytes, piece: bytes, pause_seconds: float = 0.02) -> Callable[..., Awaitable[None]]:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_seconds)

    return respond


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    return b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in chunks) + end


def zipped(body: bytes, *headers: str, type: str = "text/html") -> bytes:
    return response(body, "Content-Encoding: gzip", *headers, type=type)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(HTML, id="B01-no-headers"),
        pytest.param(b"", id="B01-nothing"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", id="B01-another-protocol"),
        pytest.param(b"+OK ready\r\n\r\n", id="B01-mail"),
        pytest.param(HEAD + b"X: " + b"a" * 100_000 + b"\r\n\r\n" + HTML, id="B02-long-line"),
        pytest.param(HEAD + b"X: a\r\n" * 5000 + b"\r\n" + HTML, id="B02-many-lines"),
        pytest.param(HEAD + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n" + HTML, id="B02-megabyte"),
        pytest.param(HEAD + (b"X: " + b"a" * 600 + b"\r\n") * 90 + b"\r\n" + HTML, id="B02-large-in-all"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", id="B04-bad-size"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\n0\r\n\r\n", id="B04-negative-size"),
        pytest.param(
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n1ffffffffffffffff\r\nabc", id="B04-size-beyond-64-bits"
        ),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\nabc", id="B04-size-of-40-digits"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n", id="B04-longer-than-said"),
        pytest.param(HEAD + chunked(HTML, end=b""), id="B04-no-last-chunk"),
        pytest.param(HEAD + b"Content-Length: 500\r\n\r\n" + HTML, id="B04-shorter-than-said"),
        pytest.param(HEAD + b"Content-Length: 44\r\nContent-Length: 45\r\n\r\n" + HTML, id="B04-two-lengths"),
        pytest.param(HEAD + b"Content-Length: -1\r\n\r\n" + HTML, id="B04-negative-length"),
        pytest.param(HEAD + b"Content-Length: 9e9\r\n\r\n" + HTML, id="B04-length-no-number"),
        pytest.param(HEAD + b"Content-Length: 44\r\n" + chunked(HTML), id="B04-length-and-chunks"),
        pytest.param(HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n", id="B04-other-transfer"),
        pytest.param(HEAD + b"X: a\0b\r\n\r\n" + HTML, id="B07-NUL"),
        pytest.param(HEAD + b"X: a\rb\r\n\r\n" + HTML, id="B07-CR"),
        pytest.param(HEAD + b"no colon\r\n\r\n" + HTML, id="B07-no-colon"),
        pytest.param(b"HTTP/1.1 200 OK\r\n folded: first\r\n\r\n" + HTML, id="B07-folded-first"),
        pytest.param(HEAD + b"X : a\r\n\r\n" + HTML, id="B07-space-before-colon"),
        pytest.param(b"HTTP/1.1 20 OK\r\n\r\n", id="B06-two-digits"),
        pytest.param(response(HTML, "Content-Encoding: br"), id="B08-br"),
        pytest.param(response(HTML, "Content-Encoding: zstd"), id="B08-zstd"),
        pytest.param(response(zlib.compress(HTML), "Content-Encoding: deflate"), id="B08-deflate"),
        pytest.param(response(gzip.compress(gzip.compress(HTML)), "Content-Encoding: gzip, gzip"), id="B08-twice"),
        pytest.param(response(gzip.compress(HTML), "Content-Encoding: " + "gzip, " * 10), id="B08-ten-times"),
        pytest.param(response(HTML, "Content-Encoding: gzip", "Content-Encoding: br"), id="B08-two-lines"),
        pytest.param(response(HTML, "Content-Encoding: x-unheard-of"), id="B08-unknown"),
        pytest.param(zipped(gzip.compress(HTML)[:-9]), id="B08-truncated"),
        pytest.param(zipped(gzip.compress(HTML)[:5]), id="B08-truncated-in-its-head"),
        pytest.param(zipped(gzip.compress(HTML) + b"junk after it"), id="B08-junk-behind"),
        pytest.param(zipped(HTML), id="B08-no-gzip-at-all"),
        pytest.param(zipped(gzip.compress(HTML)[:-6] + b"xxxxxx"), id="B08-wrong-checksum"),
        pytest.param(zipped(gzip.compress(b"") * 5000), id="B08-thousands-of-members"),
        pytest.param(response(HTML, "Content-Type: text/plain"), id="B10-two-types"),
    ],
)
async def test_a_broken_answer_is_no_page(answer: bytes, web: Web) -> None:
    with pytest.raises(BadResponse):
        await web.get(answer)


@pytest.mark.parametrize(
    "responder",
    [
        pytest.param(for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), id="B03-interim-answers"),
        pytest.param(for_ever(HEAD, b"X"), id="B03-header-bytes"),
        pytest.param(for_ever(b"HTTP/1.1 200 OK\r\n", b"X: a\r\n"), id="B03-header-lines"),
        pytest.param(for_ever(HEAD + chunked(HTML, end=b"0\r\n"), b"X: a\r\n"), id="B03-trailers"),
        pytest.param(for_ever(HEAD + b"\r\n", b"a"), id="B03-body-byte-by-byte"),
        pytest.param(for_ever(HEAD + chunked(HTML, end=b""), b"1\r\na\r\n"), id="B03-chunks-byte-by-byte"),
        pytest.param(for_ever(b"", b"H", 10), id="B03-then-nothing"),
        pytest.param(for_ever(HEAD + b"Content-Length: 99\r\n\r\n" + HTML, b"", 10), id="B09-the-rest-never-comes"),
        pytest.param(for_ever(HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(HTML)[:20], b"", 10), id="B08-stalls"),
    ],
)  # fmt: skip
async def test_what_drips_ends_with_the_deadline(responder: Callable[..., Awaitable[None]], web: Web) -> None:
    """U4: an HTTP client's own timeouts would start again with each byte."""
    began = time.monotonic()
    with pytest.raises(TimedOut):
        await web.get(responder, deadline_seconds=0.5)
    assert time.monotonic() - began < 1.5


@pytest.mark.parametrize("piece", [b"word " * 10_000, b"<p>word" * 10_000])
async def test_a_body_without_end_is_read_up_to_the_cap(piece: bytes, web: Web) -> None:
    """B09: useful, and marked as not all of it."""
    page = await web.get(for_ever(HEAD + b"\r\n", piece, 0), body_bytes=CAP)
    assert page.truncated and page.size_bytes == CAP and page.text.startswith("word")


async def test_a_chunked_body_without_end_is_read_up_to_the_cap(web: Web) -> None:
    piece = b"2710\r\n" + b"a" * 10_000 + b"\r\n"
    page = await web.get(for_ever(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", piece, 0), body_bytes=CAP)
    assert page.truncated and page.size_bytes == CAP


async def test_more_than_the_cap_is_cut_and_as_much_as_the_cap_is_whole(web: Web) -> None:
    for size, truncated in ((CAP - 1, False), (CAP, False), (CAP + 1, True)):
        page = await web.get(response(b"a" * size), body_bytes=CAP)
        assert (page.truncated, page.size_bytes) == (truncated, min(size, CAP))


@pytest.mark.parametrize("body", [b"a", b"\0", b"<div>", b"<p>word "])
async def test_a_bomb_costs_no_more_than_its_cap(body: bytes, web: Web) -> None:
    """B08: 200 MB in 200 KB. What is cut holds text or does not; the reason is clear."""
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(body * (1_000_000 // len(body))) for _ in range(200)) + packer.flush()
    web.answer("/", zipped(bomb))
    tracemalloc.start()
    try:
        page = await web.open(body_bytes=2_000_000, reduce_seconds=1.5)
        assert page.truncated and page.size_bytes == 2_000_000
    except WebError as error:
        assert error.code in ("not_text", "unreadable", "too_complex")
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 2_000_000 * 2.5 + 8_000_000


def test_a_bomb_is_never_held_decompressed() -> None:
    bomb = gzip.compress(b"a" * 50_000_000)
    body = Body("good.example", 1000, gzip=True)
    tracemalloc.start()
    assert not body.feed(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(body.end()), body.truncated) == (1000, True) and peak < 1_000_000


async def test_compressed_bytes_without_content_are_counted(web: Web) -> None:
    """B08: a gzip header's file name may be endless."""
    with pytest.raises(TooLarge):
        await web.get(zipped(b"\x1f\x8b\x08\x08" + b"\0" * 6 + b"n" * (CAP + 1)), body_bytes=CAP)


@pytest.mark.parametrize("size", [1, 7, 65536])
def test_however_it_is_cut_gzip_decodes_to_the_same(size: int) -> None:
    data = gzip.compress(HTML * 100) + gzip.compress(b"more") + gzip.compress(b"")
    body = Body("good.example", 10_000_000, gzip=True)
    assert all(body.feed(data[place : place + size]) for place in range(0, len(data), size))
    assert body.end() == HTML * 100 + b"more" and not body.truncated


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(response(HTML), id="plain"),
        pytest.param(HEAD + b"\r\n" + HTML, id="B09-no-length"),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n" + HTML, id="HTTP-1.0"),
        pytest.param(HEAD + chunked(HTML[:9], HTML[9:]), id="chunks"),
        pytest.param(HEAD + chunked(HTML, end=b"0\r\nX-Trailer: a\r\n\r\n"), id="trailer"),
        pytest.param(HEAD.replace(b"\r\n", b"\n") + b"\n" + HTML, id="B06-line-ends"),
        pytest.param(HEAD + b"Content-Length: 44\r\nContent-Length: 44\r\n\r\n" + HTML, id="same-length-twice"),
        pytest.param(response(HTML, "Content-Type: text/html"), id="same-type-twice"),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\nLink: </s>\r\n\r\n" + response(HTML), id="early-hints"),
        pytest.param(zipped(gzip.compress(HTML)), id="gzip"),
        pytest.param(response(gzip.compress(HTML), "Content-Encoding: X-GZIP"), id="x-gzip"),
        pytest.param(zipped(gzip.compress(HTML[:9]) + gzip.compress(HTML[9:])), id="B08-members"),
        pytest.param(response(HTML, "Content-Encoding: identity"), id="identity"),
        pytest.param(response(HTML, "Content-Disposition: attachment; filename=x.exe"), id="B12-attachment"),
        pytest.param(response(HTML, type=None), id="B10-no-type"),
        pytest.param(response(HTML, type=""), id="B10-empty-type"),
        pytest.param(response(HTML, type="TEXT/HTML; Charset=UTF-8"), id="type-in-capitals"),
        pytest.param(response(HTML, type="application/xhtml+xml"), id="xhtml"),
        pytest.param(response(HTML, status="203 Non-Authoritative"), id="203"),
        pytest.param(HEAD + b"Content-Length: 44\r\n\r\n" + HTML + b"HTTP/1.1 200 OK\r\n\r\nmore", id="B09-more-than-said"),
    ],
)  # fmt: skip
async def test_an_answer_that_is_odd_but_right_is_read(answer: bytes, web: Web) -> None:
    page = await web.get(answer)
    assert (page.text, page.title, page.truncated, page.size_bytes) == ("Here it is", "T", False, len(HTML))


@pytest.mark.parametrize("status", [204, 205, 206, 400, 401, 403, 404, 407, 410, 429, 451, 500, 502, 503, 600, 999])
async def test_a_status_without_a_page(status: int, web: Web) -> None:
    """B06; login pages behind 401 and 403."""
    body = b"" if status == 204 else b"<p>secret text of the error page"
    with pytest.raises(HttpStatus) as error:
        await web.get(response(body, 'WWW-Authenticate: Basic realm="secret"', status=f"{status} secret"))
    assert error.value.status == status and "secret" not in str(error.value)


async def test_a_login_form_is_shown_as_what_it_is(web: Web) -> None:
    page = await web.get(response(b"<title>Sign in</title><form action=/in method=post><h1>Please sign in</h1><label>User"
                                  b"<input name=u></label><label>Password<input type=password></label><button>Go</button>"
                                  b"<a href=/lost>Lost password?</a></form>"))  # fmt: skip
    assert page.title == "Sign in" and page.links == ["http://good.example/lost"]
    assert page.text.splitlines()[0] == "# Please sign in" and "Lost password? [1]" in page.text


@pytest.mark.parametrize(
    "type",
    ["video/mp4", "audio/mpeg", "application/octet-stream", "application/pdf", "application/zip", "image/png", "image/svg+xml",
     "font/woff2", "application/wasm", "multipart/mixed", "application/x-unheard-of", "application/msword"],
)  # fmt: skip
async def test_what_is_declared_as_no_text_is_not_read(type: str, web: Web) -> None:
    """B10: the body does not even come."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {type}\r\n\r\n".encode()
    with pytest.raises(NotText):
        await web.get(for_ever(head, HTML, 10), deadline_seconds=2)


@pytest.mark.parametrize(
    "body",
    [b"\x7fELF\x02\x01\x01", b"PK\x03\x04\x14", b"%PDF-1.7\n1 0 obj", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff\xe0JFIF",
     gzip.compress(HTML), b"<p>text\0", b"\0" * 100, b"a\0b\0c\0", b"<p>" + b"text " * 1000 + b"\0"],
)  # fmt: skip
@pytest.mark.parametrize("type", ["text/html", "text/plain", None])
async def test_bytes_that_are_no_text_are_not_shown_whatever_their_type(
    body: bytes, type: str | None, web: Web
) -> None:
    """B10."""
    with pytest.raises(NotText):
        await web.get(response(body, type=type))


@pytest.mark.parametrize(
    ("type", "body", "text"),
    [
        ("text/plain", "Čaj <b>nije</b>\r\nkava\rni sok\u2028kraj", "Čaj <b>nije</b>\nkava\nni sok\nkraj"),
        ("text/markdown", "# T\n\n* see https://a.example/x.", "# T\n\n* see https://a.example/x [1]."),
        ("text/csv", "a,b\n1,2", "a,b\n1,2"),
        ("application/json", '{"url": "https://a.example/", "n": 1}', '{"url": "https://a.example/", "n": 1}'),
        ("application/problem+json", '{"a": 1}', '{"a": 1}'),
        ("application/yaml", "a: 1", "a: 1"),
        ("application/javascript", "let a = 1 < 2", "let a = 1 < 2"),
        (None, "only words", "only words"),
        (None, '{"a": "<p>"}', '{"a": "<p>"}'),
    ],
)
async def test_text_is_shown_as_it_is(type: str | None, body: str, text: str, web: Web) -> None:
    """B11."""
    page = await web.get(response(body.encode(), type=type and f"{type}; charset=utf-8"))
    assert page.text == text and page.media_type == (type or "")


@pytest.mark.parametrize("type", ["application/xml", "text/xml", "application/rss+xml", "application/atom+xml"])
async def test_xml_is_shown_and_its_entities_are_not_opened(type: str, web: Web) -> None:
    """B11: neither files nor addresses of a document type, nor a billion laughs."""
    body = ('<?xml version="1.0"?><!DOCTYPE a SYSTEM "http://good.example/x.dtd" [<!ENTITY f SYSTEM "file:///etc/passwd">'
            '<!ENTITY b "&f;&f;">]><rss><item><link>https://a.example/1</link>&f;&b;</item></rss>')  # fmt: skip
    page = await web.get(response(body.encode(), type=type))
    assert "&f;&b;" in page.text and "root:" not in page.text and len(web.requests) == 1
    assert "https://a.example/1 [" in page.text and "https://a.example/1" in page.links


async def test_links_in_plain_text_are_numbered_once_each(web: Web) -> None:
    body = "See https://a.example/x, (http://b.example/y(1)) and https://a.example/x; not ftp://c.example or http://localhost/."
    page = await web.get(response(body.encode(), type="text/plain"))
    assert page.links == ["https://a.example/x", "http://b.example/y(1"]
    assert page.text.startswith("See https://a.example/x [1], (http://b.example/y(1 [2]")
    assert "https://a.example/x [1]; not ftp://c.example or http://localhost/." in page.text


@pytest.mark.parametrize(
    "body", [b"", b"   \r\n ", b"<html></html>", b"<script>x()</script>", b"<p>\xe2\x80\x8b\xe2\x80\xae</p>"]
)
async def test_a_page_without_text_says_so(body: bytes, web: Web) -> None:
    with pytest.raises(Unreadable):
        await web.get(response(body))


@pytest.mark.parametrize("piece", [" ", "charset=", "charset =", "a", "/", ";", '"'])
async def test_a_long_content_type_costs_no_time(piece: str, web: Web) -> None:
    """It is read in the event loop, where a slow pattern would hold up every opening."""
    value = "text/html; charset=" + piece * (30_000 // len(piece)) + "!"
    began = time.monotonic()
    assert media.declared(value)[0] == "text/html"
    assert time.monotonic() - began < 0.1
    assert (await web.get(response(HTML, type=value))).text == "Here it is"


async def test_json_of_any_depth_is_only_text(web: Web) -> None:
    page = await web.get(response(b"[" * 100_000, type="application/json"))
    assert len(page.text) == 100_000 and json.dumps(page.text)
