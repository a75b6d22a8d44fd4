"""Platform, sandbox and web as one caller sees them: each call carries a token minted for its audience.

What a service refuses because of what was asked comes back as a value: Ray logs errors that cross a handle.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from configs.settings import Limits
from deployments.agent.account import Account
from deployments.agent.as_caller import Mint, Service, broken
from deployments.ledger.budget import Budgets
from deployments.ledger.errors import BudgetExhausted, LedgerError
from tools.errors import ModelShouldKnow, ModelShouldRetry, PageRefused, PlatformBroken
from tools.services import Resource

_KINDS = {"retry": ModelShouldRetry, "know": ModelShouldKnow}


class CallersPlatform:
    """The platform for one caller; meets `tools.services.PlatformService`."""

    def __init__(self, service: Service, mint: Mint, models: list[dict[str, Any]]) -> None:
        self._service = service
        self._mint = mint
        self._models = models

    async def snapshot(self) -> dict[str, Any]:
        with broken("platform"):
            snapshot: dict[str, Any] = await self._service.call("snapshot", self._mint("platform"))
        return snapshot

    def models(self) -> list[dict[str, Any]]:
        return self._models

    async def radar(self, limit: int) -> list[dict[str, str]]:
        with broken("platform"):
            answer = await self._service.call("radar", self._mint("platform"), self._mint("gateway"), limit)
        digests: list[dict[str, str]] = _told(answer)
        return digests

    async def remote(self, name: str, arguments: Mapping[str, Any]) -> str:
        tokens = self._mint("platform"), self._mint("gateway")
        with broken("platform"):
            answer = await self._service.call("call_tool", *tokens, name, dict(arguments))
        return str(_told(answer))


class CallersSandbox:
    """Programs for one caller; meets `tools.services.SandboxService`."""

    def __init__(self, service: Service, mint: Mint) -> None:
        self._service = service
        self._mint = mint

    async def run(self, program: str) -> dict[str, Any]:
        with broken("sandbox"):
            answer = await self._service.call("run", self._mint("sandbox"), program)
        ran: dict[str, Any] = _told(answer)
        return ran


class CallersWeb:
    """Pages for one caller; meets `tools.services.WebService`."""

    def __init__(self, service: Service, mint: Mint) -> None:
        self._service = service
        self._mint = mint

    async def open(self, url: str) -> dict[str, Any]:
        with broken("web"):
            answer: dict[str, Any] = await self._service.call("open", self._mint("web"), url)
        if "refused" in answer:
            raise PageRefused(answer["refused"], answer["host"], answer["sent"])
        return answer


class CallersAllowance:
    """What one caller may still use today of what is counted; meets `tools.services.Allowance`."""

    def __init__(self, budgets: Budgets, subject: str, limits: Limits, lasts: timedelta) -> None:
        self._budgets = budgets
        self._subject = subject
        self._limits: dict[Resource, int] = {"runs": limits.runs_per_day, "pages": limits.pages_per_day}
        self._lasts = lasts

    @asynccontextmanager
    async def spending(self, resource: Resource) -> AsyncIterator[None]:
        account = Account(self._budgets, self._subject, self._limits[resource], self._lasts, resource)
        try:
            async with account.spending(1) as spending:
                try:
                    yield
                except (PlatformBroken, PageRefused) as error:
                    spending.used = 1 if isinstance(error, PageRefused) and error.sent else 0
                    raise
        except BudgetExhausted as error:
            raise ModelShouldKnow(
                f"Today's {resource} of the person are used up ({error.limit}); they come back at midnight UTC."
            ) from None
        except LedgerError:
            raise PlatformBroken("ledger") from None


def _told(answer: dict[str, Any]) -> Any:
    """The answer itself, or what the model must be told instead."""
    if "refused" in answer:
        raise _KINDS[answer["kind"]](answer["refused"])
    return answer["answer"]
