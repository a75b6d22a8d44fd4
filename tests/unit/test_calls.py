"""Reading tool calls out of what small models write, however the stream is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.tiers.calls import CallReader
from deployments.tiers.contract import ToolCall

OFFERED = {"platform_status", "remember"}
KEEP = ToolCall("remember", {"text": "a } b"})
STATUS = ToolCall("platform_status", {})
KEEP_JSON = '{"name": "remember", "arguments": {"text": "a } b"}}'


def read(text: str, size: int, cut_short: bool = False) -> tuple[str, tuple[ToolCall, ...]]:
    reader = CallReader(OFFERED)
    heard = "".join(reader.feed(text[place : place + size]) for place in range(0, len(text), size))
    rest, calls = reader.close(cut_short)
    return heard + rest, calls


@pytest.mark.parametrize("size", [1, 3, 7, 10_000])
@pytest.mark.parametrize(
    ("text", "answer", "calls"),
    [
        pytest.param(f"<tool_call>\n{KEEP_JSON}\n</tool_call>", "", (KEEP,), id="native"),
        pytest.param(f"Let me see. <tool_call>{KEEP_JSON}</tool_call>", "Let me see. ", (KEEP,), id="text-then-native"),
        pytest.param(f"<tool_call>{KEEP_JSON}</tool_call>\n<tool_call>{KEEP_JSON}</tool_call>", "\n", (KEEP, KEEP), id="two"),
        pytest.param(f"<tool_call>{KEEP_JSON}", "", (KEEP,), id="native-not-closed"),
        pytest.param(f"```json\n{KEEP_JSON}\n```", "", (KEEP,), id="fenced"),
        pytest.param(f"\n```\n{KEEP_JSON}```\n", "", (KEEP,), id="fence-without-language"),
        pytest.param(KEEP_JSON, "", (KEEP,), id="bare"),
        pytest.param(f"<tools>\n{KEEP_JSON}\n</tools>", "", (KEEP,), id="tools"),
        pytest.param(f'[{KEEP_JSON}, {{"name": "platform_status"}}]', "", (KEEP, STATUS), id="array"),
        pytest.param('{"type": "function", "function": {"name": "remember", "arguments": "{\\"text\\": \\"a } b\\"}"}}',
                     "", (KEEP,), id="wrapped-and-arguments-as-text"),
        pytest.param('{"name": "remember", "parameters": {"text": "a } b"}}', "", (KEEP,), id="parameters"),
        pytest.param('{"name": "platform_status", "arguments": null}', "", (STATUS,), id="null"),
        pytest.param('{"name": "remember", "description": "Keep", "parameters": {"type": "object"}}', "",
                     (ToolCall("remember", None),), id="a-definition-repeated"),
        pytest.param("<tool_call>{'name': 'x'", "", (ToolCall("", None),), id="native-not-json"),
        pytest.param('{"name": "remember", "argu', "", (ToolCall("remember", None),), id="half-foreign"),
    ],
)  # fmt: skip
def test_a_call_is_read_in_every_format(text: str, answer: str, calls: tuple[ToolCall, ...], size: int) -> None:
    assert read(text, size) == (answer, calls)


@pytest.mark.parametrize("size", [1, 3, 7, 10_000])
@pytest.mark.parametrize(
    "text",
    [
        "```go\nfunc add() {}\n```", '```json\n{"a": 1}\n```', '{"name": "bob", "age": 3}', "if a < b: <tool", "[1, 2]",
        f"```json\n{KEEP_JSON}\n```\nThis keeps it.", f"You write {KEEP_JSON}", '{"name": "delete_all", "arguments": {}}', "",
    ],
)  # fmt: skip
def test_what_is_no_call_is_the_answer(text: str, size: int) -> None:
    assert read(text, size) == (text, ())


@pytest.mark.parametrize(
    "text", ['<tool_call>{"name": "remember", "argu', f"<tool_call>{KEEP_JSON[:-3]}", KEEP_JSON[:-3]]
)
def test_half_a_call_never_reaches_the_answer(text: str) -> None:
    assert read(text, 1, cut_short=True) == ("", ())


def test_a_fence_of_code_is_not_held_back() -> None:
    reader = CallReader(OFFERED)
    assert reader.feed("```") == "" and reader.feed("go") == "```go"


def test_without_tools_nothing_is_read() -> None:
    reader = CallReader(())
    assert reader.feed(KEEP_JSON) == KEEP_JSON and reader.close(False) == ("", ())


@given(st.text(alphabet='ab<>{}[]"`\n :tool_ca,', max_size=60), st.integers(1, 9))
def test_any_other_text_comes_through_however_it_is_cut(text: str, size: int) -> None:
    if "<tool_call>" not in text and '"name"' not in text:
        assert read(text, size) == (text, ())
