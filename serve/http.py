"""What holds for every route: the Host that was meant, errors in one shape, and who is calling."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from configs.settings import Http
from serve.edge import Edge
from serve.errors import ApiError, as_api_error
from tools.caller import Caller

log = logging.getLogger(__name__)
Handler = Callable[[Request, Edge, Caller], Awaitable[Response]]
OpenHandler = Callable[[Request, Edge], Awaitable[Response]]
_HEADERS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"), (b"x-accel-buffering", b"no")]
_WORDS = {404: "There is no such route.", 405: "This route does not take that method."}


class Boundary:
    """The outermost layer. A page on the web that points a name of its own at this address is refused by its Host."""

    def __init__(self, inner: ASGIApp, http: Http) -> None:
        self._inner = inner
        self._hosts = own_hosts(http)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
        elif self._meant(scope):
            await self._inner(scope, receive, _with_headers(send))
        else:
            error = ApiError(421, "misdirected", "This Host is not served here; the operator can add it to http.hosts.")
            await answer(error)(scope, receive, _with_headers(send))

    def _meant(self, scope: Scope) -> bool:
        hosts = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"]
        return len(hosts) == 1 and hosts[0] in self._hosts


def own_hosts(http: Http) -> set[str]:
    """What a request's Host may be, port included where a browser sends it."""
    names = ("127.0.0.1", "localhost", "[::1]", http.host)
    return {f"{name}:{http.port}" for name in names} | {*http.hosts}


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *_HEADERS]
        await send(message)

    return sending


def route(path: str, method: str, handler: Handler) -> Route:
    """A route for verified callers; each request counts against the caller's rate."""

    async def endpoint(request: Request) -> Response:
        edge: Edge = request.app.state.edge
        try:
            caller = await edge.resolver.caller(request)
            await edge.turns.count_request(caller.subject, caller.limits.requests_per_minute)
            return await handler(request, edge, caller)
        except Exception as error:  # the border: every error becomes an answer
            return failure(error)

    return Route(path, endpoint, methods=[method])


def open_route(path: str, handler: OpenHandler) -> Route:
    """A GET route for anyone, which tells nothing about anyone."""

    async def endpoint(request: Request) -> Response:
        try:
            return await handler(request, request.app.state.edge)
        except Exception as error:  # the border
            return failure(error)

    return Route(path, endpoint, methods=["GET"])


def failure(error: Exception) -> Response:
    """The answer for an error, logged when it is our fault."""
    known = as_api_error(error)
    if known.status >= 500:
        log_failure(error)
    return answer(known)


def answer(error: ApiError) -> Response:
    return JSONResponse(error.body(), error.status, error.headers())


def log_failure(error: Exception) -> None:
    """Where it happened and of what class it is; never its message, which may hold a person's words."""
    frames = "".join(traceback.format_list(traceback.extract_tb(error.__traceback__)[-6:]))
    log.error("%s\n%s", type(error).__name__, frames)


def exception_handlers() -> Mapping[Any, Any]:
    """Starlette's own refusals in our shape."""

    async def refused(request: Request, error: HTTPException) -> Response:
        message = _WORDS.get(error.status_code, "The request was refused.")
        if error.status_code == 405 and error.headers:
            message += f" Allowed: {error.headers.get('Allow', '')}."
        code = {404: "no_such_route", 405: "method_not_allowed"}.get(error.status_code, "invalid_request")
        response = answer(ApiError(error.status_code, code, message))
        response.headers.update(error.headers or {})
        return response

    return {HTTPException: refused}
