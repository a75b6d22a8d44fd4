"""The platform's tool table and the one path on which every call goes: rights, rules, schema, run, cap."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import jsonschema

from tools import forget, list_models, platform_status, remember
from tools.errors import ModelShouldKnow, ModelShouldRetry, PlatformBroken
from tools.tool import Context, Tool

TABLE: dict[str, Tool] = {module.TOOL.name: module.TOOL for module in (platform_status, list_models, remember, forget)}
_BROKEN = "The tool could not run because of a fault in the platform. Say so; do not guess its result."


@dataclass(frozen=True)
class Outcome:
    """How a call ended and the text for the model. `broken` says that the platform, not the world, failed."""

    status: Literal["done", "failed", "refused", "timed_out"]
    result: str
    broken: bool = False


async def call(name: str, arguments: Any, context: Context, offered: Collection[str], result_chars: int) -> Outcome:
    """Run a tool as the caller. Never raises for what a model or a service does; cancellation passes through."""
    if refusal := _refusal(name, context, offered):
        return Outcome("refused", refusal)
    tool = TABLE[name]
    try:
        check_arguments(tool, arguments)
        return Outcome("done", _capped(await tool.run(context, arguments), result_chars))
    except (ModelShouldRetry, ModelShouldKnow) as error:
        return Outcome("failed", _capped(str(error), result_chars))
    except PlatformBroken:
        return Outcome("failed", _BROKEN, broken=True)


def _refusal(name: str, context: Context, offered: Collection[str]) -> str | None:
    """Rules that do not depend on the model obeying; checked when the call runs, not only when it was offered."""
    if name not in offered or name not in TABLE:
        return f"There is no tool of that name here. Tools: {', '.join(sorted(offered)) or 'none'}."
    tool = TABLE[name]
    if not context.caller.may(tool.right):
        return f"The caller lacks the right {tool.right}."
    if tool.kind == "memory" and context.tainted:
        return "Outside text is part of this conversation, so it cannot change memory. The person can do it themselves."
    return None


def check_arguments(tool: Tool, arguments: Any) -> None:
    """Raises ModelShouldRetry with the first fault and where it stands."""
    validator = jsonschema.Draft202012Validator(tool.parameters)
    for fault in validator.iter_errors(arguments):
        place = ".".join(str(part) for part in fault.absolute_path) or "arguments"
        raise ModelShouldRetry(f"{place}: {_rule(fault)}")


def _rule(fault: jsonschema.ValidationError) -> str:
    """The rule that was broken; the value itself is left out, since it may be long."""
    return f"must satisfy {fault.validator} {fault.validator_value!r}"


def _capped(text: str, most_chars: int) -> str:
    return text if len(text) <= most_chars else f"{text[:most_chars]}\n[cut at {most_chars} characters]"
