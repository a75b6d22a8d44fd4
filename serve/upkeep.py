"""What must happen without anyone asking: reservations of crashed turns are charged, what has expired is deleted, and
deleted texts are scrubbed from the files at night.

Every ingress replica does it; each piece is safe to run from any number of places at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from configs import folders
from configs.settings import Settings
from deployments.ledger.database import LedgerDatabase
from deployments.ledger.sweeper import sweep
from memory_store import connect, upkeep
from memory_store.errors import ScrubBlocked

log = logging.getLogger(__name__)


class Upkeep:
    """Runs from `open` to `close`, as recall_maintenance."""

    def __init__(self, settings: Settings, connect_to: dict[str, Any], database: LedgerDatabase) -> None:
        self._settings = settings
        self._connect_to = connect_to
        self._database = database
        self._task = asyncio.create_task(self._run())

    @classmethod
    async def open(cls, settings: Settings) -> Upkeep:
        """Raises LedgerUnavailable."""
        arguments = connect.arguments(settings.database, folders.secrets(settings), "recall_maintenance")
        return cls(settings, arguments, await LedgerDatabase.open(arguments, 1))

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._database.close()

    async def _run(self) -> None:
        while True:
            for work in (self._sweep_ledger, self._expire, self._scrub):
                await _attempted(work)
            await asyncio.sleep(self._settings.ledger.sweep_seconds)

    async def _sweep_ledger(self) -> None:
        await sweep(self._database, timedelta(days=self._settings.ledger.retention_days))

    async def _expire(self) -> None:
        async with self._database.connection() as connection:
            await upkeep.expire(connection)

    async def _scrub(self) -> None:
        hour = self._settings.memory.scrub_hour
        if hour is None:
            return
        async with self._database.connection() as connection:
            due = await upkeep.scrub_is_due(connection, hour)
        if due:
            async with upkeep.connected(self._connect_to) as connection:
                await upkeep.scrub(connection)


async def _attempted(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except ScrubBlocked:
        log.info("the nightly scrub waits for other work in the database")
    except Exception as error:  # whatever it was, the next round tries again
        log.warning("upkeep failed (%s)", type(error).__name__)
