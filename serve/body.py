"""A request's body as strict JSON: bounded in size, time and depth, and without what later parts would choke on."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from serve.errors import ApiError, bad_request

MOST_DEPTH = 64
_MOST_DIGITS = 40


async def read_json(request: Request, most_bytes: int, seconds: float) -> dict[str, Any]:
    """The JSON object in the body. Raises ApiError 400, 408, 413, 415."""
    return parse(await read_raw(request, ("application/json",), most_bytes, seconds))


async def read_raw(request: Request, types: Sequence[str], most_bytes: int, seconds: float) -> bytes:
    """The body as it came. Raises ApiError 400, 408, 413, and 415 for another content type than one of `types`."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type not in types:
        raise ApiError(415, "unsupported_media_type", f"Send the body as Content-Type: {' or '.join(types)}.")
    try:
        async with asyncio.timeout(seconds):
            return await _read(request, most_bytes)
    except TimeoutError:
        raise ApiError(408, "body_too_slow", f"The body did not arrive within {seconds:g} s.") from None


async def _read(request: Request, most_bytes: int) -> bytes:
    too_large = ApiError(413, "body_too_large", f"The body may have {most_bytes} bytes at most.")
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or len(announced) > len(str(most_bytes)) or int(announced) > most_bytes:
        raise too_large
    raw = bytearray()
    try:
        async for piece in request.stream():
            raw += piece
            if len(raw) > most_bytes:
                raise too_large
    except ClientDisconnect:
        raise bad_request("The body ended early.") from None
    return bytes(raw)


def parse(raw: bytes) -> dict[str, Any]:
    """Strict JSON: UTF-8 without a mark, no key twice, no NaN, at most 64 levels, no NUL and no lone surrogate.

    Raises ApiError 400.
    """
    try:
        text = raw.decode("utf-8")
        value = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite, parse_int=_whole
        )
    except UnicodeDecodeError:
        raise bad_request("The body is not UTF-8.") from None
    except RecursionError:
        raise bad_request(f"The body is nested too deeply; at most {MOST_DEPTH} levels.") from None
    except ValueError:
        raise bad_request("The body is not valid JSON.") from None
    _check(value, "", 1)
    if not isinstance(value, dict):
        raise bad_request("The body must be a JSON object.")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise bad_request("A key stands twice in one object of the body; send each once.")
    return values


def _no_constant(name: str) -> NoReturn:
    raise bad_request("NaN and Infinity are not valid JSON.")


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise bad_request(f"A number in the body has more than {_MOST_DIGITS} digits.")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _no_constant(digits)


def _check(value: Any, place: str, depth: int) -> None:
    if depth > MOST_DEPTH:
        raise bad_request(f"The body is nested too deeply; at most {MOST_DEPTH} levels.")
    if isinstance(value, str):
        _check_text(value, place)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check_text(key, place)
            _check(inner, f"{place}.{key}" if place else key, depth + 1)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _check(inner, f"{place}[{index}]", depth + 1)


def _check_text(text: str, place: str) -> None:
    if "\x00" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise bad_request("A text holds a NUL or half a surrogate pair; remove it.", place[:200] or None)
