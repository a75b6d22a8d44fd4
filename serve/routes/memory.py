"""The caller's own entries: keep, list, read, correct, forget, and what a text would recall.

Someone else's entry and none at all are the same 404.
"""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from memory_store.entry import Kind
from serve.auth import require
from serve.edge import Edge
from serve.errors import ApiError, bad_request, not_found
from serve.paging import limit_of, page_of
from serve.wire.parameters import Strict, read
from tools.caller import Caller

_ID = re.compile(r"m_[0-9a-f]{28}")
_KINDS = get_args(Kind)


class KeepBody(Strict):
    kind: Kind = "fact"
    text: str


class CorrectBody(Strict):
    text: str
    kind: Literal["fact", "preference"] | None = None


class RecallBody(Strict):
    query: str = Field(min_length=1, max_length=100_000)


async def keep(request: Request, edge: Edge, caller: Caller) -> Response:
    """201 with the new entry; 200 with the one that already says this, and `duplicate_of`."""
    require(caller, "memory")
    body = await read(request, edge.settings.http, KeepBody)
    if body.kind == "episode":
        raise ApiError(
            403, "kind_refused", "Episodes are written when a session ends; keep a fact or a preference.", "kind"
        )
    entry = await edge.memory(caller).keep(body.kind, body.text, {"by": "person", "ref": "api"})
    return JSONResponse(entry, 200 if "duplicate_of" in entry else 201)


async def page(request: Request, edge: Edge, caller: Caller) -> Response:
    """Newest first; `?kind=`, `?limit=`, `?cursor=`."""
    require(caller, "memory")
    kind, cursor = request.query_params.get("kind"), request.query_params.get("cursor")
    if kind is not None and kind not in _KINDS:
        raise bad_request(f"kind must be one of {', '.join(_KINDS)}.", "kind")
    if cursor is not None and not _ID.fullmatch(cursor):
        raise bad_request("cursor must be a next_cursor from an earlier page.", "cursor")
    limit = limit_of(request)
    return JSONResponse(page_of(await edge.memory(caller).page(kind, cursor, limit + 1), limit))


async def get(request: Request, edge: Edge, caller: Caller) -> Response:
    require(caller, "memory")
    return _found(await edge.memory(caller).get(_id(request)))


async def correct(request: Request, edge: Edge, caller: Caller) -> Response:
    """The corrected entry, embedded anew."""
    require(caller, "memory")
    body = await read(request, edge.settings.http, CorrectBody)
    return _found(await edge.memory(caller).correct(_id(request), body.text, body.kind))


async def forget(request: Request, edge: Edge, caller: Caller) -> Response:
    """204 when the entry is deleted; a second time there is nothing left to delete: 404."""
    require(caller, "memory")
    if not await edge.memory(caller).forget(_id(request)):
        raise _no_entry()
    return Response(status_code=204)


async def recall(request: Request, edge: Edge, caller: Caller) -> Response:
    """What a turn with this text would be shown, and what was left out and why."""
    require(caller, "memory")
    body = await read(request, edge.settings.http, RecallBody)
    found = await edge.memory(caller).recall(body.query)
    return JSONResponse({"shown": found["shown"], "left_out": found["left_out"]})


def _id(request: Request) -> str:
    entry: str = request.path_params["entry"]
    if not _ID.fullmatch(entry):
        raise _no_entry()
    return entry


def _found(entry: dict[str, Any] | None) -> Response:
    if entry is None:
        raise _no_entry()
    return JSONResponse(entry)


def _no_entry() -> ApiError:
    return not_found("entry", "entry_not_found")
