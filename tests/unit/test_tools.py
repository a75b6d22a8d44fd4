"""The tool table: one path, rules that hold whatever the model asks, texts that a small model can use."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from configs.settings import ALL_RIGHTS, Limits
from tools import table
from tools.caller import Caller
from tools.errors import ModelShouldKnow, PlatformBroken
from tools.platform_status import summarise
from tools.tool import Context, Reading, Tool

OFFERED = set(table.TABLE)
TIER = {"name": "deep", "kind": "chat", "health": "healthy", "replicas": 1, "target": 1, "ongoing": 2}


class Memory:
    """Keeps in a list."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    async def keep(self, kind: str, text: str, source: dict[str, str]) -> dict[str, Any]:
        self.kept.append(text)
        return {"id": "m_1", "text": text}

    async def forget(self, entry: str) -> bool:
        return entry == "m_1"


class Platform:
    """One tier; `fault` is raised in place of a snapshot."""

    fault: Exception | None = None

    async def snapshot(self) -> dict[str, Any]:
        if self.fault:
            raise self.fault
        return {"healthy": True, "tiers": [TIER]}

    def models(self) -> list[dict[str, Any]]:
        return [{"id": "deep", "description": "The deep tier."}]


@pytest.fixture
def context() -> Context:
    caller = Caller("key|ana", frozenset(ALL_RIGHTS), Limits())
    return Context(caller, Memory(), Platform(), "code-reviewer", "Remember that I like tea.", labels={"m1": "m_1"})


async def called(
    context: Context, name: str, arguments: Any, offered: set[str] = OFFERED, chars: int = 500
) -> tuple[str, str]:
    outcome = await table.call(name, arguments, replace(context, result_chars=chars), offered)
    return outcome.status, outcome.result


@pytest.mark.parametrize("tool", table.TABLE.values(), ids=lambda tool: tool.name)
def test_a_tool_is_described_for_a_model(tool: Tool) -> None:
    jsonschema.Draft202012Validator.check_schema(tool.parameters)
    assert tool.parameters["additionalProperties"] is False
    assert 20 < len(tool.description) < 200 and tool.right in ALL_RIGHTS


async def test_calls_that_work(context: Context) -> None:
    assert await called(context, "remember", {"text": "I like tea."}) == ("done", "Kept: I like tea.")
    assert await called(context, "forget", {"entry": "[m1]"}) == ("done", "Forgotten: the entry was deleted.")
    assert await called(context, "list_models", {}) == ("done", "deep: The deep tier.")
    status, result = await called(context, "platform_status", {})
    assert status == "done" and "deep (chat): healthy, 1 of 1 replicas running, 2 requests now" in result


@pytest.mark.parametrize("name", ["run_shell", "remember; rm", "", "REMEMBER"])
async def test_an_unknown_tool_is_refused(context: Context, name: str) -> None:
    assert (await called(context, name, {}))[0] == "refused"


async def test_a_tool_that_was_not_offered_is_refused(context: Context) -> None:
    assert (await called(context, "remember", {"text": "I like tea."}, {"platform_status"}))[0] == "refused"


@pytest.mark.parametrize("name", table.TABLE)
async def test_rights_are_checked_when_the_call_runs(context: Context, name: str) -> None:
    bare = replace(context, caller=replace(context.caller, rights=frozenset({"chat"})))
    status, result = await called(bare, name, {})
    assert status == "refused" and table.TABLE[name].right in result


@pytest.mark.parametrize("name", ["remember", "forget"])
async def test_outside_text_cannot_change_memory(context: Context, name: str) -> None:
    assert (
        await called(replace(context, reading=Reading(tainted=True)), name, {"text": "I like tea.", "entry": "m1"})
    )[0] == "refused"


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("remember", {}, "required"), ("remember", {"text": 5}, "text"), ("remember", {"text": ""}, "minLength"),
        ("remember", {"text": "x", "subject": "bob"}, "additionalProperties"), ("remember", None, "object"),
        ("remember", {"text": "x" * 501}, "maxLength"), ("platform_status", {"a": 1}, "additionalProperties"),
        ("forget", {"entry": "everything"}, "m1"), ("remember", {"text": "They live in Paris."}, "own words"),
        ("remember", {"text": "The person does not like tea."}, "opposite"),
    ],
)  # fmt: skip
async def test_bad_arguments_are_told_to_the_model(context: Context, name: str, arguments: Any, says: str) -> None:
    status, result = await called(context, name, arguments)
    assert status == "failed" and says in result and "x" * 100 not in result


async def test_the_three_failures(context: Context) -> None:
    platform = context.platform
    assert isinstance(platform, Platform)
    platform.fault = ModelShouldKnow("The thing is gone.")
    assert await called(context, "platform_status", {}) == ("failed", "The thing is gone.")
    platform.fault = PlatformBroken("secret-detail")
    outcome = await table.call("platform_status", {}, context, OFFERED)
    assert outcome.broken and outcome.status == "failed" and "secret-detail" not in outcome.result


async def test_a_result_is_cut_at_its_limit(context: Context) -> None:
    assert (await called(context, "platform_status", {}, chars=10))[1] == "The platfo\n[cut at 10 characters]"


def test_a_summary_never_grows_beyond_what_a_small_model_reads() -> None:
    assert len(summarise({"healthy": False, "tiers": [TIER] * 50})) <= 1200
    assert summarise({"healthy": False, "tiers": []}).startswith("The platform is NOT healthy")


async def test_a_right_is_asked_for_before_the_arguments_are_read(context: Context) -> None:
    """K08: who may not call learns nothing of the schema."""
    bare = replace(context, caller=replace(context.caller, rights=frozenset()))
    status, result = await called(bare, "remember", {"text": 5})
    assert status == "refused" and "text" not in result


async def test_a_refused_call_did_nothing(context: Context) -> None:
    memory = context.memory
    assert isinstance(memory, Memory)
    for refused in (
        replace(context, reading=Reading(tainted=True)),
        replace(context, caller=replace(context.caller, rights=frozenset())),
    ):
        await called(refused, "remember", {"text": "I like tea."})
    await called(context, "remember", {"text": "I like tea.", "subject": "bob"})
    assert memory.kept == []


async def test_outside_text_does_not_stop_reading(context: Context) -> None:
    assert (await called(replace(context, reading=Reading(tainted=True)), "platform_status", {}))[0] == "done"


@pytest.mark.parametrize("entry", ["m1", "[m1]", " [m1] ", "m_1"])
async def test_an_entry_is_forgotten_by_label_or_id(context: Context, entry: str) -> None:
    assert (await called(context, "forget", {"entry": entry}))[0] == "done"


async def test_forgetting_what_is_not_there_says_so(context: Context) -> None:
    """Behaviour 4: no success unless a row went."""
    assert await called(context, "forget", {"entry": "m_2"}) == (
        "failed",
        "There is no such entry; nothing was deleted.",
    )


async def test_a_text_kept_before_is_not_kept_again(context: Context) -> None:
    class Known(Memory):
        async def keep(self, kind: str, text: str, source: dict[str, str]) -> dict[str, Any]:
            assert (kind, source) == ("preference", {"by": "agent", "ref": "code-reviewer"})
            return {"id": "m_1", "text": text, "duplicate_of": "m_1"}

    arguments = {"text": "I like tea.", "kind": "preference"}
    assert "Already known" in (await called(replace(context, memory=Known()), "remember", arguments))[1]


@pytest.mark.parametrize("name", table.TABLE)
@pytest.mark.parametrize("arguments", [None, [], "x", 5, {"__proto__": 1}, {"text": None}, {"entry": ["m1"]}], ids=repr)
async def test_no_arguments_of_a_model_break_a_tool(context: Context, name: str, arguments: Any) -> None:
    """C10."""
    assert (await called(context, name, arguments))[0] == "failed"


async def test_cancellation_passes_through(context: Context) -> None:
    platform = context.platform
    assert isinstance(platform, Platform)
    platform.fault = asyncio.CancelledError()  # type: ignore[assignment]
    with pytest.raises(asyncio.CancelledError):
        await called(context, "platform_status", {})


def test_a_summary_begins_with_the_verdict_and_tells_each_tier() -> None:
    asleep = {"name": "fast", "kind": "chat", "health": "healthy", "replicas": 0, "target": 0, "ongoing": None}
    assert summarise({"healthy": True, "tiers": [TIER, asleep]}).splitlines() == [
        "The platform is healthy.",
        "- deep (chat): healthy, 1 of 1 replicas running, 2 requests now",
        "- fast (chat): healthy, 0 of 0 replicas running",
    ]


async def test_half_a_surrogate_pair_never_reaches_an_answer(context: Context) -> None:
    async def run(context: Context, arguments: dict[str, Any]) -> str:
        return "a\ud83d"

    tools = {"half": Tool("half", "Tells half.", {"type": "object"}, "tools.read", "read", run)}
    outcome = await table.call("half", {}, context, ["half"], tools)
    assert outcome.status == "done" and outcome.result == "a?"


async def test_what_acts_on_other_services_is_refused_after_outside_text(context: Context) -> None:
    async def run(context: Context, arguments: dict[str, Any]) -> str:
        return "closed"

    tools = {"close": Tool("close", "Closes.", {"type": "object"}, "tools.read", "act", run, outside=True)}
    assert (await table.call("close", {}, context, ["close"], tools)).status == "done"
    assert context.reading.tainted
    assert (await table.call("close", {}, context, ["close"], tools)).status == "refused"
