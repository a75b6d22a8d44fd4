"""Chunks of an engine as deltas: what no model says on demand is said here chunk by chunk."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from deployments.tiers.calls import CallReader
from deployments.tiers.chunks import Chunk, deltas
from deployments.tiers.contract import Delta, ToolCall, Usage
from deployments.tiers.errors import EngineFailed


def chunk(tokens: int, finish: str | None = None, **delta: Any) -> Chunk:
    usage = {"prompt_tokens": 7, "completion_tokens": tokens}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": usage}


def called(place: int, name: str | None = None, arguments: str = "") -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"tool_calls": [{"index": place, "function": function}]}


async def read(*chunks: Chunk, most_tokens: int = 100) -> list[Delta]:
    async def stream() -> AsyncGenerator[Chunk, None]:
        for one in chunks:
            yield one

    def generated(one: Chunk) -> int:
        return int(one["usage"]["completion_tokens"])

    return [delta async for delta in deltas(stream(), most_tokens, CallReader(set()), generated)]


async def test_reasoning_is_counted_and_not_passed_on() -> None:
    said = await read(
        chunk(1, reasoning="Hm, "), chunk(2, reasoning="well."), chunk(3, content="Yes."), chunk(4, "stop")
    )
    assert "".join(delta.text for delta in said) == "Yes."
    assert [delta.tokens for delta in said] == [1, 2, 3, 4, 4] and said[-1].usage == Usage(7, 4)


async def test_calls_that_come_in_pieces_are_put_together_in_their_order() -> None:
    pieces = [called(0, "clock"), called(0, None, '{"city"'), called(1, "note", "{}"), called(0, None, ': "Oslo"}')]
    said = await read(*(chunk(place + 1, **piece) for place, piece in enumerate(pieces)), chunk(9, "tool_calls"))
    assert said[-1].calls == (ToolCall("clock", {"city": "Oslo"}), ToolCall("note", {}))
    assert said[-1].finish == "tool_calls"


@pytest.mark.parametrize("arguments", ['{"city": "Os', "[1, NaN]", "no json"])
async def test_arguments_that_are_no_json_leave_a_call_without_any(arguments: str) -> None:
    said = await read(chunk(1, **called(0, "clock", arguments)), chunk(2, "tool_calls"))
    assert said[-1].calls == (ToolCall("clock", None),)


@pytest.mark.parametrize("finish", ["length", "tool_calls"])
async def test_a_call_that_the_limit_cut_is_dropped_even_when_the_engine_made_it_whole(finish: str) -> None:
    said = await read(
        chunk(1, **called(0, "note", '{"a": 1}')),
        chunk(9, **called(1, "clock", "{}")),
        chunk(12, finish),
        most_tokens=12,
    )
    assert said[-1].calls == (ToolCall("note", {"a": 1}),)
    alone = await read(chunk(9, **called(0, "clock", "{}")), chunk(12, finish), most_tokens=12)
    assert (alone[-1].calls, alone[-1].finish) == ((), "length")


async def test_a_round_that_the_engine_gave_up_is_no_answer() -> None:
    with pytest.raises(EngineFailed, match="abort"):
        await read(chunk(1, content="The"), chunk(2, "abort"))


async def test_an_error_among_the_chunks_is_told_by_its_kind_alone() -> None:
    with pytest.raises(EngineFailed) as failed:
        await read(chunk(1, content="a"), {"error": {"type": "BadRequestError", "message": "secret"}, "choices": []})
    assert str(failed.value) == "BadRequestError"
