"""A program may print for ever: what is kept is capped while it is read, and what is read too."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable
from dataclasses import dataclass

_CHUNK_BYTES = 64 * 1024
_READ_FACTOR = 16  # a program that prints somewhat too much still comes to its end


@dataclass(frozen=True)
class Captured:
    """The beginning of a stream as text; bytes that are no UTF-8 are shown as U+FFFD."""

    text: str
    truncated: bool


async def capture(stream: asyncio.StreamReader, cap_bytes: int, flooded: Callable[[], None]) -> Captured:
    """Read to the end, keep `cap_bytes`; calls `flooded` once when there is far more."""
    kept, seen, told = bytearray(), 0, False
    while chunk := await stream.read(_CHUNK_BYTES):
        kept += chunk[: cap_bytes - len(kept)]
        seen += len(chunk)
        if seen > cap_bytes * _READ_FACTOR and not told:
            told = True
            flooded()
    return Captured(_as_text(bytes(kept), cut=seen > cap_bytes), seen > cap_bytes)


def _as_text(data: bytes, *, cut: bool) -> str:
    """A character that the cap cut in two is left out, not shown as broken."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data, final=not cut)
