"""The caller's own entries: keep, list, search, read, correct, forget one or all, and what a text would recall.

Someone else's entry and none at all are the same 404.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, StringConstraints
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from memory_store.entry import Kind, is_id
from serve.auth import require
from serve.edge import Edge
from serve.errors import ApiError, bad_request, not_found
from serve.paging import DEFAULT, MOST, limit_of, page_of
from serve.wire.parameters import Strict, read
from tools.caller import Caller

_KINDS = get_args(Kind)
_BY_PERSON = {"by": "person", "ref": "api"}
_MOST_WORDS = 20
Time = Annotated[str, StringConstraints(max_length=40)]
PersonsKind = Literal["fact", "preference"]


class KeepBody(Strict):
    kind: Kind = "fact"
    text: str
    expires_at: Time | None = None
    replaces: str | None = None


class CorrectBody(Strict):
    """What is absent stays; `expires_at: null` takes the expiry away."""

    text: str | None = None
    kind: PersonsKind | None = None
    expires_at: Time | None = None


class SearchBody(Strict):
    query: str = Field(min_length=1, max_length=500)
    kind: Kind | None = None
    limit: int = Field(DEFAULT, ge=1, le=MOST)
    cursor: str | None = None


class RecallBody(Strict):
    query: str = Field(min_length=1, max_length=100_000)


async def keep(request: Request, edge: Edge, caller: Caller) -> Response:
    """201 with the new entry; 200 with the one that already says this, and `duplicate_of`. `replaces` corrects another."""
    require(caller, "memory")
    body = await read(request, edge.settings.http, KeepBody)
    if body.kind == "episode":
        raise ApiError(
            403, "kind_refused", "Episodes are written when a session ends; keep a fact or a preference.", "kind"
        )
    if body.replaces is not None:
        return await _replace(edge, caller, body, body.replaces)
    entry = await edge.memory(caller).keep(body.kind, body.text, _BY_PERSON, body.expires_at)
    return JSONResponse(entry, 200 if "duplicate_of" in entry else 201)


async def _replace(edge: Edge, caller: Caller, body: KeepBody, entry: str) -> Response:
    changes = body.model_dump(exclude_unset=True, exclude={"replaces"})
    return _found(await edge.memory(caller).correct(_checked(entry), changes, _BY_PERSON))


async def page(request: Request, edge: Edge, caller: Caller) -> Response:
    """Newest first; `?kind=`, `?limit=`, `?cursor=`."""
    require(caller, "memory")
    _only(request, "kind", "limit", "cursor")
    kind, cursor = request.query_params.get("kind"), request.query_params.get("cursor")
    if kind is not None and kind not in _KINDS:
        raise bad_request(f"kind must be one of {', '.join(_KINDS)}.", "kind")
    limit = limit_of(request)
    found = await edge.memory(caller).page(kind, _cursor(cursor), limit + 1)
    return JSONResponse(page_of(found, limit))


async def search(request: Request, edge: Edge, caller: Caller) -> Response:
    """Entries in whose text every word of `query` stands, newest first. In the body, since a query string is logged on
    many a way."""
    require(caller, "memory")
    body = await read(request, edge.settings.http, SearchBody)
    words = body.query.split()
    if not 1 <= len(words) <= _MOST_WORDS:
        raise bad_request(f"query must have 1 to {_MOST_WORDS} words.", "query")
    found = await edge.memory(caller).search(words, body.kind, _cursor(body.cursor), body.limit + 1)
    return JSONResponse(page_of(found, body.limit))


async def get(request: Request, edge: Edge, caller: Caller) -> Response:
    require(caller, "memory")
    return _found(await edge.memory(caller).get(_id(request)))


async def correct(request: Request, edge: Edge, caller: Caller) -> Response:
    """The corrected entry; a new text is embedded anew."""
    require(caller, "memory")
    body = await read(request, edge.settings.http, CorrectBody, nulls=("expires_at",))
    changes = body.model_dump(exclude_unset=True)
    if not changes:
        raise bad_request("Say what to correct: text, kind or expires_at.")
    return _found(await edge.memory(caller).correct(_id(request), changes, _BY_PERSON))


async def forget(request: Request, edge: Edge, caller: Caller) -> Response:
    """204 when the entry is deleted; a second time there is nothing left to delete: 404."""
    require(caller, "memory")
    if not await edge.memory(caller).forget(_id(request)):
        raise _no_entry()
    return Response(status_code=204)


async def forget_all(request: Request, edge: Edge, caller: Caller) -> Response:
    """`{"count", "dry_run"}`: how many entries were deleted or, with `?dry_run=true`, would be.

    Anything else in the query is refused, so that a misspelt dry_run deletes nothing.
    """
    require(caller, "memory")
    _only(request, "dry_run")
    asked = request.query_params.get("dry_run", "false")
    if asked not in ("true", "false"):
        raise bad_request("dry_run must be true or false.", "dry_run")
    count = await edge.memory(caller).forget_all(asked == "true")
    return JSONResponse({"object": "memory.forgotten", "count": count, "dry_run": asked == "true"})


async def recall(request: Request, edge: Edge, caller: Caller) -> Response:
    """What a turn with this text would be shown, what was left out and why, and how many entries have no vector yet."""
    require(caller, "memory")
    body = await read(request, edge.settings.http, RecallBody)
    found = await edge.memory(caller).recall(body.query)
    return JSONResponse({key: found[key] for key in ("shown", "left_out", "not_embedded")})


def _only(request: Request, *known: str) -> None:
    """Raises ApiError 400 for a query parameter that does not exist, or stands twice."""
    names = [name for name, _ in request.query_params.multi_items()]
    if wrong := sorted({name[:60] for name in names if name not in known or names.count(name) > 1}):
        raise bad_request(f"Not understood in the query: {wrong[0]!r}; allowed, once: {', '.join(known)}.", wrong[0])


def _cursor(cursor: str | None) -> str | None:
    if cursor is not None and not is_id(cursor):
        raise bad_request("cursor must be a next_cursor from an earlier page.", "cursor")
    return cursor


def _id(request: Request) -> str:
    return _checked(request.path_params["entry"])


def _checked(entry: str) -> str:
    if not is_id(entry):
        raise _no_entry()
    return entry


def _found(entry: dict[str, Any] | None) -> Response:
    if entry is None:
        raise _no_entry()
    return JSONResponse(entry)


def _no_entry() -> ApiError:
    return not_found("entry", "entry_not_found")
