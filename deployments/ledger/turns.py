"""How many turns and requests a subject has under way: limits that hold over every ingress replica."""

from __future__ import annotations

from datetime import timedelta

from deployments.ledger.database import SQL, LedgerDatabase
from deployments.ledger.errors import TooManyRequests, TooManyTurns


class Turns:
    """Admission of requests and turns."""

    def __init__(self, database: LedgerDatabase) -> None:
        self._database = database

    async def count_request(self, subject: str, limit: int) -> None:
        """Count a request in this minute. Raises TooManyRequests."""
        if await self._database.row("count_request", subject, limit) is None:
            row = await self._database.row("minute_ends")
            raise TooManyRequests(limit, max(1, row[0]) if row else 60)

    async def open(self, turn: str, subject: str, limit: int, lasts: timedelta) -> None:
        """Admit a turn, which counts until it is closed or `lasts` is over. Raises TooManyTurns."""
        async with self._database.connection() as connection, connection.transaction():
            await connection.execute(SQL["lock_turns"], subject)
            admitted = await connection.fetchval(SQL["open_turn"], turn, subject, limit, lasts)
        if admitted is None:
            raise TooManyTurns(limit)

    async def close(self, turn: str) -> None:
        await self._database.run("close_turn", turn)
