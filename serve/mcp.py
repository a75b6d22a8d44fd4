"""The reviewed tools for MCP clients: POST /mcp, Streamable HTTP, nothing remembered from one request to the next.

The SDK speaks the protocol. What it must not decide stands here, before it sees a request: where it came from, whose it
is, how large it may be, and that its headers and its body ask for the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from importlib.metadata import version
from typing import Any

from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    decode_header_value,
    find_duplicated_routing_header,
)
from mcp_types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PROTOCOL_VERSION_META_KEY,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from configs.settings import Http
from serve import alone
from serve.body import parse, read_raw
from serve.edge import Edge
from serve.errors import ApiError, as_api_error, bad_request
from serve.http import log_failure, own_hosts
from tools.caller import Caller
from tools.tool import Tool as PlatformTool

_CALLER = "recall.caller"  # in the scope of one request
# A credential ends here. There are no sessions and no streams to resume, so what would name one is not passed on either.
_NOT_PASSED = (b"authorization", b"cookie", b"mcp-session-id", b"last-event-id")
_INSTRUCTIONS = "Read-only tools of this platform. Each runs as the owner of the key and is logged without its words."


class McpApp:
    """The ASGI application behind /mcp. It answers while `running()` is entered, which the ingress's own lifespan does:
    in a replica that of a mounted application is never run."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self._origins = _own_origins(http)
        # Host is checked by `Boundary` and Origin here, before a credential is looked at: the SDK's own checks stay off.
        self._sdk = StreamableHTTPSessionManager(
            _server(), json_response=True, stateless=True, max_request_body_size=http.body_bytes
        )
        self.route = Route("/mcp", self)

    def running(self) -> AbstractAsyncContextManager[None]:
        """Once, for the life of the replica."""
        _quieten()
        return self._sdk.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            caller = await self._admit(request)
            raw = await read_raw(request, ("application/json",), self._http.body_bytes, self._http.body_seconds)
            body = parse(raw)
            _check_number(body)
            _check_headers(request.headers, body)
            answer = await _while_there(self._ask(scope, caller, raw), receive)
        except Exception as error:  # the border: every error becomes an answer
            await _refusal(error)(scope, receive, send)
            return
        for message in answer:
            await send(message)

    async def _admit(self, request: Request) -> Caller:
        """The caller of a request that may go on. Raises ApiError."""
        if not self._origins.issuperset(one.lower() for one in request.headers.getlist("origin")):
            raise ApiError(403, "foreign_origin", "Pages of other origins may not call this service.")
        if request.method != "POST":
            raise ApiError(405, "method_not_allowed", "MCP is stateless here: send each message by POST.")
        edge: Edge = request.app.state.edge
        caller = await edge.resolver.caller(request)
        await edge.turns.count_request(caller.subject, caller.limits.requests_per_minute)
        return caller

    async def _ask(self, scope: Scope, caller: Caller, raw: bytes) -> list[Message]:
        """What the SDK answers. It comes whole, so that an error on the way is never half an answer."""
        headers = [(name, value) for name, value in scope["headers"] if name not in _NOT_PASSED]
        answer: list[Message] = []

        async def keep(message: Message) -> None:
            answer.append(message)

        await self._sdk.handle_request({**scope, "headers": headers, _CALLER: caller}, _once(raw), keep)
        return answer


def _own_origins(http: Http) -> frozenset[str]:
    """Where a page of this service's own can stand: the hosts that `serve.http.Boundary` lets through."""
    return frozenset(f"{scheme}://{host}" for scheme in ("http", "https") for host in own_hosts(http))


def _once(raw: bytes) -> Receive:
    """The body that was read, and nothing after it; whether the client is still there is watched by `_while_there`."""
    left = [raw]

    async def receive() -> Message:
        if not left:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": left.pop(), "more_body": False}

    return receive


async def _while_there(work: Awaitable[list[Message]], receive: Receive) -> list[Message]:
    """The outcome of `work`; nothing when the client goes away first, which ends the work in every version: without
    sessions nobody could fetch its result."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else []
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _check_number(body: dict[str, Any]) -> None:
    """In the older versions the SDK takes a request whose number is none for a notification, and answers 202. Raises
    ApiError 400."""
    if "method" in body and "id" in body and type(body["id"]) not in (int, str):
        raise bad_request("The id of a request must be a whole number or a string.", "id")


def _check_headers(headers: Headers, body: dict[str, Any]) -> None:
    """Whoever stands between may have judged the request by its headers, so they must say what the body does.

    The SDK sees to that in the versions that define the headers; this is for a request that claims an older one. Raises
    ApiError 400.
    """
    if name := find_duplicated_routing_header(headers.items()):
        raise ApiError(400, "header_mismatch", f"The header {name} is there more than once.")
    claimed = headers.get(MCP_PROTOCOL_VERSION_HEADER)
    if claimed is not None and claimed not in HANDSHAKE_PROTOCOL_VERSIONS:
        return
    for name, said, done in _said_twice(headers, body):
        if said != done:
            raise ApiError(400, "header_mismatch", f"The header {name} and the body differ.")


def _said_twice(headers: Headers, body: dict[str, Any]) -> Iterator[tuple[str, str | None, Any]]:
    """Header, its value and the body's, for what the body's `_meta` or an optional header says."""
    params, method = _object(body.get("params")), str(body.get("method"))
    meta = _object(params.get("_meta"))
    if PROTOCOL_VERSION_META_KEY in meta:
        yield MCP_PROTOCOL_VERSION_HEADER, headers.get(MCP_PROTOCOL_VERSION_HEADER), meta[PROTOCOL_VERSION_META_KEY]
    if MCP_METHOD_HEADER in headers:
        yield MCP_METHOD_HEADER, headers[MCP_METHOD_HEADER], method
    if MCP_NAME_HEADER in headers and method in NAME_BEARING_METHODS:
        yield MCP_NAME_HEADER, decode_header_value(headers[MCP_NAME_HEADER]), params.get(NAME_BEARING_METHODS[method])


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _refusal(error: Exception) -> Response:
    """The answer for an error, in the shape that MCP clients show: a JSON-RPC error, with our code as its data."""
    known = _known(error)
    code = INTERNAL_ERROR if known.status >= 500 else INVALID_REQUEST
    told = {
        "code": HEADER_MISMATCH if known.code == "header_mismatch" else code,
        "message": known.message,
        "data": {"code": known.code},
    }
    headers = known.headers() | ({"Allow": "POST"} if known.status == 405 else {})
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": told}, known.status, headers)


def _known(error: Exception) -> ApiError:
    known = as_api_error(error)
    if known.status >= 500:
        log_failure(error)
    return known


def _server() -> Server[Any]:
    server = Server(
        "recall-serve",
        version=version("recall-serve"),
        instructions=_INSTRUCTIONS,
        on_list_tools=_list,
        on_call_tool=_call,
    )
    server.middleware.clear()  # the SDK's spans carry names that a caller may have made up
    return server


async def _list(context: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
    """The tools that this caller may call alone; there is one page."""
    if params and params.cursor is not None:
        raise MCPError(INVALID_PARAMS, "There is no such cursor; the list has one page.")
    with _border():
        edge, caller = _asked(context)
        return ListToolsResult(tools=[_described(tool) for tool in alone.callable_alone(edge, caller)])


async def _call(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
    """How the call ended, as text. A tool that cannot be called alone is an error of the protocol, as the protocol says;
    it is logged all the same."""
    with _border():
        edge, caller = _asked(context)
        called = await alone.call(edge, caller, "mcp", params.name, params.arguments or {})
    outcome = called.outcome
    if outcome.status == "refused":
        raise MCPError(INVALID_PARAMS, outcome.result)
    text = outcome.result.encode("utf-8", "replace").decode()  # a feed may hold half a surrogate pair
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=outcome.status != "done")


def _asked(context: ServerRequestContext[Any]) -> tuple[Edge, Caller]:
    assert context.request is not None  # messages come by HTTP alone
    scope = context.request.scope
    return scope["app"].state.edge, scope[_CALLER]


def _described(tool: PlatformTool) -> Tool:
    about = ToolAnnotations(read_only_hint=True, open_world_hint=tool.outside)
    schema = {"type": "object", **tool.parameters}  # MCP wants the type, which an operator's schema may leave out
    return Tool(name=tool.name, description=tool.description, input_schema=schema, annotations=about)


@contextmanager
def _border() -> Iterator[None]:
    """Errors become the sentence for their class. Of others the SDK would send the message, in the older versions."""
    try:
        yield
    except Exception as error:
        raise MCPError(INTERNAL_ERROR, _known(error).message) from None


class _ClassAndPlace(logging.Handler):
    """Takes the SDK's records, which quote what was sent and answered, and passes on the class and place of an error."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and isinstance(record.exc_info[1], Exception):
            log_failure(record.exc_info[1])


def _quieten() -> None:
    log = logging.getLogger("mcp")
    log.handlers = [_ClassAndPlace(logging.ERROR)]
    log.propagate = False
