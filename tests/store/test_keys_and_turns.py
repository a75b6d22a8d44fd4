"""Who may call and how often: keys, requests a minute, turns at the same time."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from configs.settings import Limits
from deployments.ledger.budget import Budgets
from deployments.ledger.database import LedgerDatabase
from deployments.ledger.errors import BudgetExhausted, LedgerUnavailable, TooManyRequests, TooManyTurns
from deployments.ledger.keys import KeyRing, digest
from deployments.ledger.sweeper import sweep
from deployments.ledger.turns import Turns
from tests.conftest import Database
from tests.store.ledgers import ANA, BEN, GOOD_SHAPE, MINUTE, NO_TIME, RETENTION, RIGHTS, as_owner, tally


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
