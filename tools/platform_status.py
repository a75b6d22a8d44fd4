"""The platform's snapshot in a form that a small model can use."""

from __future__ import annotations

from typing import Any

from tools.tool import Context, Tool

MOST_CHARS = 1200


async def _run(context: Context, arguments: dict[str, Any]) -> str:
    return summarise(await context.platform.snapshot())


def summarise(snapshot: dict[str, Any]) -> str:
    """A verdict, then a line a tier; at most 1,200 characters."""
    verdict = "The platform is healthy." if snapshot["healthy"] else "The platform is NOT healthy."
    return "\n".join([verdict, *map(_line, snapshot["tiers"])])[:MOST_CHARS]


def _line(tier: dict[str, Any]) -> str:
    load = f", {tier['ongoing']} requests now" if tier.get("ongoing") is not None else ""
    replicas = f"{tier['replicas']} of {tier['target']} replicas running"
    return f"- {tier['name']} ({tier['kind']}): {tier['health']}, {replicas}{load}"


TOOL = Tool(
    name="platform_status",
    description="The state of this platform right now: health, models (tiers), replicas and load.",
    parameters={"type": "object", "properties": {}, "additionalProperties": False},
    right="tools.read",
    kind="read",
    run=_run,
)
