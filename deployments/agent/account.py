"""Spending in a caller's name: reserve the worst case, work, settle to what was used, whatever happens between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from deployments.ledger.budget import Budgets, Resource
from deployments.ledger.errors import LedgerUnavailable

log = logging.getLogger(__name__)
Result = TypeVar("Result")


@dataclass
class Spending:
    """Work under way. `used` is kept current by whoever works; None when it ends is charged in full."""

    worst: int
    used: int | None = None


class Account:
    """A daily budget of one caller, of tokens unless said otherwise, during one request that lasts at most `lasts`."""

    def __init__(
        self, budgets: Budgets, subject: str, limit: int, lasts: timedelta, resource: Resource = "tokens"
    ) -> None:
        self._budgets = budgets
        self._subject = subject
        self._limit = limit
        self._lasts = lasts
        self._resource = resource

    @asynccontextmanager
    async def spending(self, worst: int) -> AsyncIterator[Spending]:
        """Reserve `worst` for the block and settle at its end. Raises BudgetExhausted, LedgerUnavailable."""
        reservation = await self._budgets.reserve(self._subject, worst, self._limit, self._lasts, self._resource)
        spending = Spending(worst)
        try:
            yield spending
        finally:
            try:
                await finished(self._budgets.settle(reservation, spending.used))
            except LedgerUnavailable:
                log.warning("a reservation could not be settled; it expires and is charged in full")


async def finished(work: Awaitable[Result]) -> Result:
    """The result of `work`, which runs to its end even when the waiting task is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
