"""What the tests of the ledger share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from configs.settings import Right
from deployments.ledger.budget import Budgets
from tests.conftest import Database

ROOT = Path(__file__).parents[2]
ANA, BEN = "key|ana", "key|ben"
MINUTE = timedelta(minutes=1)
NO_TIME = timedelta(0)  # what lasts no time is left behind at once
RETENTION = timedelta(days=90)
GOOD_SHAPE = "rs_" + "A" * 43
RIGHTS: tuple[Right, ...] = ("chat", "memory")


async def spent(budgets: Budgets, subject: str = ANA) -> tuple[int, int]:
    """Used and reserved today."""
    usage = await budgets.usage(subject, 1000)
    return usage.used, usage.reserved


def tally(results: Sequence[object]) -> Counter[type]:
    return Counter(type(result) for result in results)


async def as_owner(database: Database, statements: str) -> None:
    async with database.connection("recall_owner") as connection:
        await connection.execute(statements)
