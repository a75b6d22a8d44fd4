"""Lists in pages: `limit` and `cursor` in, `next_cursor` out where there is more."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from serve.errors import bad_request

DEFAULT, MOST = 50, 200


def limit_of(request: Request) -> int:
    """`?limit=` of a request. Raises ApiError 400."""
    asked = request.query_params.get("limit", str(DEFAULT))
    if not (asked.isascii() and asked.isdecimal() and len(asked) < 6 and 1 <= int(asked) <= MOST):
        raise bad_request(f"limit must be a whole number from 1 to {MOST}.", "limit")
    return int(asked)


def page_of(items: list[dict[str, Any]], limit: int) -> dict[str, Any]:
    """A page of `limit` from a list that was read one longer, to know whether more follows."""
    more = {"next_cursor": items[limit - 1]["id"]} if len(items) > limit else {}
    return {"object": "list", "data": items[:limit]} | more
