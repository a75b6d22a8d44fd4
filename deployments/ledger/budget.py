"""Daily budgets: the worst case is reserved in one atomic statement before anything is spent, then settled.

A reservation that is never settled expires and is charged in full, so nothing is ever lost and no number of parallel
requests can pass a limit.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from deployments.ledger.database import LedgerDatabase
from deployments.ledger.errors import BudgetExhausted

Resource = Literal["tokens", "runs", "pages"]
_MOST = 10**12  # no request uses so much; an engine that says so is wrong


@dataclass(frozen=True)
class Reservation:
    """`amount` of a resource set aside for work that is about to begin."""

    id: str
    amount: int


@dataclass(frozen=True)
class Usage:
    """A subject's day so far. `resets_at` is the next midnight, UTC."""

    limit: int
    used: int
    reserved: int
    resets_at: datetime

    def as_dict(self) -> dict[str, Any]:
        left = max(0, self.limit - self.used - self.reserved)
        return {
            "limit": self.limit,
            "used": self.used,
            "reserved": self.reserved,
            "left": left,
            "resets_at": f"{self.resets_at.isoformat()}Z",
        }


class Budgets:
    """What subjects may spend in a UTC day. A limit of 0 allows nothing."""

    def __init__(self, database: LedgerDatabase) -> None:
        self._database = database

    async def reserve(
        self, subject: str, amount: int, limit: int, lasts: timedelta, resource: Resource = "tokens"
    ) -> Reservation:
        """Set `amount` aside. Raises BudgetExhausted, LedgerUnavailable, ValueError for a negative amount."""
        if amount < 0:
            raise ValueError("a reservation cannot be negative")
        reservation = Reservation(f"r_{secrets.token_hex(12)}", amount)
        row = await self._database.row("reserve", reservation.id, subject, resource, amount, limit, lasts)
        if row is None:
            raise await self._exhausted(subject, amount, limit, resource)
        return reservation

    async def settle(self, reservation: Reservation, used: int | None) -> None:
        """Charge what was used and free the rest; None (unknown) or a senseless number is charged in full."""
        sensible = used is not None and 0 <= used <= _MOST
        await self._database.row("settle", reservation.id, used if sensible else reservation.amount)

    async def usage(self, subject: str, limit: int, resource: Resource = "tokens") -> Usage:
        row = await self._database.row("today", subject, resource)
        assert row is not None
        return Usage(limit, row["used"], row["reserved"], row["resets_at"])

    async def _exhausted(self, subject: str, asked: int, limit: int, resource: Resource) -> BudgetExhausted:
        row = await self._database.row("today", subject, resource)
        assert row is not None
        left = max(0, limit - row["used"] - row["reserved"])
        return BudgetExhausted(resource, limit, left, asked, row["resets_in_seconds"])
