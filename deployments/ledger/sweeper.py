"""What time and crashes leave behind: expired reservations and turns, old records. Runs as recall_maintenance."""

from __future__ import annotations

from datetime import timedelta

from deployments.ledger.database import LedgerDatabase


async def sweep(database: LedgerDatabase, retention: timedelta) -> None:
    """One sweep; safe to run from any number of places at once. Raises LedgerUnavailable."""
    for query in ("sweep_reservations", "sweep_turns", "sweep_minutes"):
        await database.run(query)
    await database.run("sweep_records", retention)
