"""Parts of the ledger over an empty database. The database fixtures themselves stand in `tests/conftest.py`."""

from __future__ import annotations

import pytest

from configs.settings import Limits
from deployments.ledger.budget import Budgets
from deployments.ledger.database import LedgerDatabase
from deployments.ledger.keys import KeyRing
from deployments.ledger.turns import Turns
from tests.conftest import Database, passable_folder

__all__ = ["passable_folder"]


@pytest.fixture
def budgets(ledger: LedgerDatabase) -> Budgets:
    return Budgets(ledger)


@pytest.fixture
def turns(ledger: LedgerDatabase) -> Turns:
    return Turns(ledger)


@pytest.fixture
def keys(ledger: LedgerDatabase) -> KeyRing:
    return KeyRing(ledger, Limits())


@pytest.fixture
async def maintenance(database: Database) -> LedgerDatabase:
    return await database.ledger("recall_maintenance", 6)
