"""The key ring of a running database, for commands: one connection, closed afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from configs import folders
from configs.settings import Settings
from deployments.ledger.database import LedgerDatabase
from deployments.ledger.keys import KeyRing
from memory_store import connect

Result = TypeVar("Result")


async def with_ring(settings: Settings, action: Callable[[KeyRing], Awaitable[Result]]) -> Result:
    """What `action` gives. Raises LedgerUnavailable; OSError when the database was never made."""
    arguments = connect.arguments(settings.database, folders.secrets(settings), "recall_ledger")
    database = await LedgerDatabase.open(arguments, 1)
    try:
        return await action(KeyRing(database, settings.limits))
    finally:
        await database.close()
