"""Who is calling: one resolver from the Authorization header to a Caller, the same for every route."""

from __future__ import annotations

import limits
from starlette.requests import Request

from configs.settings import Right
from deployments.ledger.keys import PREFIX, KeyRing
from serve.errors import ApiError
from serve.oidc import OidcVerifier
from tools.caller import Caller

_MOST_CREDENTIAL_CHARS = 8192


class Resolver:
    """API keys and, where configured, JWTs. A credential is of one kind by its form and gets no second chance."""

    def __init__(self, keys: KeyRing, oidc: OidcVerifier | None, failures_per_minute: int) -> None:
        self._keys = keys
        self._oidc = oidc
        self._failures = limits.strategies.FixedWindowRateLimiter(limits.storage.MemoryStorage())
        self._most_failures = limits.RateLimitItemPerMinute(failures_per_minute)

    async def caller(self, request: Request) -> Caller:
        """The caller of a request. Raises ApiError 401, or 429 after too many refusals of one address."""
        credential = _credential(request)
        caller = await self._resolve(credential) if credential else None
        if caller is None:
            self._count_failure(request)
            raise ApiError(
                401,
                "invalid_credential",
                "Send a valid key as Authorization: Bearer rs_…; see `recall-serve keys issue`.",
            )
        return caller

    async def _resolve(self, credential: str) -> Caller | None:
        if credential.startswith(PREFIX):
            return await self._keys.find(credential)
        return self._oidc.caller(credential) if self._oidc else None

    def _count_failure(self, request: Request) -> None:
        address = request.client.host if request.client else "unknown"
        if not self._failures.hit(self._most_failures, address):
            raise ApiError(
                429, "too_many_failures", "Too many refused credentials from this address. Wait a minute.", None, 60
            )


def _credential(request: Request) -> str | None:
    """The bearer credential where exactly one Authorization header has one."""
    headers = request.headers.getlist("authorization")
    if len(headers) != 1 or len(headers[0]) > _MOST_CREDENTIAL_CHARS:
        return None
    scheme, _, credential = headers[0].partition(" ")
    return credential if scheme.lower() == "bearer" and credential.isascii() and " " not in credential else None


def require(caller: Caller, right: Right) -> None:
    """Raises ApiError 403."""
    if not caller.may(right):
        raise ApiError(
            403, "right_missing", f"Your key lacks the right {right!r}. Ask the operator for a key that has it."
        )
