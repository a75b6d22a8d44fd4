"""The platform's snapshot in a form that a small model can use."""

from __future__ import annotations

from typing import Any

from tools.tool import Context, Tool

MOST_CHARS = 1200


async def _run(context: Context, arguments: dict[str, Any]) -> str:
    return summarise(await context.platform.snapshot())


def summarise(snapshot: dict[str, Any]) -> str:
    """A verdict, then a line a part, what is not well first; at most 1,200 characters, cut after a line.

    The snapshot holds what its caller may see: the services behind the tiers, and errors, only for the right `admin`.
    """
    verdict = "The platform is healthy." if snapshot["healthy"] else "The platform is NOT healthy."
    parts = [*snapshot["tiers"], *snapshot.get("services", [])]
    lines = [verdict, *map(_line, sorted(parts, key=lambda part: bool(part["health"] == "healthy")))]
    while len(text := "\n".join(lines)) > MOST_CHARS:
        lines.pop()
        lines[-1] = "…"
    return text


def _line(part: dict[str, Any]) -> str:
    load = f", {part['ongoing']} requests now" if part.get("ongoing") is not None else ""
    waiting = f", {part['waiting']} waiting" if part.get("waiting") else ""
    error = f", last error {part['last_error']}" if part.get("last_error") else ""
    replicas = f"{part['replicas']} of {part['target']} replicas running"
    return f"- {part['name']} ({part['kind']}): {part['health']}, {replicas}{load}{waiting}{error}"


TOOL = Tool(
    name="platform_status",
    description="The state of this platform right now: health, models (tiers), replicas and load.",
    parameters={"type": "object", "properties": {}, "additionalProperties": False},
    right="tools.read",
    kind="read",
    run=_run,
)
