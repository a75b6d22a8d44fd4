"""A service of the platform as a tool: an operator writes an entry in the profile, and no code."""

from __future__ import annotations

from typing import Any

from configs.settings import RemoteTool
from tools.tool import Context, Tool


def tool_of(entry: RemoteTool) -> Tool:
    """The tool that calls this service as the caller."""

    async def run(context: Context, arguments: dict[str, Any]) -> str:
        return await context.platform.remote(entry.name, arguments)

    return Tool(entry.name, entry.description, entry.parameters, entry.right, entry.kind, run, outside=True)
