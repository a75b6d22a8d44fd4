"""Keep an entry because the person asked to."""

from __future__ import annotations

from typing import Any

from tools.tool import Context, Tool


async def _run(context: Context, arguments: dict[str, Any]) -> str:
    kind = arguments.get("kind", "fact")
    entry = await context.memory.keep(kind, arguments["text"], {"by": "agent", "ref": context.agent})
    return "Already known; nothing new was kept." if "duplicate_of" in entry else f"Kept: {entry['text']}"


TOOL = Tool(
    name="remember",
    description="Keep one short fact or preference about the person, only when they ask you to remember or note it.",
    parameters={
        "type": "object",
        "properties": {
            "text": {
                "type": "string",
                "minLength": 1,
                "maxLength": 500,
                "description": "One sentence in the person's language.",
            },
            "kind": {"type": "string", "enum": ["fact", "preference"]},
        },
        "required": ["text"],
        "additionalProperties": False,
    },
    right="memory",
    kind="memory",
    run=_run,
)
