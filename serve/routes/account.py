"""What the caller used and what happened in their name: GET /v1/usage and /v1/generations."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from deployments.ledger.budget import Resource
from serve.edge import Edge
from serve.errors import bad_request
from serve.paging import limit_of, page_of
from tools.caller import Caller

_ID = re.compile(r"gen_[0-9a-f]{28}")


async def usage(request: Request, edge: Edge, caller: Caller) -> Response:
    """The day's tokens, runs and pages: limit, used, reserved, left, and when it resets."""
    limits: dict[Resource, int] = {
        "tokens": caller.limits.tokens_per_day,
        "runs": caller.limits.runs_per_day,
        "pages": caller.limits.pages_per_day,
    }
    used = {name: await edge.budgets.usage(caller.subject, limit, name) for name, limit in limits.items()}
    return JSONResponse({name: one.as_dict() for name, one in used.items()})


async def generations(request: Request, edge: Edge, caller: Caller) -> Response:
    """The caller's records, newest first, without any text."""
    cursor = request.query_params.get("cursor")
    if cursor is not None and not _ID.fullmatch(cursor):
        raise bad_request("cursor must be a next_cursor from an earlier page.", "cursor")
    limit = limit_of(request)
    return JSONResponse(page_of(await edge.records.generations(caller.subject, cursor, limit + 1), limit))
