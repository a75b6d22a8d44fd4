"""The caller's memory as a file of JSON Lines: out, and in again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from deployments.agent.as_caller import CallersMemory
from serve.auth import require
from serve.body import read_raw
from serve.edge import Edge
from serve.http import log_failure
from tools.caller import Caller

_PAGE = 200
_IMPORT_SECONDS = 600
_TYPES = ("application/x-ndjson", "application/jsonl")
_HEADERS = {"Content-Disposition": 'attachment; filename="memory.jsonl"'}


async def export(request: Request, edge: Edge, caller: Caller) -> Response:
    """Every entry, a JSON object a line, newest first."""
    require(caller, "memory")
    memory = edge.memory(caller)
    first = await memory.export(None, _PAGE)
    return StreamingResponse(_pages(memory, first), media_type=_TYPES[0], headers=_HEADERS)


async def import_(request: Request, edge: Edge, caller: Caller) -> Response:
    """`{"imported", "existed", "expired"}`. All or nothing: one bad line and no entry is added."""
    require(caller, "memory")
    settings = edge.settings
    raw = await read_raw(request, _TYPES, settings.memory.import_bytes, settings.http.body_seconds)
    done = await edge.memory(caller, _IMPORT_SECONDS).import_lines(raw)
    return JSONResponse({"object": "memory.imported", **done})


async def _pages(memory: CallersMemory, page: list[dict[str, Any]]) -> AsyncIterator[bytes]:
    """Line by line; where it cannot go on the connection breaks, so that the file is not taken for whole."""
    try:
        while page:
            yield b"".join(json.dumps(entry, ensure_ascii=False).encode() + b"\n" for entry in page)
            page = await memory.export(page[-1]["id"], _PAGE) if len(page) == _PAGE else []
    except Exception as error:  # headers are out
        log_failure(error)
        raise ConnectionError from None
