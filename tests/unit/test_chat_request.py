"""OpenAI's parameters: honoured, without effect, neutral, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from configs.loader import load
from serve.errors import ApiError
from serve.wire import chat_request
from serve.wire.chat_request import ChatWish
from tests.unit.test_settings import LOCAL

AGENTS = load(LOCAL).agents
HI = [{"role": "user", "content": "hi"}]


def read(**body: Any) -> ChatWish:
    return chat_request.read({"model": "fast", "messages": HI, **body}, AGENTS)


def refused(**body: Any) -> ApiError:
    with pytest.raises(ApiError) as error:
        read(**body)
    assert error.value.status == 400
    return error.value


def test_what_is_honoured_arrives() -> None:
    turn = read(
        temperature=0.5, top_p=0.9, max_completion_tokens=9, stop="x", seed=-1, logprobs=True, top_logprobs=3, n=1,
        response_format={"type": "json_object"}, memory="off",
    ).turn  # fmt: skip
    assert turn.sampling == {"temperature": 0.5, "top_p": 0.9, "seed": 2**31 - 1, "stop": ["x"]}
    assert (turn.max_tokens, turn.top_logprobs, turn.schema, turn.recall) == (9, 3, {"type": "object"}, False)


@pytest.mark.parametrize(
    "more",
    [
        {"user": "u"}, {"metadata": {"a": "b"}}, {"store": False}, {"service_tier": "auto"}, {"parallel_tool_calls": True},
        {"prompt_cache_key": "k"}, {"safety_identifier": "s"}, {"temperature": None, "whatever": None}, {"logit_bias": {}},
        {"frequency_penalty": 0, "presence_penalty": 0.0}, {"tools": [], "tool_choice": "none"}, {"tool_choice": "auto"},
        {"response_format": {"type": "text"}}, {"stream_options": {"include_usage": True}},
    ],
)  # fmt: skip
def test_no_wish_passes(more: dict[str, Any]) -> None:
    assert read(**more).turn == read().turn


def test_every_other_wish_is_named_in_one_message() -> None:
    message = refused(frequency_penalty=0.5, store=True, audio={}, best_of=3).message
    assert all(f"'{name}'" in message for name in ("frequency_penalty", "store", "audio", "best_of"))


@pytest.mark.parametrize(
    ("more", "param"),
    [
        pytest.param({"max_tokens": 0}, "max_tokens", id="T09-zero"),
        pytest.param({"max_tokens": -1}, "max_tokens", id="T09-negative"),
        pytest.param({"max_tokens": 2**63}, "max_tokens", id="T09-huge"),
        pytest.param({"max_tokens": True}, "max_tokens", id="T09-true"),
        pytest.param({"max_tokens": "5"}, "max_tokens", id="T09-text"),
        pytest.param({"max_tokens": 1.5}, "max_tokens", id="T09-half"),
        pytest.param({"n": 0}, "n", id="T09-n-0"),
        pytest.param({"n": 1000}, "n", id="T09-n-1000"),
        pytest.param({"temperature": float("nan")}, "temperature", id="T09-nan"),
        pytest.param({"temperature": 3}, "temperature", id="temperature"),
        pytest.param({"stop": ["x"] * 5}, "stop", id="T09-stops"),
        pytest.param({"stop": "x" * 5000}, "stop", id="T09-huge-stop"),
        pytest.param({"top_logprobs": 2}, "top_logprobs", id="top-logprobs-alone"),
        pytest.param({"stream_options": {"x": 1}}, "stream_options", id="unknown-option"),
        pytest.param({"response_format": {"type": "json_schema"}}, "response_format", id="no-schema"),
        pytest.param({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
                     "messages[0].content", id="T10-image"),
        pytest.param({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role", id="T10-role"),
        pytest.param({"messages": HI * 2001}, "messages", id="T10-many"),
        pytest.param({"messages": [{"role": "system", "content": "x"}]}, "messages", id="nobody-speaks"),
        pytest.param({"page": {"url": "u"}}, "page", id="page-for-a-tier"),
        pytest.param({"model": "site-guide", "page": {"url": "u", "text": "x" * 4001}}, "page.text", id="long-page"),
        pytest.param({"memory": "maybe"}, "memory", id="memory"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_by_its_place(more: dict[str, Any], param: str) -> None:
    assert str(refused(**more).param).startswith(param)


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [{"type": "function"}]}, {"tools": [{}] * 10_000}, {"tool_choice": "required"},
        {"messages": [*HI, {"role": "tool", "content": "45", "tool_call_id": "c"}]},
        {"messages": [*HI, {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}]},
    ],
)  # fmt: skip
def test_callers_bring_no_tools(more: dict[str, Any]) -> None:
    assert refused(**more).code == "caller_tools_refused"


def test_messages_are_folded_and_empty_answers_are_fine() -> None:
    turn = read(
        messages=[
            {"role": "system", "content": "a"},
            {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
            {"role": "assistant", "content": None, "tool_calls": [], "refusal": None},
            {"role": "developer", "content": "b", "name": "n"},
            {"role": "user", "content": "three"},
        ]
    ).turn
    assert turn.wishes == ["a", "b"]
    assert [message["content"] for message in turn.messages] == ["one\ntwo", "", "three"]


def test_a_page_reaches_an_agents_turn() -> None:
    wish = read(model="site-guide", page={"url": "u", "title": "t", "text": "x"})
    assert wish.turn.agent is AGENTS["site-guide"] and wish.turn.page is not None and wish.turn.page.text == "x"
