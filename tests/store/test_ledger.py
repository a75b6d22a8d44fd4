"""Budgets, turns, keys and records on real Postgres: no limit is passed, nothing is lost, nothing is charged twice."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from configs.settings import Limits, Right
from deployments.agent.account import Account
from deployments.ledger.budget import Budgets, Reservation
from deployments.ledger.database import LedgerDatabase
from deployments.ledger.errors import BudgetExhausted, LedgerError, LedgerUnavailable, TooManyRequests, TooManyTurns
from deployments.ledger.keys import KeyRing, digest
from deployments.ledger.records import Generation, Records, ToolCallRecord
from deployments.ledger.sweeper import sweep
from deployments.ledger.turns import Turns
from tests.conftest import Database

ROOT = Path(__file__).parents[2]
ANA, BEN = "key|ana", "key|ben"
MINUTE = timedelta(minutes=1)
NO_TIME = timedelta(0)  # what lasts no time is left behind at once
RETENTION = timedelta(days=90)


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


async def spent(budgets: Budgets, subject: str = ANA) -> tuple[int, int]:
    """Used and reserved today."""
    usage = await budgets.usage(subject, 1000)
    return usage.used, usage.reserved


def tally(results: Sequence[object]) -> Counter[type]:
    return Counter(type(result) for result in results)


# Budgets -----------------------------------------------------------------------------------------------------------


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


async def as_owner(database: Database, statements: str) -> None:
    async with database.connection("recall_owner") as connection:
        await connection.execute(statements)


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


# Spending ----------------------------------------------------------------------------------------------------------


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


# Turns and requests ------------------------------------------------------------------------------------------------


async def test_of_thirty_turns_at_once_only_the_limit_is_admitted(database: Database) -> None:
    replicas = [Turns(await database.ledger(size=4)) for _ in range(3)]
    opening = (replicas[place % 3].open(f"gen_{place}", ANA, 4, MINUTE) for place in range(30))
    results = await asyncio.gather(*opening, return_exceptions=True)
    assert tally(results) == {type(None): 4, TooManyTurns: 26}
    admitted = [f"gen_{place}" for place, result in enumerate(results) if result is None]
    await replicas[0].open("gen_ben", BEN, 4, MINUTE)
    await replicas[0].close(admitted[0])
    await replicas[0].open("gen_next", ANA, 4, MINUTE)
    with pytest.raises(TooManyTurns) as refused:
        await replicas[0].open("gen_over", ANA, 4, MINUTE)
    assert refused.value.limit == 4


async def test_a_crashed_turn_stops_counting_when_its_time_is_over(
    database: Database, turns: Turns, maintenance: LedgerDatabase
) -> None:
    await turns.open("gen_crashed", ANA, 1, NO_TIME)
    await turns.open("gen_running", ANA, 1, MINUTE)
    with pytest.raises(TooManyTurns):
        await turns.open("gen_more", ANA, 1, MINUTE)
    await sweep(maintenance, RETENTION)
    assert await database.value("select array_agg(id) from ledger.turns") == ["gen_running"]


async def test_closing_a_turn_twice_or_one_that_never_was_is_harmless(turns: Turns) -> None:
    await turns.open("gen_1", ANA, 1, MINUTE)
    for turn in ("gen_1", "gen_1", "gen_unknown"):
        await turns.close(turn)
    await turns.open("gen_2", ANA, 1, MINUTE)


async def test_no_turns_and_no_requests_are_allowed_by_a_limit_of_zero(turns: Turns) -> None:
    """G06."""
    with pytest.raises(TooManyTurns):
        await turns.open("gen_1", ANA, 0, MINUTE)
    with pytest.raises(TooManyRequests) as refused:
        await turns.count_request(ANA, 0)
    assert (refused.value.limit, 1 <= refused.value.resets_in_seconds <= 60) == (0, True)


async def test_of_fifty_requests_at_once_only_the_limit_of_the_minute_is_admitted(database: Database) -> None:
    """A minute may turn meanwhile, so each is looked at for itself."""
    replicas = [Turns(await database.ledger(size=4)) for _ in range(3)]
    results = await asyncio.gather(
        *(replicas[place % 3].count_request(ANA, 5) for place in range(50)), return_exceptions=True
    )
    admitted = tally(results)[type(None)]
    minutes = [row["requests"] for row in await database.rows("select requests from ledger.minutes")]
    assert tally(results) == {type(None): admitted, TooManyRequests: 50 - admitted}
    assert sum(minutes) == admitted and max(minutes) == 5
    await replicas[0].count_request(BEN, 5)


async def test_a_new_minute_allows_requests_again(
    database: Database, turns: Turns, maintenance: LedgerDatabase
) -> None:
    await turns.count_request(ANA, 1)
    await as_owner(database, "update ledger.minutes set minute = minute - interval '1 minute'")
    await turns.count_request(ANA, 1)
    await as_owner(database, "update ledger.minutes set minute = minute - interval '6 minutes'")
    await sweep(maintenance, RETENTION)
    assert await database.value("select count(*) from ledger.minutes") == 0


# Keys --------------------------------------------------------------------------------------------------------------

RIGHTS: tuple[Right, ...] = ("chat", "memory")


async def test_a_key_is_found_by_its_secret_alone(keys: KeyRing) -> None:
    assert not await keys.any()
    key, secret = await keys.issue("ana", RIGHTS, {"tokens_per_day": 7}, timedelta(days=1))
    assert await keys.any()
    caller = await keys.find(secret)
    assert caller is not None
    assert (caller.subject, caller.rights) == (ANA, frozenset(RIGHTS))
    assert caller.limits == Limits(tokens_per_day=7), "other limits are the profile's"
    assert await keys.all() == [key]
    assert (key.subject, key.revoked_at) == (ANA, None)


async def test_a_revoked_key_is_no_key_from_then_on(keys: KeyRing) -> None:
    """K05."""
    key, secret = await keys.issue("ana", RIGHTS, {}, None)
    _, other = await keys.issue("ana", RIGHTS, {}, None)
    assert await keys.revoke(key.id) is True
    assert await keys.find(secret) is None
    assert await keys.find(other) is not None
    assert await keys.revoke(key.id) is False
    assert await keys.revoke("k_unknown") is False
    assert await keys.any(), "an ended key was a key"


@pytest.mark.parametrize("life", [timedelta(0), timedelta(seconds=-1)])
async def test_an_expired_key_is_no_key(keys: KeyRing, life: timedelta) -> None:
    """K05."""
    _, secret = await keys.issue("ana", RIGHTS, {}, life)
    assert await keys.find(secret) is None


async def test_two_keys_of_one_name_share_a_budget(keys: KeyRing, budgets: Budgets) -> None:
    """G12."""
    found = [await keys.find((await keys.issue("ana", RIGHTS, {}, None))[1]) for _ in range(2)]
    subjects = [caller.subject for caller in found if caller]
    assert len(subjects) == 2
    await budgets.reserve(subjects[0], 60, 100, MINUTE)
    with pytest.raises(BudgetExhausted):
        await budgets.reserve(subjects[1], 60, 100, MINUTE)


@pytest.mark.parametrize("name", ["", "Ana", "a b", "a|b", "a" * 65, "-a", "a\n", "á", "a\x00"])
async def test_a_name_that_could_be_mistaken_is_refused(keys: KeyRing, name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        await keys.issue(name, RIGHTS, {}, None)
    assert not await keys.any()


@pytest.mark.parametrize(
    "limits",
    [{"tokens_per_day": -1}, {"tokens_per_year": 5}, {"tokens_per_day": "many"}, {"turns_parallel": 10**9}],
    ids=["negative", "unknown", "word", "huge"],
)
async def test_a_limit_that_means_nothing_is_refused(keys: KeyRing, limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(limits))):
        await keys.issue("ana", RIGHTS, limits, None)
    assert not await keys.any()


@pytest.mark.parametrize("limits", [{"tokens_per_year": 5}, {"tokens_per_day": None}, {"tokens_per_day": -1}])
async def test_a_key_whose_stored_limits_are_not_understood_lets_nobody_in(
    database: Database, keys: KeyRing, limits: dict[str, Any]
) -> None:
    """Behaviour 16, G06: an unknown limit refuses; it is never read as no limit."""
    _, secret = await keys.issue("ana", RIGHTS, {}, None)
    await database.rows("update ledger.keys set limits = $1::text::jsonb", json.dumps(limits))
    assert await keys.find(secret) is None


async def test_only_a_digest_of_the_secret_is_stored(database: Database, keys: KeyRing) -> None:
    _, secret = await keys.issue("ana", RIGHTS, {}, None)
    await keys.find(secret)
    await database.rows("analyze")
    for part in (secret, secret.removeprefix("rs_"), secret[3:20]):
        assert await database.tables_that_hold(part) == set()
    assert await database.value("select secret_sha256 from ledger.keys") == digest(secret)


GOOD_SHAPE = "rs_" + "A" * 43
MALFORMED = {
    "empty": "",
    "prefix": "rs_",
    "short": GOOD_SHAPE[:-1],
    "long": GOOD_SHAPE + "A",
    "quote": "rs_' or '1'='1",
    "comment": f"{GOOD_SHAPE[:-3]};--",
    "percent": f"{GOOD_SHAPE[:-1]}%",
    "dollar": f"{GOOD_SHAPE[:-2]}$1",
    "nul": f"{GOOD_SHAPE[:-1]}\x00",
    "nul-after": f"{GOOD_SHAPE}\x00",
    "newline-after": f"{GOOD_SHAPE}\n",
    "newline-before": f"\n{GOOD_SHAPE}",
    "64-kb": "rs_" + "A" * 65536,
    "other-alphabet": f"{GOOD_SHAPE[:-1]}\u0410",
    "other-digits": f"{GOOD_SHAPE[:-1]}\u0663",
    "full-width": f"{GOOD_SHAPE[:-1]}\uff21",
    "surrogate": f"{GOOD_SHAPE[:-1]}\ud800",
    "jwt": "eyJhbGciOiJub25lIn0.e30.",
    "upper-prefix": GOOD_SHAPE.replace("rs_", "RS_"),
}


@pytest.mark.parametrize("secret", MALFORMED.values(), ids=MALFORMED.keys())
async def test_what_is_no_key_is_never_looked_up(database: Database, secret: str) -> None:
    """K02: the database is closed, so a look-up would be an error."""
    closed = await database.ledger(size=1)
    await closed.close()
    keys = KeyRing(closed, Limits())
    assert await keys.find(secret) is None
    with pytest.raises(LedgerUnavailable):
        await keys.find(GOOD_SHAPE)


@pytest.mark.parametrize("place", [3, 4, 23, 44, 45])
async def test_a_secret_that_is_wrong_in_one_place_finds_nothing(keys: KeyRing, place: int) -> None:
    """K03, K06: the whole secret counts, wherever it differs."""
    _, secret = await keys.issue("ana", RIGHTS, {}, None)
    wrong = secret[:place] + ("A" if secret[place] != "A" else "B") + secret[place + 1 :]
    assert await keys.find(wrong) is None
    assert await keys.find(secret.swapcase()) is None
    assert await keys.find(secret) is not None


# Records -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def records(ledger: LedgerDatabase) -> Records:
    return Records(ledger, b"k" * 32)


def generation(subject: str = ANA, **values: Any) -> Generation:
    return Generation(subject, "deep", "weights", "code-reviewer", outcome="completed", **values)


async def test_a_generation_is_written_once(records: Records) -> None:
    one = generation(prompt_tokens=7, completion_tokens=5, tools=["remember"], steps=2, stop_reason="answered")
    await records.add_generation(one, "answer")
    one.prompt_tokens = 1000
    await records.add_generation(one, "another answer")
    (record,) = await records.generations(ANA, None, 10)
    assert (record["id"], record["prompt_tokens"], record["tools"]) == (one.id, 7, ["remember"])
    assert not await records.all_clean(ANA, ["another answer"])


async def test_generations_are_listed_from_the_newest_and_are_mine_alone(records: Records) -> None:
    mine = [generation(id=f"gen_{place}") for place in range(5)]
    for one in (*mine, generation(BEN, id="gen_9")):
        await records.add_generation(one, None)
    first = await records.generations(ANA, None, 3)
    rest = await records.generations(ANA, first[-1]["id"], 3)
    assert [record["id"] for record in (*first, *rest)] == ["gen_4", "gen_3", "gen_2", "gen_1", "gen_0"]
    assert not any("answer" in key or "hmac" in key for key in first[0])


async def test_an_answer_is_known_again_only_for_whom_it_was_given_to_and_only_when_clean(
    ledger: LedgerDatabase, records: Records
) -> None:
    await records.add_generation(generation(), "A clean answer.")
    await records.add_generation(generation(tainted=True), "A tainted answer.")
    await records.add_generation(generation(BEN), "Ben's answer.")
    assert await records.all_clean(ANA, [])
    assert await records.all_clean(ANA, ["A clean answer."])
    for answers in (
        ["A tainted answer."],
        ["Ben's answer."],
        ["a clean answer."],
        ["A clean answer. "],
        ["A clean answer.", "Nobody's answer."],
        ["lone \ud800 surrogate"],
    ):
        assert not await records.all_clean(ANA, answers)
    assert not await Records(ledger, b"x" * 32).all_clean(ANA, ["A clean answer."]), "the digest is keyed"


async def test_records_hold_no_column_for_free_text(database: Database) -> None:
    """Names, ids and words of ours; whoever adds a column here says what stands in it."""
    rows = await database.rows(
        "select table_name || '.' || column_name as name from information_schema.columns where table_schema = 'ledger'"
        " and table_name in ('generations', 'tool_calls') and data_type not in"
        " ('integer', 'bigint', 'boolean', 'timestamp with time zone')"
    )
    assert {row["name"] for row in rows} == {
        *(f"generations.{name}" for name in ("id", "subject", "agent", "tier", "model", "tools", "stop_reason")),
        *(f"generations.{name}" for name in ("outcome", "answer_hmac")),
        *(f"tool_calls.{name}" for name in ("id", "subject", "generation", "door", "tool", "status", "host")),
    }


async def test_the_answer_is_stored_as_a_keyed_digest_alone(database: Database, records: Records) -> None:
    await records.add_generation(generation(), "Markerword in an answer.")
    await database.rows("analyze")
    assert await database.tables_that_hold("Markerword") == set()


async def test_records_are_kept_as_long_as_the_profile_says(
    database: Database, records: Records, maintenance: LedgerDatabase
) -> None:
    now = datetime.now(UTC)
    for place, age in enumerate((RETENTION + MINUTE, RETENTION - MINUTE)):
        await records.add_generation(generation(id=f"gen_{place}", started_at=now - age), None)
        await records.add_tool_call(ToolCallRecord(ANA, f"gen_{place}", "loop", "remember", "done", now - age, 1, 2, 3))
    await sweep(maintenance, RETENTION)
    assert [record["id"] for record in await records.generations(ANA, None, 10)] == ["gen_1"]
    assert await database.value("select array_agg(generation) from ledger.tool_calls") == ["gen_1"]


# The database away -------------------------------------------------------------------------------------------------


def every_call(ledger: LedgerDatabase) -> list[Any]:
    budgets, turns, keys, records = Budgets(ledger), Turns(ledger), KeyRing(ledger, Limits()), Records(ledger, b"k")
    return [
        budgets.reserve(ANA, 1, 100, MINUTE),
        budgets.settle(Reservation("r_1", 1), 1),
        budgets.usage(ANA, 100),
        turns.open("gen_1", ANA, 1, MINUTE),
        turns.close("gen_1"),
        turns.count_request(ANA, 1),
        keys.find(GOOD_SHAPE),
        keys.issue("ana", RIGHTS, {}, None),
        records.add_generation(generation(), "answer"),
        records.all_clean(ANA, ["answer"]),
        records.generations(ANA, None, 1),
        sweep(ledger, RETENTION),
    ]


async def test_without_a_database_everything_is_refused(database: Database) -> None:
    """G13."""
    closed = await database.ledger(size=1)
    await closed.close()
    results = await asyncio.gather(*every_call(closed), return_exceptions=True)
    assert {type(result) for result in results} == {LedgerUnavailable}


async def test_a_server_that_is_away_is_said_when_opening(database: Database, tmp_path: Path) -> None:
    """G13."""
    with pytest.raises(LedgerUnavailable):
        await LedgerDatabase.open({**database.connect("recall_ledger"), "host": str(tmp_path)}, 1)


async def test_a_connection_that_is_cut_under_a_reservation_refuses_it(database: Database, budgets: Budgets) -> None:
    """G13: nothing is reserved, and the next one finds a new connection."""
    async with database.connection() as holder, holder.transaction():
        await holder.execute("lock table ledger.days in access exclusive mode")
        waiting = asyncio.create_task(budgets.reserve(ANA, 10, 100, MINUTE))
        await holder.execute("select pg_terminate_backend($1)", await database.waiting_process())
        with pytest.raises(LedgerUnavailable):
            await waiting
    assert await spent(budgets) == (0, 0)
    await budgets.reserve(ANA, 10, 100, MINUTE)


async def test_a_server_without_a_free_connection_refuses(clone: Database) -> None:
    """G13."""
    budgets = Budgets(await clone.ledger())
    await clone.rows(f"alter database {clone.name} connection limit 1")
    results = await asyncio.gather(*(budgets.reserve(ANA, 1, 100, MINUTE) for _ in range(8)), return_exceptions=True)
    assert tally(results).keys() == {Reservation, LedgerUnavailable}


async def test_no_error_of_the_ledger_names_anything_but_numbers(budgets: Budgets) -> None:
    with pytest.raises(LedgerError) as refused:
        await budgets.reserve("key|secretive", 11, 10, MINUTE)
    assert "secretive" not in f"{refused.value!r}"
