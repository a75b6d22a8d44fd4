"""What every chat engine does, whichever it is."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import jsonschema
import pytest

from deployments.tiers.contract import ChatRequest, Delta, Message
from deployments.tiers.errors import EngineFailed, Overloaded, SchemaUnsupported
from tests.chat_engines.conftest import QUEUE, SLOTS, WINDOW_TOKENS, Tier, Under

pytestmark = pytest.mark.timeout(600)
GREEDY = {"temperature": 0}
CLOCK = {
    "type": "function",
    "function": {
        "name": "clock",
        "description": "Tells the time in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
NEVER_ENDS: list[Message] = [{"role": "user", "content": "Count from 1 to 1000, one number a line, and nothing else."}]


@pytest.fixture
def tier(under: Under) -> Tier:
    return under.tier


def ask(text: str) -> list[Message]:
    return [{"role": "user", "content": text}]


def capital(land: str) -> list[Message]:
    """A question that even the smallest model answers, once it has seen how."""
    said: list[Message] = []
    for known, city in (("Spain", "Madrid"), ("Germany", "Berlin"), ("Japan", "Tokyo")):
        said += ask(f"The capital of {known}?")
        said.append({"role": "assistant", "content": f"The capital of {known} is {city}."})
    return said + ask(f"The capital of {land}?")


def asked_before(*cities: str) -> list[Message]:
    """The smallest model calls a tool when it has seen itself do so."""
    said: list[Message] = [{"role": "system", "content": "Answer each question about the time with a tool call."}]
    for city in cities:
        call = json.dumps({"name": "clock", "arguments": {"city": city}})
        said += ask(f"What time is it in {city}?")
        said.append({"role": "assistant", "content": f"<tool_call>\n{call}\n</tool_call>"})
    return said


async def round_of(tier: Tier, request: ChatRequest) -> list[Delta]:
    async with aclosing(tier.chat(request)) as deltas:
        return [delta async for delta in deltas]


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


async def test_an_answer_comes_in_pieces_and_only_the_last_says_how_it_ended(tier: Tier) -> None:
    deltas = await round_of(tier, ChatRequest(capital("France"), 30, sampling=GREEDY))
    *pieces, last = deltas
    assert "Paris" in text_of(deltas)
    assert len([piece for piece in pieces if piece.text]) >= 3
    assert all(piece.finish is None and piece.usage is None for piece in pieces)
    assert last.finish in ("stop", "length") and last.usage is not None
    counts = [piece.tokens for piece in deltas]
    assert counts == sorted(counts) and counts[0] >= 1 and counts[-1] == last.usage.completion
    assert not any(piece.calls or piece.logprobs for piece in deltas)


async def test_the_limit_of_tokens_ends_an_answer(tier: Tier) -> None:
    last = (await round_of(tier, ChatRequest(NEVER_ENDS, 5, sampling=GREEDY)))[-1]
    assert last.finish == "length" and last.usage is not None and last.usage.completion == 5


async def test_a_stop_sequence_ends_an_answer_and_is_not_said(tier: Tier) -> None:
    said = ask("Write exactly: one two three four five six seven")
    free = text_of(await round_of(tier, ChatRequest(said, 40, sampling=GREEDY)))
    word = free.split()[2]
    deltas = await round_of(tier, ChatRequest(said, 40, sampling={**GREEDY, "stop": [word]}))
    assert text_of(deltas) == free[: free.index(word)] and deltas[-1].finish == "stop"


async def test_a_seed_makes_sampling_repeatable(tier: Tier) -> None:
    def wish(seed: int) -> ChatRequest:
        return ChatRequest(ask("Make up a name for a ship."), 24, sampling={"temperature": 1.5, "seed": seed})

    first, second, third = [text_of(await round_of(tier, wish(seed))) for seed in (7, 7, 8)]
    assert first == second != third


async def test_usage_counts_the_prompt_as_count_does(tier: Tier) -> None:
    for messages, tools in (
        (ask("Hello there."), []),
        (asked_before("Rome") + ask("What time is it in Lima?"), [CLOCK]),
    ):
        last = (await round_of(tier, ChatRequest(messages, 2, tools, GREEDY)))[-1]
        assert last.usage is not None
        assert last.usage.prompt == await tier.count(messages, tools) > 10


async def test_a_prompt_that_was_read_before_is_not_read_again(tier: Tier) -> None:
    long = ask("Remember these words: " + " ".join(f"word{number}" for number in range(60)))
    usages = [(await round_of(tier, ChatRequest(long, 2, sampling=GREEDY)))[-1].usage for _ in range(2)]
    assert usages[1] is not None and usages[1].cached > usages[1].prompt // 2


async def test_logprobs_come_with_the_text_they_belong_to(tier: Tier) -> None:
    deltas = await round_of(tier, ChatRequest(ask("Say hello."), 12, sampling=GREEDY, top_logprobs=2))
    tokens = [one for delta in deltas for one in delta.logprobs]
    assert "".join(one["token"] for one in tokens).startswith(text_of(deltas).rstrip()[:10])
    assert all(one["logprob"] <= 0 and len(one["top_logprobs"]) == 2 for one in tokens)


async def test_closing_a_round_stops_the_engine(under: Under) -> None:
    async with aclosing(under.tier.chat(ChatRequest(NEVER_ENDS, 300, sampling=GREEDY))) as deltas:
        heard = [await anext(deltas) for _ in range(3)]
    assert all(delta.finish is None for delta in heard)
    async with asyncio.timeout(2):  # 300 tokens take ten seconds
        while await under.generating() or (await under.tier.load())["ongoing"]:
            await asyncio.sleep(0.05)


async def test_two_rounds_run_side_by_side_and_keep_apart(tier: Tier) -> None:
    wishes = [ChatRequest(capital(land), 20, sampling=GREEDY) for land in ("France", "Italy")]
    both = await asyncio.gather(*(round_of(tier, wish) for wish in wishes))
    assert ["Paris" in text_of(both[0]), "Rome" in text_of(both[1])] == [True, True]


SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Paris", "Rome"]},
        "people": {"type": "integer", "minimum": 1, "maximum": 9},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}, "minItems": 1, "maxItems": 2},
    },
    "required": ["city", "people", "tags"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("seed", range(4))
async def test_a_schema_binds_the_answer(tier: Tier, seed: int) -> None:
    sampling = {"temperature": 1.2, "seed": seed}
    deltas = await round_of(tier, ChatRequest(ask("Tell me about a place."), 160, sampling=sampling, schema=SCHEMA))
    assert deltas[-1].finish == "stop"
    jsonschema.validate(json.loads(text_of(deltas)), SCHEMA)
    assert "\n" not in text_of(deltas), "a small model can write white space until its limit"


async def test_a_schema_that_would_not_bind_is_refused_before_anything_is_generated(under: Under) -> None:
    unbound = {"type": "object", "patternProperties": {"^a": {"type": "string"}}}
    fault = await under.tier.schema_fault(unbound)
    assert fault is not None and "patternProperties" in fault
    with pytest.raises(SchemaUnsupported):
        await round_of(under.tier, ChatRequest(ask("Hi."), 5, schema=unbound))
    assert await under.tier.schema_fault(SCHEMA) is None


async def test_a_tool_call_is_read_out_of_the_answer(tier: Tier) -> None:
    said = [*asked_before("Rome", "Oslo"), *ask("What time is it in Lima?")]
    deltas = await round_of(tier, ChatRequest(said, 80, [CLOCK], GREEDY))
    (call,) = deltas[-1].calls
    assert (call.name, call.arguments) == ("clock", {"city": "Lima"})
    assert deltas[-1].finish == "tool_calls" and "tool_call" not in text_of(deltas)


async def test_half_a_call_is_none_and_is_not_said(tier: Tier) -> None:
    said = [*asked_before("Rome", "Oslo"), *ask("What time is it in Lima?")]
    deltas = await round_of(tier, ChatRequest(said, 12, [CLOCK], GREEDY))
    assert deltas[-1].finish == "length" and deltas[-1].calls == () and text_of(deltas).strip() == ""


async def test_calls_and_their_results_can_be_told_back(tier: Tier) -> None:
    function = {"name": "clock", "arguments": '{"city": "Lima"}'}
    told: list[Message] = [
        *ask("What time is it in Lima?"),
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_0", "content": "It is 14:05 in Lima."},
    ]
    last = (await round_of(tier, ChatRequest(told, 30, [CLOCK], GREEDY)))[-1]
    assert last.usage is not None and last.usage.prompt == await tier.count(told, [CLOCK])


async def test_a_prompt_beyond_the_window_fails_without_quoting_it(tier: Tier) -> None:
    with pytest.raises(EngineFailed) as failed:
        await round_of(tier, ChatRequest(ask("secretword " * WINDOW_TOKENS), 5))
    assert "secretword" not in str(failed.value) and str(failed.value)
    assert "Paris" in text_of(await round_of(tier, ChatRequest(capital("France"), 30, sampling=GREEDY)))


@pytest.mark.parametrize("sampling", [{"temperature": "secretword"}, {"seed": "secretword"}])
async def test_what_an_engine_cannot_read_fails_without_being_quoted(tier: Tier, sampling: dict[str, Any]) -> None:
    """The edge lets none of it through; whoever calls a tier without it is told no less."""
    with pytest.raises(EngineFailed) as failed:
        await round_of(tier, ChatRequest(ask("Hi."), 5, sampling=sampling))
    assert "secretword" not in str(failed.value) and str(failed.value)
    assert "Paris" in text_of(await round_of(tier, ChatRequest(capital("France"), 30, sampling=GREEDY)))


async def test_more_rounds_than_slots_and_queue_are_refused_and_the_others_are_served(tier: Tier) -> None:
    wish = ChatRequest(NEVER_ENDS, 40, sampling=GREEDY)
    outcomes: list[Any] = await asyncio.gather(
        *(round_of(tier, wish) for _ in range(SLOTS + QUEUE + 2)), return_exceptions=True
    )
    refused = [one for one in outcomes if isinstance(one, Overloaded)]
    served = [one[-1].finish for one in outcomes if isinstance(one, list)]
    assert len(refused) == 2 and served == ["length"] * (SLOTS + QUEUE)
    assert await tier.load() == {"ongoing": 0, "waiting": 0, "slots": SLOTS}
