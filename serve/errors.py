"""Every error a caller can get: one total table from error class to OpenAI's error shape.

The message says what to do next. A 5xx shows nothing internal. A class that is not in the table is a 500; a test checks
that none of ours is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from deployments.agent.episode.errors import EpisodeRefused
from deployments.agent.errors import AgentError, ContextLengthExceeded, DeadlineExceeded
from deployments.identity import IdentityRefused
from deployments.ledger.errors import BudgetExhausted, LedgerError, TooManyRequests, TooManyTurns
from deployments.tiers.errors import Overloaded, SchemaUnsupported, TierError, TierUnavailable
from memory_store.errors import BadLines, EntryConflict, InvalidEntry, MemoryFull, MemoryStoreError, StoreUnavailable
from tools.errors import ToolError

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class ApiError(Exception):
    """An answer that is an error. `retry_after_seconds` becomes the header."""

    def __init__(
        self, status: int, code: str, message: str, param: str | None = None, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(status, code, message, param, retry_after_seconds)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after_seconds = retry_after_seconds

    def body(self) -> dict[str, Any]:
        """OpenAI's shape."""
        kind = _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def headers(self) -> dict[str, str]:
        headers = {"WWW-Authenticate": "Bearer"} if self.status == 401 else {}
        if self.retry_after_seconds is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after_seconds)))
        return headers


def bad_request(message: str, param: str | None = None, code: str = "invalid_request") -> ApiError:
    """400, the caller's mistake."""
    return ApiError(400, code, message, param)


def not_found(what: str, code: str) -> ApiError:
    """404; the same for what does not exist and for what is someone else's."""
    return ApiError(404, code, f"There is no such {what}.")


def as_api_error(error: BaseException) -> ApiError:
    """The answer for any exception."""
    if isinstance(error, ApiError):
        return error
    for kind in type(error).__mro__:
        if kind in TABLE:
            return TABLE[kind](error)
    return _internal(error)


def _internal(error: BaseException) -> ApiError:
    return ApiError(500, "internal_error", "Something failed here. Try again; if it stays, tell the operator the time.")


def _context_length(error: Any) -> ApiError:
    message = (
        f"The prompt has {error.tokens} tokens and the model's window is {error.window_tokens}. "
        "Send fewer or shorter messages. Nothing was charged."
    )
    return ApiError(400, "context_length_exceeded", message, "messages")


def _deadline(error: Any) -> ApiError:
    return ApiError(504, "deadline", f"No answer began within {error.seconds:g} s. Try again with a shorter prompt.")


_NO_EPISODE = {
    "empty": "the person said nothing that could be summarised",
    "language": "the model did not write in the person's language",
    "person": "the model did not write in the third person",
    "unsafe": "the summaries held code, commands, addresses or credentials",
    "invented": "the summaries said what nobody had said",
    "form": "the model wrote no usable summary",
}


def _episode(error: Any) -> ApiError:
    why = _NO_EPISODE.get(error.reason, _NO_EPISODE["form"])
    message = f"No sound summary could be made: {why}. Nothing was kept; you may try again."
    return ApiError(409, "episode_refused", message, "messages")


def _budget(error: Any) -> ApiError:
    message = (
        f"This request may need {error.asked} {error.resource}, and {error.left} of today's {error.limit} are left. "
        f"The budget resets at midnight UTC, in {error.resets_in_seconds} s; a smaller max_tokens may fit before."
    )
    return ApiError(429, "budget_exhausted", message, None, error.resets_in_seconds)


def _turns(error: Any) -> ApiError:
    message = f"{error.limit} turns of yours are under way, which is your limit. Wait for one to end."
    return ApiError(429, "too_many_turns", message, None, 1)


def _requests(error: Any) -> ApiError:
    message = f"You made {error.limit} requests this minute, which is your limit. Wait {error.resets_in_seconds} s."
    return ApiError(429, "rate_limited", message, None, error.resets_in_seconds)


def _unavailable(error: BaseException) -> ApiError:
    return ApiError(503, "tier_unavailable", "A part of the platform is not answering. Try again in a moment.", None, 2)


def _overloaded(error: BaseException) -> ApiError:
    return ApiError(429, "overloaded", "The model has more requests than it can queue. Try again in a moment.", None, 2)


TABLE: dict[type[BaseException], Callable[[Any], ApiError]] = {
    ContextLengthExceeded: _context_length,
    DeadlineExceeded: _deadline,
    EpisodeRefused: _episode,
    AgentError: _internal,
    BudgetExhausted: _budget,
    TooManyTurns: _turns,
    TooManyRequests: _requests,
    LedgerError: _unavailable,
    Overloaded: _overloaded,
    SchemaUnsupported: lambda error: bad_request(f"{error}.", "response_format", "schema_unsupported"),
    TierUnavailable: _unavailable,
    TierError: _internal,
    InvalidEntry: lambda error: bad_request(f"{error}.", error.param, "invalid_entry"),
    BadLines: lambda error: bad_request(f"Nothing was imported. {error}.", "lines", "invalid_lines"),
    MemoryFull: lambda error: ApiError(
        409, "memory_full", f"You have {error.limit} entries, which is the limit. Forget some first."
    ),
    EntryConflict: lambda error: ApiError(
        409, "entry_conflict", f"The entry {error.other} already says this. Forget one of the two."
    ),
    StoreUnavailable: _unavailable,
    MemoryStoreError: _internal,
    IdentityRefused: _internal,  # our own token was refused: a fault of the platform, not of the caller
    ToolError: _internal,
}
