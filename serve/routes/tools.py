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
from tools.errors import ModelShouldRetry
from tools.table import check_arguments


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
    alone, 403 without its right."""
    name = request.path_params["tool"]
    tool = edge.tools.get(name)
    if tool is None or not tool.reviewed:
        raise not_found("tool that can be called alone", "tool_not_found")
    require(caller, tool.right)
    body = await read(request, edge.settings.http, CallBody)
    try:
        check_arguments(tool, body.arguments)
    except ModelShouldRetry as error:
        raise bad_request(f"{error}.", "arguments", "invalid_arguments") from None
    called = await alone.call(edge, caller, "http", name, body.arguments)
    if called.outcome.broken:
        raise ApiError(503, "tool_unavailable", "What the tool asks is not answering. Try again in a moment.", None, 2)
    told = {"tool": name, "status": called.outcome.status, "result": called.outcome.result}
    return JSONResponse({**told, "elapsed_ms": called.elapsed_ms})
