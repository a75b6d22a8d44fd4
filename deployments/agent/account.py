"""Spending in a caller's name: reserve the worst case, work, settle to what was used, whatever happens between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from deployments.ledger.budget import Budgets
from deployments.ledger.errors import LedgerUnavailable

log = logging.getLogger(__name__)
Result = TypeVar("Result")


@dataclass
class Spending:
    """Work under way. `used` is kept current by whoever works; None when it ends is charged in full."""

    worst: int
    used: int | None = None


class Account:
    """The token budget of one caller during one request that lasts at most `lasts`."""

    def __init__(self, budgets: Budgets, subject: str, tokens_per_day: int, lasts: timedelta) -> None:
        self._budgets = budgets
        self._subject = subject
        self._limit = tokens_per_day
        self._lasts = lasts

    @asynccontextmanager
    async def spending(self, worst: int) -> AsyncIterator[Spending]:
        """Reserve `worst` tokens for the block and settle at its end. Raises BudgetExhausted, LedgerUnavailable."""
        reservation = await self._budgets.reserve(self._subject, worst, self._limit, self._lasts)
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
