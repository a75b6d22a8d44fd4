"""Request bodies as strict JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from serve.body import parse, read_json
from serve.errors import ApiError
from serve.http import failure


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"[" * 100_000, id="T02-open"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="T02-deep"),
        pytest.param(b'{"a":' * 65 + b"1" + b"}" * 65, id="T02-65-levels"),
        pytest.param(b'{"model":"a","model":"b"}', id="T04-twice"),
        pytest.param(b'{"a":{"b":1,"b":1}}', id="T04-twice-inside"),
        pytest.param(b'\xef\xbb\xbf{"a":1}', id="T05-bom"),
        pytest.param('{"a":1}'.encode("utf-16"), id="T05-utf-16"),
        pytest.param(b'{"a":"\xff"}', id="T05-not-utf-8"),
        pytest.param(b'{"a":"\\u0000"}', id="T06-nul"),
        pytest.param(b'{"a":["\\ud800"]}', id="T06-surrogate"),
        pytest.param(b'{"\\udc00":1}', id="T06-surrogate-key"),
        pytest.param(b'{"a":NaN}', id="nan"),
        pytest.param(b'{"a":-Infinity}', id="infinity"),
        pytest.param(b'{"a":1e999}', id="infinity-as-a-number"),
        pytest.param(b'{"a":' + b"9" * 400 + b"}", id="number-beyond-floats"),
        pytest.param(b'{"a":"\xed\xa0\x80"}', id="T05-surrogate-bytes"),
        pytest.param(b'{"a":{"b":["\\udc00\\ud83d"]}}', id="T06-surrogates-in-wrong-order"),
        pytest.param(b'{"a":"\x00"}', id="T06-raw-nul"),
        pytest.param(b'{"a":1,}', id="comma-at-the-end"),
        pytest.param(b"{'a':1}", id="single-quotes"),
        pytest.param(b'"text"', id="text"),
        pytest.param(b"[]", id="list"),
        pytest.param(b"null", id="null"),
        pytest.param(b"", id="empty"),
        pytest.param(b"{} {}", id="two"),
        pytest.param(b"{" + b'"a":' + b"9" * 5000 + b"}", id="huge-number"),
    ],
)
def test_what_is_refused(raw: bytes) -> None:
    with pytest.raises(ApiError) as error:
        parse(raw)
    assert error.value.status == 400


def test_the_place_of_a_bad_text_is_told() -> None:
    with pytest.raises(ApiError) as error:
        parse(b'{"messages":[{"content":"ok"},{"content":"a\\u0000"}]}')
    assert error.value.param == "messages[1].content"


def test_the_deepest_body_allowed_comes_through() -> None:
    assert parse(b'{"a":' * 63 + b"1" + b"}" * 63)


def test_emoji_and_any_script_come_through() -> None:
    """T06."""
    assert parse(b'{"a":"\\ud83d\\ude00 \xc4\x8daj"}') == {"a": "😀 čaj"}


def client(most_bytes: int = 100, seconds: float = 5) -> httpx.AsyncClient:
    async def endpoint(request: Request) -> Response:
        try:
            return JSONResponse(await read_json(request, most_bytes, seconds))
        except ApiError as error:
            return failure(error)

    app = Starlette(routes=[Route("/", endpoint, methods=["POST"])])
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


async def pieces(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b" " * 50


async def never() -> AsyncIterator[bytes]:
    yield b"{"
    await asyncio.Event().wait()


async def test_sizes() -> None:
    """T01: by announced length and by chunks."""
    async with client() as http:
        headers = {"Content-Type": "application/json; charset=utf-8"}
        assert (await http.post("/", content=b"{}", headers=headers)).json() == {}
        assert (await http.post("/", content=b" " * 101, headers=headers)).status_code == 413
        assert (await http.post("/", content=pieces(3), headers=headers)).status_code == 413


@pytest.mark.parametrize(
    "announced", ["1e3", "-1", "101", "", "0x5", "9" * 5000], ids=lambda length: length[:5] or "empty"
)
async def test_an_announced_length_is_a_number_within_the_limit(announced: str) -> None:
    """T01: refused before the body is read."""
    async with client() as http:
        headers = {"Content-Type": "application/json", "Content-Length": announced}
        answer = await http.post("/", content=never(), headers=headers)
    assert answer.status_code == 413 and answer.json()["error"]["code"] == "body_too_large"


async def test_a_body_whose_sender_left_is_refused() -> None:
    """T01: the announced length is never sent."""

    async def left() -> dict[str, str]:
        return {"type": "http.disconnect"}

    headers = [(b"content-type", b"application/json"), (b"content-length", b"50")]
    with pytest.raises(ApiError) as error:
        await read_json(Request({"type": "http", "method": "POST", "headers": headers}, left), 100, 5)
    assert error.value.status == 400


async def test_a_slow_body_is_not_waited_for() -> None:
    """T01."""
    async with client(seconds=0.2) as http:
        answer = await http.post("/", content=never(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 408 and answer.json()["error"]["code"] == "body_too_slow"


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("text/plain", id="T08-text"),
        pytest.param("application/x-www-form-urlencoded", id="T08-form"),
        pytest.param("multipart/form-data; boundary=x", id="T08-multipart"),
        pytest.param("", id="T08-none"),
        pytest.param("application/jsonp", id="T08-jsonp"),
        pytest.param("text/plain; application/json", id="T08-json-as-a-parameter"),
        pytest.param("application/json, text/plain", id="T08-two"),
    ],
)
async def test_only_json_is_json(kind: str) -> None:
    async with client() as http:
        headers = {"Content-Type": kind} if kind else {}
        assert (await http.post("/", content=json.dumps({}), headers=headers)).status_code == 415
