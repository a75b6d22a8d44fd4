"""Streams that every client can read."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from deployments.agent.events import Ended, Event, Stepped, StopReason, Text
from deployments.tiers.contract import Usage
from deployments.tiers.errors import EngineFailed
from serve.wire.chat_answer import ChunkWriter, finish_reason, whole
from serve.wire.chat_request import ChatWish
from tests.unit.test_chat_request import read
from tools.step import Step

NASTY = 'a\n\nb\rdata: [DONE]\n\nevent: error\nid: 1\u2028\u2029\u0085 "\\ \ud800 😀'
STEP = Stepped(Step(0, "tool", "done", "platform_status", {}, NASTY, elapsed_ms=3))
END = Ended("answered", Usage(5, 7, 2), [{"id": "m_1"}], ["m_1"])
EVENTS: list[Event] = [
    STEP,
    Text("Hel"),
    Text(NASTY, ({"token": "lo", "logprob": -0.1, "bytes": None, "top_logprobs": []},)),
    END,
]


def wish(**options: Any) -> ChatWish:
    return read(stream=True, stream_options=options)


def chunks(wish: ChatWish, events: list[Event]) -> list[dict[str, Any]]:
    sent = ChunkWriter(wish, "chatcmpl-1").lines(events).decode("ascii")
    lines = sent.split("\n\n")
    assert lines.pop() == "" and all(line.startswith("data: ") and "\n" not in line for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_every_line_is_a_chunk_with_one_choice_and_one_identity() -> None:
    sent = chunks(wish(), EVENTS)
    for chunk in sent:
        ChatCompletionChunk.model_validate(chunk, strict=True)
    assert {len(chunk["choices"]) for chunk in sent} == {1}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in sent}) == 1


def test_the_first_chunk_has_the_role_even_when_it_is_a_step() -> None:
    first, *others = chunks(wish(), EVENTS)
    assert first["choices"][0]["delta"] == {"role": "assistant"} and first["step"]["tool"] == "platform_status"
    assert all("role" not in chunk["choices"][0]["delta"] for chunk in others)


def test_no_text_can_forge_an_event() -> None:
    """S01."""
    sent = chunks(wish(), EVENTS)
    assert len(sent) == len(EVENTS)
    assert sent[0]["step"]["result"] == sent[2]["choices"][0]["delta"]["content"] == NASTY


def test_the_joined_deltas_are_the_whole_answer() -> None:
    joined = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks(wish(), EVENTS))
    answer = whole(wish(), "chatcmpl-1", EVENTS)
    assert joined == answer["choices"][0]["message"]["content"] == "Hel" + NASTY
    assert answer["memory"] == {"shown": [{"id": "m_1"}], "cited": ["m_1"]} and answer["stop"] == {"reason": "answered"}
    assert answer["steps"] == [STEP.step.as_dict()] and len(answer["choices"][0]["logprobs"]["content"]) == 1
    ChatCompletion.model_validate(json.loads(json.dumps(answer)))


def test_usage_comes_in_a_chunk_of_its_own_when_asked_for() -> None:
    last = chunks(wish(include_usage=True), EVENTS)[-1]
    assert last["choices"] == [] and last["usage"]["total_tokens"] == 12
    assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    ChatCompletionChunk.model_validate(last, strict=True)


def test_steps_can_be_left_out_and_the_role_still_comes_first() -> None:
    first, *others = chunks(wish(include_steps=False), EVENTS)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": "Hel"}
    assert all("step" not in chunk for chunk in [first, *others])


@pytest.mark.parametrize("reason", get_args(StopReason))
def test_every_ending_has_openais_word(reason: StopReason) -> None:
    expected = "length" if reason in ("length", "token_budget", "deadline") else "stop"
    assert finish_reason(reason) == expected


def test_an_error_after_the_headers_is_a_chunk() -> None:
    """S05."""
    writer = ChunkWriter(wish(), "chatcmpl-1")
    writer.lines([Text("a")])
    chunk = json.loads(writer.error(EngineFailed("secret-detail")).decode().removeprefix("data: "))
    ChatCompletionChunk.model_validate(chunk, strict=True)
    assert chunk["choices"] == [{"index": 0, "delta": {}, "finish_reason": None}]
    assert chunk["error"]["code"] == "internal_error" and "secret-detail" not in json.dumps(chunk)


def test_an_error_before_anything_else_still_begins_with_the_role() -> None:
    chunk = json.loads(ChunkWriter(wish(), "chatcmpl-1").error(EngineFailed("x")).decode().removeprefix("data: "))
    assert chunk["choices"][0]["delta"] == {"role": "assistant"}


def test_the_chunk_that_finishes_carries_what_is_ours() -> None:
    last = chunks(wish(), EVENTS)[-1]
    assert last["choices"][0]["finish_reason"] == "stop" and last["stop"] == {"reason": "answered"}
    assert last["memory"] == {"shown": [{"id": "m_1"}], "cited": ["m_1"]}
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks(wish(), EVENTS)[:-1]] == [None] * 3
    assert "usage" not in last


def test_where_nothing_was_to_be_recalled_there_is_no_memory() -> None:
    (last,) = chunks(wish(), [Ended("length", Usage(1, 1))])
    assert "memory" not in last and "memory" not in whole(wish(), "chatcmpl-1", [Ended("length", Usage(1, 1))])


def test_a_step_that_began_is_told_in_the_stream_alone() -> None:
    began = Stepped(Step(0, "tool", "started", "platform_status", {}))
    assert [chunk["step"]["status"] for chunk in chunks(wish(), [began, *EVENTS]) if "step" in chunk] == [
        "started",
        "done",
    ]
    assert [step["status"] for step in whole(wish(), "chatcmpl-1", [began, *EVENTS])["steps"]] == ["done"]
    assert "steps" not in whole(wish(include_steps=False), "chatcmpl-1", EVENTS)


def test_logprobs_ride_with_their_text() -> None:
    first, second, last = (chunk["choices"][0] for chunk in chunks(wish(), EVENTS)[1:])
    assert second["logprobs"]["content"][0]["token"] == "lo"
    assert "logprobs" not in first and "logprobs" not in last


def test_whole_and_stream_sum_the_same_usage() -> None:
    streamed = chunks(wish(include_usage=True), EVENTS)[-1]["usage"]
    assert whole(wish(), "chatcmpl-1", EVENTS)["usage"] == streamed == {
        "prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 2},
    }  # fmt: skip


ANY_TEXT = st.text(st.characters(codec=None) | st.sampled_from(NASTY))


@given(st.lists(ANY_TEXT, max_size=5))
def test_whatever_a_model_writes_arrives_as_it_is(texts: list[str]) -> None:
    """S01, T07: lone surrogates and every kind of line break too."""
    events: list[Event] = [*map(Text, texts), END]
    sent = chunks(wish(), events)
    assert [chunk["choices"][0]["delta"].get("content") for chunk in sent[:-1]] == texts
    assert whole(wish(), "chatcmpl-1", events)["choices"][0]["message"]["content"] == "".join(texts)
