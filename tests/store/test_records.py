"""Records without a word, and what happens when the database is away."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from configs.settings import Limits
from deployments.ledger.budget import Budgets, Reservation
from deployments.ledger.database import LedgerDatabase
from deployments.ledger.errors import LedgerError, LedgerUnavailable
from deployments.ledger.keys import KeyRing
from deployments.ledger.records import Generation, Records, ToolCallRecord
from deployments.ledger.sweeper import sweep
from deployments.ledger.turns import Turns
from tests.conftest import Database
from tests.store.ledgers import ANA, BEN, GOOD_SHAPE, MINUTE, RETENTION, RIGHTS, spent, tally


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
