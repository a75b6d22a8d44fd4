"""The reviewed read-only tools, alone: GET /v1/tools and POST /v1/tools/{name}/call."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from serve import alone
from serve.auth import require
from serve.edge import Edge
from serve.errors import ApiError, bad_request, not_found
from serve.wire.parameters import Strict, read
from tools.caller import Caller


class CallBody(Strict):
    arguments: dict[str, Any] = Field({})


async def listed(request: Request, edge: Edge, caller: Caller) -> Response:
    """The tools that this caller may call alone."""
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters, "kind": tool.kind}
        for tool in alone.callable_alone(edge, caller)
    ]
    return JSONResponse({"object": "list", "data": tools})


async def call(request: Request, edge: Edge, caller: Caller) -> Response:
    """`{"tool", "status", "result", "elapsed_ms"}`. 400 for arguments that do not fit, 404 for a tool that is not callable
    alone, 403 without its right; each of them is in the audit log, as by any other door."""
    name = request.path_params["tool"]
    body = await read(request, edge.settings.http, CallBody)
    called = await alone.call(edge, caller, "http", name, body.arguments)
    tool, outcome = edge.tools.get(name), called.outcome
    if tool is None or not tool.reviewed:
        raise not_found("tool that can be called alone", "tool_not_found")
    require(caller, tool.right)
    if outcome.broken:
        raise ApiError(503, "tool_unavailable", "What the tool asks is not answering. Try again in a moment.", None, 2)
    if outcome.retry:
        raise bad_request(f"{outcome.result.rstrip('.')}.", "arguments", "invalid_arguments")
    told = {"tool": name, "status": outcome.status, "result": outcome.result}
    return JSONResponse({**told, "elapsed_ms": called.elapsed_ms})
