"""A Python program in the sandbox: no network, no files of anyone, gone when it ends."""

from __future__ import annotations

from typing import Any

from tools.errors import PlatformBroken
from tools.tool import Context, Tool

MOST_PROGRAM_CHARS = 20_000
_MARKS_CHARS = 60
_REASONS = {"wall clock": "it took too long", "memory": "it used too much memory", "output": "it printed too much"}


async def _run(context: Context, arguments: dict[str, Any]) -> str:
    if context.sandbox is None:
        raise PlatformBroken("sandbox")
    async with context.allowance.spending("runs"):
        ran = await context.sandbox.run(arguments["program"])
    return told(ran, context.result_chars)


def told(ran: dict[str, Any], most_chars: int) -> str:
    """What the program printed, from its beginning; of what it printed as errors the end, where the reason stands; and how
    it ended, if not well."""
    ending = f"The program {_ending(ran)}." if ran["exit_code"] != 0 else ""
    errors = _end_of(ran["stderr"].strip(), most_chars // 3)
    room = most_chars - len(errors) - len(ending) - _MARKS_CHARS
    output = _beginning_of(ran["stdout"], room, ran["stdout_truncated"])
    parts = [output, f"Errors printed:\n{errors}" if errors else "", ending]
    return "\n".join(part for part in parts if part) or "The program ended well and printed nothing."


def _beginning_of(text: str, chars: int, was_cut: bool) -> str:
    return text[:chars] + ("\n[the rest was cut]" if was_cut or len(text) > chars else "")


def _end_of(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"[…]{text[-chars:]}"


def _ending(ran: dict[str, Any]) -> str:
    if ran["exit_code"] is None:
        return f"was stopped: {_REASONS.get(ran['reason'], ran['reason'])}"
    return f"ended with exit code {ran['exit_code']}"


TOOL = Tool(
    name="run_code",
    description="Run a Python program, standard library only, and get what it prints.",
    parameters={
        "type": "object",
        "properties": {
            "program": {
                "type": "string",
                "minLength": 1,
                "maxLength": MOST_PROGRAM_CHARS,
                "description": "The whole program.",
            },
        },
        "required": ["program"],
        "additionalProperties": False,
    },
    right="tools.run_code",
    kind="act",
    run=_run,
    counted=True,
)
