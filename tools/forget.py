"""Delete an entry because the person asked to."""

from __future__ import annotations

from typing import Any

from tools.errors import ModelShouldKnow, ModelShouldRetry
from tools.tool import Context, Tool


async def _run(context: Context, arguments: dict[str, Any]) -> str:
    name = arguments["entry"].strip("[] ")
    entry = context.labels.get(name, name)
    if not entry.startswith("m_"):
        raise ModelShouldRetry(f"entry must be one of {', '.join(context.labels) or 'the labels shown; none is shown'}")
    if not await context.memory.forget(entry):
        raise ModelShouldKnow("There is no such entry; nothing was deleted.")
    return "Forgotten: the entry was deleted."


TOOL = Tool(
    name="forget",
    description="Delete one remembered entry, only when the person asks you to forget it.",
    parameters={
        "type": "object",
        "properties": {
            "entry": {"type": "string", "minLength": 1, "maxLength": 60, "description": "Its label, such as m1."},
        },
        "required": ["entry"],
        "additionalProperties": False,
    },
    right="memory",
    kind="memory",
    run=_run,
)
