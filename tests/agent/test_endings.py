"""The loop with a scripted model: one scenario for each ending."""

from __future__ import annotations

import asyncio

import pytest

from deployments.agent.errors import ContextLengthExceeded, DeadlineExceeded
from deployments.agent.prompt import NO_CALLS_LEFT
from deployments.ledger.errors import BudgetExhausted, LedgerUnavailable, TooManyTurns
from deployments.tiers.contract import ToolCall
from deployments.tiers.errors import EngineFailed, Overloaded, TierUnavailable
from tests.agent.conftest import Stage
from tests.agent.sayings import (
    ANSWER,
    STATUS,
    TEA,
    assert_settled,
    for_ever,
    with_bounds,
)
from tests.agent.scripted import Round, ScriptedTier, calling


async def test_a_turn_that_is_answered(stage: Stage) -> None:
    tier = ScriptedTier(ANSWER)
    played = await stage.play(tier, "How is it?")
    assert played.text == "All is well."
    assert (played.ended.reason, played.ended.usage) == ("answered", tier.usages[0])
    assert tier.closed == 1
    record = await stage.generation(played)
    assert (record["stop_reason"], record["outcome"], record["tainted"]) == ("answered", "completed", False)
    assert (record["subject"], record["agent"], record["model"]) == ("key|ana", "reviewer", "scripted")
    await assert_settled(stage, played)


async def test_at_the_limit_of_tool_calls_the_model_is_told_and_answers_without_tools(stage: Stage) -> None:
    """I14: whatever it would call next."""
    tier = ScriptedTier(STATUS, calling("list_models"), ANSWER)
    played = await stage.play(tier, agent=with_bounds(tool_calls=2))
    assert (played.ended.reason, played.text) == ("tool_limit", "All is well.")
    first, second, last = tier.requests
    assert first.tools and second.tools == first.tools
    assert last.tools == []
    assert NO_CALLS_LEFT in last.messages[-1]["content"]
    assert NO_CALLS_LEFT not in second.messages[-1]["content"]
    await assert_settled(stage, played)


@pytest.mark.parametrize("limit", [0, 1], ids=["no-calls", "one-call"])
async def test_the_callers_limit_of_tool_calls_holds_where_it_is_the_smaller(stage: Stage, limit: int) -> None:
    tier = ScriptedTier(*([STATUS] * limit), ANSWER)
    played = await stage.play(tier, caller=stage.caller(tool_calls_per_turn=limit))
    assert [bool(request.tools) for request in tier.requests] == [True] * limit + [False]
    assert played.ended.reason == ("tool_limit" if limit else "answered")


async def test_a_model_that_calls_although_nothing_is_offered_comes_to_an_end(stage: Stage) -> None:
    """I14: it would call for ever."""
    tier = ScriptedTier(STATUS, calling("list_models"), deadline_seconds=3)
    played = await stage.play(tier, agent=with_bounds(tool_calls=1))
    assert len(tier.requests) <= 3
    assert played.results[0][1] == "done"
    assert played.ended.reason == "tool_limit"


async def test_a_budget_that_does_not_suffice_refuses_before_the_first_byte(stage: Stage) -> None:
    tier = ScriptedTier(ANSWER)
    played = stage.turn(tier, caller=stage.caller(tokens_per_day=5))
    with pytest.raises(BudgetExhausted) as refused:
        await played.run()
    assert (refused.value.limit, refused.value.left) == (5, 5)
    assert (played.events, tier.requests) == ([], [])
    assert (await stage.generation(played))["outcome"] == "failed"
    await assert_settled(stage, played)


async def test_a_budget_that_ends_in_a_later_round_ends_the_turn(stage: Stage) -> None:
    """G08."""
    elsewhere = await stage.play(ScriptedTier(ANSWER), caller=stage.caller("key|ben"), recall=False)
    (first,) = elsewhere.tier.requests
    just_enough = elsewhere.tier.usages[0].prompt + first.max_tokens
    tier = ScriptedTier(calling("platform_status", text="Let me look. "), ANSWER)
    played = await stage.play(tier, caller=stage.caller(tokens_per_day=just_enough), recall=False)
    assert (played.ended.reason, played.text, len(tier.requests)) == ("token_budget", "Let me look. ", 1)
    assert (await stage.generation(played))["outcome"] == "completed"
    await assert_settled(stage, played)
    assert (await stage.spent())[0] <= just_enough


async def test_a_deadline_that_passes_before_the_first_byte_is_an_error(stage: Stage) -> None:
    tier = ScriptedTier(Round(hangs=True), deadline_seconds=0.5)
    played = stage.turn(tier, recall=False)
    with pytest.raises(DeadlineExceeded) as refused:
        await played.run()
    assert (refused.value.seconds, played.events, tier.closed) == (0.5, [], 1)
    record = await stage.generation(played)
    assert (record["outcome"], record["completion_tokens"]) == ("failed", 0)
    await assert_settled(stage, played)


async def test_a_deadline_that_passes_while_the_answer_comes_ends_the_turn(stage: Stage) -> None:
    tier = ScriptedTier(Round("This is the beginning", hangs=True), deadline_seconds=1)
    played = await stage.play(tier, recall=False)
    assert (played.ended.reason, played.text, tier.closed) == ("deadline", "This is the beginning", 1)
    record = await stage.generation(played)
    assert (record["outcome"], record["stop_reason"], record["completion_tokens"]) == ("completed", "deadline", 4)
    await assert_settled(stage, played)


async def test_a_deadline_covers_the_tools_too(stage: Stage) -> None:
    stage.platform.before = for_ever
    played = await stage.play(ScriptedTier(STATUS, ANSWER, deadline_seconds=1), recall=False)
    assert (played.ended.reason, len(played.tier.requests)) == ("deadline", 1)
    await assert_settled(stage, played)


async def test_an_answer_that_runs_into_its_length_ends_so(stage: Stage) -> None:
    tier = ScriptedTier(Round("one two three four five six"))
    played = await stage.play(tier, max_tokens=4)
    assert (played.ended.reason, played.text) == ("length", "one two three four ")
    await assert_settled(stage, played)


@pytest.mark.parametrize("wish", [None, 3], ids=["agents-bound", "callers-wish"])
async def test_a_call_that_is_cut_in_the_middle_is_dropped_and_the_model_answers_without_tools(
    stage: Stage, wish: int | None
) -> None:
    """Behaviour 10: nothing was said yet, so the wish for the answer's length is still whole."""
    too_long = Round(calls=(ToolCall("platform_status", {}),) * 4)
    tier = ScriptedTier(too_long, ANSWER, max_output_tokens=3)
    played = await stage.play(tier, max_tokens=wish)
    assert (played.text, played.ended.reason) == ("All is well.", "answered")
    assert [bool(request.tools) for request in tier.requests] == [True, False]
    assert stage.platform.calls == []
    await assert_settled(stage, played)


async def test_a_window_that_is_full_in_a_later_round_ends_the_turn(stage: Stage) -> None:
    probe = await stage.play(ScriptedTier(ANSWER), caller=stage.caller("key|ben"), recall=False)
    window = probe.tier.usages[0].prompt + 20
    tier = ScriptedTier(calling("platform_status", text="Let me look. "), ANSWER, window_tokens=window)
    played = await stage.play(tier, recall=False)
    assert (played.ended.reason, played.text, len(tier.requests)) == ("length", "Let me look. ", 1)
    await assert_settled(stage, played)


async def test_a_call_made_a_third_time_ends_the_tool_phase(stage: Stage) -> None:
    """Behaviour 12."""
    tier = ScriptedTier(STATUS, STATUS, STATUS, ANSWER)
    played = await stage.play(tier, agent=with_bounds(tool_calls=10))
    assert (played.ended.reason, played.text) == ("repeated_call", "All is well.")
    assert [bool(request.tools) for request in tier.requests] == [True, True, True, False]
    assert NO_CALLS_LEFT in tier.requests[-1].messages[-1]["content"]
    assert stage.platform.calls == ["snapshot"]


@pytest.mark.parametrize("text", ["", "This is the beginning "], ids=["before-the-first-token", "in-the-stream"])
async def test_a_client_that_goes_away_stops_the_model_and_pays_what_was_spent(stage: Stage, text: str) -> None:
    """S02, G03."""
    tier = ScriptedTier(Round(text, hangs=True))
    played = stage.turn(tier, recall=False)
    task = asyncio.create_task(played.run())
    await tier.hangs.wait()
    assert (await stage.spent())[1] > 0
    await played.leave(task)
    assert tier.closed == 1
    record = await stage.generation(played)
    assert (record["outcome"], record["stop_reason"]) == ("cancelled", None)
    assert record["prompt_tokens"] == await tier.count(tier.requests[0].messages, tier.requests[0].tools)
    assert record["completion_tokens"] == len(text.split())
    await assert_settled(stage, played)


@pytest.mark.parametrize("during", ["recall", "tool"])
async def test_a_client_that_goes_away_while_a_service_works_pays_what_was_spent(stage: Stage, during: str) -> None:
    """S02, G03: no model was asked while recall worked, so nothing is owed for it."""
    working = asyncio.Event()

    async def work(method: str) -> None:
        working.set()
        await for_ever(method)

    service = stage.memory if during == "recall" else stage.platform
    service.before = work
    played = stage.turn(ScriptedTier(STATUS, ANSWER), recall=during == "recall")
    task = asyncio.create_task(played.run())
    await working.wait()
    await played.leave(task)
    record = await stage.generation(played)
    assert (record["outcome"], len(played.tier.requests)) == ("cancelled", 0 if during == "recall" else 1)
    await assert_settled(stage, played)


@pytest.mark.parametrize("text", ["", "This is the beginning "], ids=["before-the-first-event", "after-it"])
async def test_an_engine_that_fails_fails_the_turn_and_is_settled(stage: Stage, text: str) -> None:
    tier = ScriptedTier(Round(text, error=EngineFailed("broken")))
    played = stage.turn(tier, recall=False)
    with pytest.raises(EngineFailed):
        await played.run()
    assert (played.text, tier.closed) == (text, 1)
    record = await stage.generation(played)
    assert (record["outcome"], record["stop_reason"]) == ("failed", None)
    assert record["completion_tokens"] == len(text.split())
    assert record["prompt_tokens"] > 0
    await assert_settled(stage, played)


@pytest.mark.parametrize("error", [Overloaded("overloaded"), TierUnavailable("tier_unavailable")], ids=["full", "away"])
async def test_a_tier_that_does_not_take_the_turn_costs_nothing(stage: Stage, error: Exception) -> None:
    played = stage.turn(ScriptedTier(Round(error=error)), recall=False)
    with pytest.raises(type(error)):
        await played.run()
    assert played.events == []
    await assert_settled(stage, played)
    assert await stage.spent() == (0, 0)


async def test_a_later_round_that_the_tier_does_not_take_costs_nothing_more(stage: Stage) -> None:
    tier = ScriptedTier(calling("platform_status", text="Let me look. "), Round(error=Overloaded("overloaded")))
    played = stage.turn(tier, recall=False)
    with pytest.raises(Overloaded):
        await played.run()
    (usage,) = tier.usages
    assert await stage.spent() == (usage.prompt + usage.completion, 0)


async def test_a_prompt_over_the_window_costs_nothing(stage: Stage) -> None:
    await stage.keep(TEA)
    before = await stage.spent()
    tier = ScriptedTier(ANSWER, window_tokens=50)
    played = stage.turn(tier, "word " * 60)
    with pytest.raises(ContextLengthExceeded) as refused:
        await played.run()
    assert refused.value.tokens >= 60 and refused.value.window_tokens == 50
    assert (played.events, tier.requests, await stage.spent()) == ([], [], before)
    assert (await stage.generation(played))["outcome"] == "failed"


async def test_a_turn_over_the_parallel_limit_is_refused_and_costs_nothing(stage: Stage) -> None:
    caller = stage.caller(turns_parallel=1)
    first = stage.turn(ScriptedTier(Round(hangs=True)), caller=caller, recall=False)
    task = asyncio.create_task(first.run())
    await first.tier.hangs.wait()
    second = stage.turn(ScriptedTier(ANSWER), caller=caller)
    with pytest.raises(TooManyTurns):
        await second.run()
    assert (second.events, second.tier.requests) == ([], [])
    await first.leave(task)
    assert (await stage.play(ScriptedTier(ANSWER), caller=caller)).ended.reason == "answered"


async def test_without_a_ledger_no_model_is_asked(stage: Stage) -> None:
    """G13."""
    ledger = await stage.database.ledger()
    cut_off = Stage(stage.database, ledger, stage.settings, stage.memory, stage.platform)
    played = cut_off.turn(ScriptedTier(ANSWER))
    await ledger.close()
    with pytest.raises(LedgerUnavailable):
        await played.run()
    assert (played.events, played.tier.requests) == ([], [])
