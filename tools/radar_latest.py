"""The Radar's latest digests."""

from __future__ import annotations

from typing import Any

from tools.tool import Context, Tool

_MOST, _USUAL = 10, 3
_SUMMARY_CHARS = 300


async def _run(context: Context, arguments: dict[str, Any]) -> str:
    digests = await context.platform.radar(arguments.get("limit", _USUAL))
    return "\n".join(map(_told, digests)) or "The Radar has published nothing yet."


def _told(digest: dict[str, str]) -> str:
    summary = digest["summary"]
    short = summary if len(summary) <= _SUMMARY_CHARS else f"{summary[:_SUMMARY_CHARS].rsplit(' ', 1)[0]} …"
    head = f"- {digest['title']}" + (f" ({digest['published'][:10]})" if digest["published"] else "")
    return f"{head}: {short}" if short else head


TOOL = Tool(
    name="radar_latest",
    description="The latest published digests of this platform's Radar: title, date and summary of each.",
    parameters={
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "minimum": 1, "maximum": _MOST, "description": "How many; 3 if left out."}
        },
        "additionalProperties": False,
    },
    right="tools.read",
    kind="read",
    run=_run,
    outside=True,
)
