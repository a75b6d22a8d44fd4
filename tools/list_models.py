"""The tiers and agents this caller may use."""

from __future__ import annotations

from typing import Any

from tools.tool import Context, Tool


async def _run(context: Context, arguments: dict[str, Any]) -> str:
    lines = (f"{model['id']}: {model['description']}" for model in context.platform.models())
    return "\n".join(lines)


TOOL = Tool(
    name="list_models",
    description="List the models and agents that the person may use here.",
    parameters={"type": "object", "properties": {}, "additionalProperties": False},
    right="tools.read",
    kind="read",
    run=_run,
)
