"""Reading tool calls out of what small models write, however the stream is cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
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
        pytest.param(f"```json\n[{KEEP_JSON}, {KEEP_JSON}]\n```", "", (KEEP, KEEP), id="fenced-array"),
        pytest.param(f"```tool_call\n{KEEP_JSON}\n```", "", (KEEP,), id="fence-called-tool-call"),
        pytest.param(f"<function_call>{KEEP_JSON}</function_call>", "", (KEEP,), id="function-call"),
        pytest.param(f"{KEEP_JSON}\n{KEEP_JSON}", "", (KEEP, KEEP), id="two-bare"),
        pytest.param(f"```json\n{KEEP_JSON}\n```\n```json\n{KEEP_JSON}\n```", "", (KEEP, KEEP), id="two-fenced"),
        pytest.param('{"arguments": {"text": "a } b"}, "name": "remember"}', "", (KEEP,), id="arguments-first"),
        pytest.param(f"<tool_call>[{KEEP_JSON}, {KEEP_JSON}]</tool_call>", "", (KEEP, KEEP), id="native-array"),
        pytest.param('<tool_call>{"a": 1}</tool_call>', "", (ToolCall("", None),), id="native-without-a-name"),
        pytest.param('<tool_call>{"name": "delete_all"}</tool_call>', "", (ToolCall("delete_all", {}),),
                     id="I03-unknown-tool-is-for-the-table-to-refuse"),
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
        f'[{KEEP_JSON}, {{"name": "delete_all"}}]',
        f"```json\n{KEEP_JSON}\n```\nThis keeps it.", f"You write {KEEP_JSON}", '{"name": "delete_all", "arguments": {}}', "",
    ],
)  # fmt: skip
def test_what_is_no_call_is_the_answer(text: str, size: int) -> None:
    assert read(text, size) == (text, ())


@pytest.mark.parametrize(
    "call",
    [
        f"<tool_call>\n{KEEP_JSON}\n</tool_call>", KEEP_JSON, f"```json\n{KEEP_JSON}\n```", f"<tools>{KEEP_JSON}</tools>",
        f'{{"type": "function", "function": {KEEP_JSON}}}', f"[{KEEP_JSON}]",
    ],
)  # fmt: skip
def test_half_a_call_never_reaches_the_answer(call: str) -> None:
    for cut in range(call.index("remember") + 1, call.rindex("}")):
        assert read(call[:cut], 1, cut_short=True) == ("", ())
        heard, _ = read(call[:cut], 1)
        assert heard == ""


def test_a_round_cut_in_a_native_call_keeps_the_text_before_it() -> None:
    assert read(f"Let me see. <tool_call>{KEEP_JSON[:-3]}", 1, cut_short=True) == ("Let me see. ", ())


@pytest.mark.parametrize(
    ("held", "last"),
    [
        ("```", "go"), ('{"name": "bob', '"'), ("[", "1"), ("Look: <tool_", "x"), ('{"a', '"'),
        (f"{KEEP_JSON}\n", "T"), (f"```json\n{KEEP_JSON}\n```\n", "T"),
    ],
)  # fmt: skip
def test_text_is_released_as_soon_as_it_cannot_become_a_call(held: str, last: str) -> None:
    reader = CallReader(OFFERED)
    heard = "".join(map(reader.feed, held))
    assert heard != held
    assert heard + reader.feed(last) == held + last


def test_text_is_not_held_back_without_end() -> None:
    reader = CallReader(OFFERED)
    text = '{"name": "remember", "arguments": {"text": "' + "x" * 20_000
    assert reader.feed(text) == text


@pytest.mark.parametrize("wrong", ["[" * 5000, '"' + "[" * 5000 + '"'], ids=["I03-deep", "I03-deep-as-text"])
def test_arguments_nested_too_deeply_are_none(wrong: str) -> None:
    for text in (f'<tool_call>{{"name": "remember", "arguments": {wrong}}}</tool_call>',
                 f'{{"name": "remember", "arguments": {wrong}}}'):  # fmt: skip
        assert read(text, 10_000) == ("", (ToolCall("remember", None),))


@pytest.mark.parametrize("value", ["NaN", "1e999", '"\\ud800"'], ids=["S01-nan", "S01-infinity", "T07-surrogate"])
def test_arguments_can_be_sent_on_as_strict_json(value: str) -> None:
    """They go into a chunk for the client and back into the next round's prompt."""
    _, (call,) = read(f'{{"name": "remember", "arguments": {{"text": {value}}}}}', 10_000)
    json.dumps(call.arguments, allow_nan=False, ensure_ascii=False).encode()


def test_without_tools_nothing_is_read() -> None:
    reader = CallReader(())
    assert reader.feed(KEEP_JSON) == KEEP_JSON and reader.close(False) == ("", ())


@given(st.text(alphabet='ab<>{}[]"`\n :tool_ca,', max_size=60), st.integers(1, 9))
def test_any_other_text_comes_through_however_it_is_cut(text: str, size: int) -> None:
    if "<tool_call>" not in text and '"name"' not in text:
        assert read(text, size) == (text, ())


def test_a_name_can_be_sent_on_as_strict_json() -> None:
    """T07: of a tool that does not exist too, since the next round's prompt repeats the call."""
    _, (call,) = read('<tool_call>{"name": "remember\\ud800", "arguments": {}}</tool_call>', 10_000)
    call.name.encode()


PARTS = [
    KEEP_JSON, '{"name":"platform_status"}', '{"name": "other"}', '{"a": 1}', "<tool_call>", "</tool_call>", "<tools>",
    "</tools>",
    "```json\n", "```\n", "```", "\n", " ", ",", "[", "]", "{", "}", "text", "<", '{"type":"function","function":',
]  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=6).map("".join), st.integers(1, 9), st.booleans())
@example(f"{KEEP_JSON}\n```json\n", 1, False)
def test_how_a_round_is_cut_into_pieces_changes_nothing(text: str, size: int, cut_short: bool) -> None:
    assert read(text, size, cut_short) == read(text, 10_000, cut_short)
