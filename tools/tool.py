"""What a tool is: a name, a description written for a model, a schema, a right, a kind and one async function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from configs.settings import Right
from tools.caller import Caller
from tools.services import MemoryService, PlatformService

ToolKind = Literal["read", "act", "memory"]


@dataclass(frozen=True)
class Context:
    """Whom a call runs for and what it may reach. `labels` maps `m1`… of this turn's recall to entry ids."""

    caller: Caller
    memory: MemoryService
    platform: PlatformService
    agent: str
    said: str = ""  # the person's last turn
    tainted: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Tool:
    """A tool of the platform. `run` returns text for the model; it raises the errors of `tools.errors`."""

    name: str
    description: str
    parameters: dict[str, Any]
    right: Right
    kind: ToolKind
    run: Callable[[Context, dict[str, Any]], Awaitable[str]]

    def as_function(self) -> dict[str, Any]:
        """The form in which chat templates take it."""
        about = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": about}
