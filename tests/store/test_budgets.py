"""Budgets on real Postgres: no limit is passed, nothing is lost, nothing is charged twice."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from deployments.agent.account import Account
from deployments.ledger.budget import Budgets, Reservation
from deployments.ledger.database import LedgerDatabase
from deployments.ledger.errors import BudgetExhausted
from deployments.ledger.sweeper import sweep
from tests.conftest import Database
from tests.store.ledgers import ANA, BEN, MINUTE, NO_TIME, RETENTION, ROOT, as_owner, spent, tally


@pytest.mark.parametrize("spent_before", [0, 400], ids=["G02-first-ever", "G01-later"])
async def test_of_fifty_reservations_at_once_exactly_as_many_as_fit_are_made(
    database: Database, budgets: Budgets, spent_before: int
) -> None:
    """G01, G02: over five pools, as five replicas have them."""
    if spent_before:
        await budgets.settle(await budgets.reserve(ANA, spent_before, 1000, MINUTE), spent_before)
    replicas = [Budgets(await database.ledger(size=4)) for _ in range(5)]
    asking = (replicas[place % 5].reserve(ANA, 10, spent_before + 59, MINUTE) for place in range(50))
    results = await asyncio.gather(*asking, return_exceptions=True)
    assert tally(results) == {Reservation: 5, BudgetExhausted: 45}
    assert await spent(budgets) == (spent_before, 50)
    assert await database.value("select count(*) from ledger.reservations") == 5


RESERVER = """
import asyncio, json, sys
from datetime import timedelta
from deployments.ledger.budget import Budgets
from deployments.ledger.database import LedgerDatabase
from deployments.ledger.errors import BudgetExhausted

async def main():
    job = json.loads(sys.stdin.readline())
    ledger = await LedgerDatabase.open(job["connect"], 4)
    budgets = Budgets(ledger)

    async def admitted():
        try:
            return bool(await budgets.reserve(job["subject"], 10, 59, timedelta(minutes=1)))
        except BudgetExhausted:
            return False

    print("ready", flush=True)
    sys.stdin.readline()
    print(sum(await asyncio.gather(*(admitted() for _ in range(17)))), flush=True)
    await ledger.close()

asyncio.run(main())
"""


class OtherProcess:
    """A process of its own that reserves ten tokens seventeen times when it is told to."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process, self.stdin, self.stdout = process, process.stdin, process.stdout

    @classmethod
    async def start(cls, connect: dict[str, Any]) -> OtherProcess:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-c", RESERVER)
        one = cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd=ROOT))
        one.stdin.write(json.dumps({"connect": connect, "subject": ANA}).encode() + b"\n")
        return one

    async def ready(self) -> None:
        assert (await self.stdout.readline()).strip() == b"ready"

    async def admitted(self) -> int:
        self.stdin.write(b"go\n")
        return int(await self.stdout.readline())

    async def end(self) -> None:
        self.stdin.close()
        assert await self.process.wait() == 0


async def test_the_limit_holds_over_processes(database: Database, budgets: Budgets) -> None:
    """G01, G02."""
    connect = database.connect("recall_ledger")
    processes = await asyncio.gather(*(OtherProcess.start(connect) for _ in range(3)))
    await asyncio.gather(*(one.ready() for one in processes))
    assert sum(await asyncio.gather(*(one.admitted() for one in processes))) == 5
    await asyncio.gather(*(one.end() for one in processes))
    assert await spent(budgets) == (0, 50)


async def test_a_refused_reservation_says_what_is_left_and_when_the_day_ends(budgets: Budgets) -> None:
    """G11."""
    await budgets.settle(await budgets.reserve(ANA, 60, 100, MINUTE), 50)
    await budgets.reserve(ANA, 20, 100, MINUTE)
    with pytest.raises(BudgetExhausted) as refused:
        await budgets.reserve(ANA, 31, 100, MINUTE)
    told = refused.value
    assert (told.resource, told.limit, told.left, told.asked) == ("tokens", 100, 30, 31)
    now = datetime.now(UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    assert abs(told.resets_in_seconds - (midnight - now).total_seconds()) < 60
    assert await budgets.reserve(ANA, 30, 100, MINUTE), "what is left may be taken whole"


@pytest.mark.parametrize("amount", [1, 10**6])
async def test_a_limit_of_zero_allows_nothing(database: Database, budgets: Budgets, amount: int) -> None:
    """G06."""
    with pytest.raises(BudgetExhausted) as refused:
        await budgets.reserve(ANA, amount, 0, MINUTE)
    assert (refused.value.limit, refused.value.left) == (0, 0)
    assert await database.value("select count(*) from ledger.days") == 0


async def test_a_limit_that_was_lowered_below_what_is_used_allows_nothing(budgets: Budgets) -> None:
    await budgets.settle(await budgets.reserve(ANA, 100, 100, MINUTE), 100)
    with pytest.raises(BudgetExhausted) as refused:
        await budgets.reserve(ANA, 1, 50, MINUTE)
    assert refused.value.left == 0


async def test_a_negative_amount_is_never_reserved(budgets: Budgets) -> None:
    """G10: it would give budget away."""
    with pytest.raises(ValueError, match="negative"):
        await budgets.reserve(ANA, -1, 100, MINUTE)
    assert await spent(budgets) == (0, 0)


async def test_resources_and_subjects_have_budgets_of_their_own(budgets: Budgets) -> None:
    await budgets.reserve(ANA, 5, 5, MINUTE, "tokens")
    await budgets.reserve(ANA, 5, 5, MINUTE, "runs")
    await budgets.reserve(BEN, 5, 5, MINUTE, "tokens")
    for subject, resource in ((ANA, "tokens"), (ANA, "runs"), (BEN, "tokens")):
        with pytest.raises(BudgetExhausted):
            await budgets.reserve(subject, 1, 5, MINUTE, resource)


@pytest.mark.parametrize(
    ("used", "charged"),
    [(30, 30), (0, 0), (100, 100), (130, 130), (None, 100), (-1, 100), (-(2**63), 100), (2**63, 100)],
    ids=["part", "nothing", "all", "G09-more", "G10-missing", "G10-negative", "G10-very-negative", "G10-overflow"],
)
async def test_settling_charges_what_was_used_and_frees_the_rest(
    budgets: Budgets, used: int | None, charged: int
) -> None:
    """What makes no sense is charged as reserved."""
    await budgets.settle(await budgets.reserve(ANA, 100, 1000, MINUTE), used)
    assert await spent(budgets) == (charged, 0)


async def test_settling_twice_charges_once(budgets: Budgets) -> None:
    """G04: one after the other, and at once."""
    reservation = await budgets.reserve(ANA, 100, 1000, MINUTE)
    await budgets.settle(reservation, 30)
    await budgets.settle(reservation, 70)
    assert await spent(budgets) == (30, 0)
    reservation = await budgets.reserve(ANA, 100, 1000, MINUTE)
    await asyncio.gather(*(budgets.settle(reservation, 7) for _ in range(8)))
    assert await spent(budgets) == (37, 0)


@pytest.mark.parametrize("sweepers", [1, 6])
async def test_what_a_crash_left_behind_is_charged_in_full_once(
    database: Database, budgets: Budgets, maintenance: LedgerDatabase, sweepers: int
) -> None:
    """G03: and work that is still under way is left alone."""
    for _ in range(10):
        await budgets.reserve(ANA, 7, 1000, NO_TIME)
        await budgets.reserve(BEN, 3, 1000, NO_TIME)
    under_way = await budgets.reserve(ANA, 100, 1000, MINUTE)
    await asyncio.gather(*(sweep(maintenance, RETENTION) for _ in range(sweepers)))
    assert await spent(budgets) == (70, 100)
    assert await spent(budgets, BEN) == (30, 0)
    await budgets.settle(under_way, 1)
    await asyncio.gather(*(sweep(maintenance, RETENTION) for _ in range(sweepers)))
    assert await spent(budgets) == (71, 0)
    assert await database.value("select count(*) from ledger.reservations") == 0


async def test_settling_after_the_sweep_changes_nothing(budgets: Budgets, maintenance: LedgerDatabase) -> None:
    """G04."""
    reservation = await budgets.reserve(ANA, 100, 1000, NO_TIME)
    await sweep(maintenance, RETENTION)
    await budgets.settle(reservation, 5)
    assert await spent(budgets) == (100, 0)


async def test_settling_and_sweeping_at_once_charge_each_reservation_once(
    budgets: Budgets, maintenance: LedgerDatabase
) -> None:
    """G03, G04: whoever comes first decides; full is 1000 each, used is 1."""
    left = [await budgets.reserve(ANA, 1000, 100_000, NO_TIME) for _ in range(30)]
    settling = (budgets.settle(one, 1) for one in left)
    sweeping = (sweep(maintenance, RETENTION) for _ in range(4))
    await asyncio.gather(*settling, *sweeping)
    used, reserved = await spent(budgets)
    swept, settled = divmod(used, 1000)
    assert (swept + settled, reserved) == (30, 0)


async def test_a_reservation_of_yesterday_is_charged_to_yesterday(database: Database, budgets: Budgets) -> None:
    """G05: a request that spans midnight, settled and swept."""
    await as_owner(
        database,
        f"""insert into ledger.days values ('{ANA}', 'tokens', (now() at time zone 'utc')::date - 1, 10, 300);
        insert into ledger.reservations values
            ('r_settled', '{ANA}', 'tokens', (now() at time zone 'utc')::date - 1, 100, now() + interval '1 minute'),
            ('r_swept', '{ANA}', 'tokens', (now() at time zone 'utc')::date - 1, 200, now())""",
    )
    await budgets.reserve(ANA, 1000, 1000, MINUTE)  # today's budget is whole
    await budgets.settle(Reservation("r_settled", 100), 30)
    await sweep(await database.ledger("recall_maintenance", 1), RETENTION)
    days = await database.rows(
        "select (now() at time zone 'utc')::date - day as days_ago, used, reserved from ledger.days order by day"
    )
    assert [tuple(day) for day in days] == [(1, 240, 0), (0, 0, 1000)]


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"], ids=["ahead", "behind"])
async def test_the_day_is_utc_whatever_the_sessions_zone(database: Database, zone: str) -> None:
    """G05: at any moment one of the two zones has another date than UTC."""
    opened = await LedgerDatabase.open({**database.connect("recall_ledger"), "server_settings": {"timezone": zone}}, 1)
    try:
        budgets = Budgets(opened)
        await budgets.reserve(ANA, 1, 10, MINUTE)
        usage = await budgets.usage(ANA, 10)
    finally:
        await opened.close()
    assert usage.reserved == 1
    assert await database.value("select day = (now() at time zone 'utc')::date from ledger.days")
    assert await database.value("select (now() at time zone 'utc')::date + 1") == usage.resets_at.date()
    assert usage.as_dict()["resets_at"].endswith("T00:00:00Z")


@pytest.fixture
def account(budgets: Budgets) -> Account:
    return Account(budgets, ANA, 1000, MINUTE)


async def test_spending_is_reserved_during_the_work_and_settled_after_it(account: Account, budgets: Budgets) -> None:
    async with account.spending(100) as spending:
        assert await spent(budgets) == (0, 100)
        spending.used = 40
    assert await spent(budgets) == (40, 0)


async def test_work_that_does_not_say_what_it_used_is_charged_in_full(account: Account, budgets: Budgets) -> None:
    """G10."""
    async with account.spending(100):
        pass
    assert await spent(budgets) == (100, 0)


@pytest.mark.parametrize("used", [0, 25, None])
async def test_work_that_is_cancelled_is_settled_all_the_same(
    account: Account, budgets: Budgets, used: int | None
) -> None:
    """G03."""
    began = asyncio.Event()

    async def work() -> None:
        async with account.spending(100) as spending:
            spending.used = used
            began.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await spent(budgets) == (100 if used is None else used, 0)


async def test_a_settlement_outlives_a_cancellation_that_comes_during_it(
    database: Database, account: Account, budgets: Budgets
) -> None:
    """G03: the database answers the settlement only after the task was cancelled."""
    async with database.connection() as holder:
        lock = holder.transaction()
        reserved = asyncio.Event()

        async def work() -> None:
            async with account.spending(100) as spending:
                spending.used = 25
                await lock.start()
                await holder.execute("select 1 from ledger.days for update")
                reserved.set()

        task = asyncio.create_task(work())
        await reserved.wait()
        await database.waiting_process()
        task.cancel()
        ended, _ = await asyncio.wait([task], timeout=0.3)
        assert not ended, "it waits for the settlement"
        await lock.commit()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await spent(budgets) == (25, 0)


async def test_a_database_that_goes_away_before_the_settlement_loses_nothing(
    database: Database, maintenance: LedgerDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    """G03: the work keeps its result; the reservation expires and is charged in full."""
    own = await database.ledger(size=1)
    async with Account(Budgets(own), ANA, 1000, NO_TIME).spending(100) as spending:
        spending.used = 1
        await own.close()
    assert "charged in full" in caplog.text
    await sweep(maintenance, RETENTION)
    assert await spent(Budgets(await database.ledger())) == (100, 0)


LIMIT = 3000


@pytest.mark.parametrize("seed", range(4))
async def test_parallel_spending_never_passes_the_limit_and_loses_nothing(database: Database, seed: int) -> None:
    """G01, G03, G08: fifty at once, several rounds each, that end well, fail or are cancelled, over three pools."""
    chance = random.Random(seed)
    accounts = [Account(Budgets(await database.ledger(size=4)), ANA, LIMIT, MINUTE) for _ in range(3)]
    used = 0
    over = asyncio.Event()

    async def spend(account: Account, worst: int, actual: int, ending: str) -> None:
        nonlocal used
        async with account.spending(worst) as spending:
            await asyncio.sleep(chance.random() / 100)
            spending.used = actual
            used += actual
            if ending == "fails":
                raise RuntimeError
            if ending == "leaves":
                raise asyncio.CancelledError

    async def turn(account: Account) -> str:
        for _ in range(chance.randint(1, 4)):
            worst = chance.randint(1, 120)
            ending = chance.choice(["ends well", "ends well", "fails", "leaves"])
            try:
                await spend(account, worst, chance.randint(0, worst), ending)
            except BudgetExhausted:
                return "refused"
            except (RuntimeError, asyncio.CancelledError):
                pass
        return "done"

    async def most_seen() -> int:
        most = 0
        async with database.connection() as connection:
            while not over.is_set():
                seen = await connection.fetchval("select used + reserved from ledger.days") or 0
                most = max(most, seen)
        return most

    watching = asyncio.create_task(most_seen())
    endings = await asyncio.gather(*(turn(accounts[place % 3]) for place in range(50)))
    over.set()
    assert LIMIT / 2 < await watching <= LIMIT
    assert set(endings) == {"refused", "done"}, "the limit was felt"
    budgets = Budgets(await database.ledger())
    assert await spent(budgets) == (used, 0)
    assert await database.value("select count(*) from ledger.reservations") == 0
