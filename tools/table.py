"""The platform's tool table and the one path on which every call goes: rights, rules, schema, run, cap."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import jsonschema

from configs.settings import Settings
from tools import forget, list_models, open_page, platform_status, radar_latest, remember, run_code
from tools.errors import ModelShouldRetry, PageRefused, PlatformBroken, ToolError
from tools.remote import tool_of
from tools.tool import Context, Result, Tool

_MODULES = (platform_status, list_models, radar_latest, run_code, open_page, remember, forget)
TABLE: dict[str, Tool] = {module.TOOL.name: module.TOOL for module in _MODULES}
# To JSON Schema 10.0 is an integer; to a slice and a count it is not.
_Validator = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)
_SLACK_SECONDS = 10  # beyond a service's own deadline, for its place in a queue
_BROKEN = "The tool could not run because of a fault in the platform. Say so; do not guess its result."


@dataclass(frozen=True)
class Outcome:
    """How a call ended and the text for the model. `broken` says that the platform, not the world, failed, `retry` that the
    same call with other arguments may succeed."""

    status: Literal["done", "failed", "refused", "timed_out"]
    result: str
    broken: bool = False
    retry: bool = False
    host: str | None = None
    page_bytes: int | None = None


FAULT = Outcome("failed", _BROKEN, broken=True)


def table_of(settings: Settings) -> dict[str, Tool]:
    """The tools of a profile: the project's, but for those whose service is switched off, and the operator's."""
    services = {"run_code": settings.sandbox.enabled, "open_page": settings.web.enabled}
    remote = settings.gateway.deadline_seconds + _SLACK_SECONDS
    seconds = {
        "run_code": settings.sandbox.wall_seconds + 3 * _SLACK_SECONDS,
        "open_page": settings.web.deadline_seconds + _SLACK_SECONDS,
        "radar_latest": remote,
    }
    own = {name: tool for name, tool in TABLE.items() if services.get(name, True)}
    bounded = {name: replace(tool, seconds=seconds.get(name, tool.seconds)) for name, tool in own.items()}
    return bounded | {entry.name: replace(tool_of(entry), seconds=remote) for entry in settings.remote_tools}


async def call(
    name: str,
    arguments: Any,
    context: Context,
    offered: Collection[str],
    tools: Mapping[str, Tool] = TABLE,
) -> Outcome:
    """Run a tool as the caller. Never raises for what a model or a service does; cancellation passes through."""
    if refusal := _refusal(name, context, offered, tools):
        return Outcome("refused", refusal)
    tool = tools[name]
    try:
        check_arguments(tool, arguments)
        async with asyncio.timeout(tool.seconds) as deadline:
            told = await tool.run(context, arguments)
    except ToolError as error:
        if isinstance(error, PageRefused):
            context.reading.tainted = True  # the name of a host is text from outside too
        return _failure(error, context.result_chars)
    except TimeoutError:
        if not deadline.expired():
            raise
        return Outcome("timed_out", f"The tool was stopped after {tool.seconds:g} s.")
    if tool.outside:
        context.reading.tainted = True
    result = told if isinstance(told, Result) else Result(told)
    return Outcome("done", _capped(result.text, context.result_chars), host=result.host, page_bytes=result.page_bytes)


def _failure(error: ToolError, result_chars: int) -> Outcome:
    if isinstance(error, PlatformBroken):
        return FAULT
    host = error.host or None if isinstance(error, PageRefused) else None
    retry = isinstance(error, ModelShouldRetry)
    return Outcome("failed", _capped(str(error), result_chars), retry=retry, host=host)


def _refusal(name: str, context: Context, offered: Collection[str], tools: Mapping[str, Tool]) -> str | None:
    """Rules that do not depend on the model obeying; checked when the call runs, not only when it was offered."""
    if name not in offered or name not in tools:
        return f"There is no tool of that name here. Tools: {', '.join(sorted(offered)) or 'none'}."
    tool = tools[name]
    if not context.caller.may(tool.right):
        return f"The caller lacks the right {tool.right}."
    if tool.kind == "memory" and context.reading.tainted:
        return "Outside text is part of this conversation, so it cannot change memory. The person can do it themselves."
    if tool.kind == "act" and tool.outside and context.reading.tainted:
        return "Outside text is part of this conversation, so it cannot act on other services. The person can do it."
    return None


def check_arguments(tool: Tool, arguments: Any) -> None:
    """Raises ModelShouldRetry with the first fault and where it stands."""
    for fault in _Validator(tool.parameters).iter_errors(arguments):
        place = ".".join(str(part) for part in fault.absolute_path) or "arguments"
        raise ModelShouldRetry(f"{place}: {_rule(tool, fault)}")


def _rule(tool: Tool, fault: jsonschema.ValidationError) -> str:
    """The rule that was broken; the value itself is left out, since it may be long."""
    if fault.validator == "additionalProperties":
        allowed = ", ".join(tool.parameters.get("properties", {})) or "none"
        return f"additionalProperties are not allowed; only these: {allowed}"
    return f"must satisfy {fault.validator} {fault.validator_value!r}"


def _capped(text: str, most_chars: int) -> str:
    """Within its characters, and without half a surrogate pair, which no answer can be sent with."""
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= most_chars else f"{text[:most_chars]}\n[cut at {most_chars} characters]"
