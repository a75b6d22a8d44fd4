"""Keep an entry because the person asked to.

A model may call this unasked, or keep a sentence of its own. So what is kept is decided by the person's turn alone, in
`tools.asked`. That also keeps it in the language it was said in.
"""

from __future__ import annotations

from typing import Any

from tools.asked import NOT_ASKED, fault, restates
from tools.errors import ModelShouldKnow, ModelShouldRetry
from tools.tool import Context, Tool


async def _run(context: Context, arguments: dict[str, Any]) -> str:
    if wrong := fault(arguments["text"], context.said):
        raise (ModelShouldKnow if wrong == NOT_ASKED else ModelShouldRetry)(wrong)
    if restates(arguments["text"], context.shown.values(), context.said):
        raise ModelShouldKnow("That is what was recalled; it is kept already.")
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
