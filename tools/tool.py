"""What a tool is: a name, a description written for a model, a schema, a right, a kind and one async function."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from configs.settings import Right
from tools.caller import Caller
from tools.services import Allowance, MemoryService, PlatformService, SandboxService, Unlimited, WebService

ToolKind = Literal["read", "act", "memory"]


@dataclass(frozen=True)
class Result:
    """What a tool tells the model. `host` and `page_bytes` are for the audit of pages."""

    text: str
    host: str | None = None
    page_bytes: int | None = None


@dataclass
class Reading:
    """What a turn has read so far; tainted from the start where its conversation is. Pages stay for the turn, so that a
    further window costs no second request."""

    tainted: bool = False
    pages: dict[str, dict[str, Any]] = field(default_factory=dict)
    refused: dict[str, Exception] = field(default_factory=dict)  # pages that cannot be read, asked for once
    opening: dict[str, asyncio.Lock] = field(default_factory=dict)  # by URL, so that two windows cost one request
    links: set[str] = field(default_factory=set)  # of every page opened
    numbered: list[str] = field(default_factory=list)  # of the page opened last, number 1 first


@dataclass(frozen=True)
class Context:
    """Whom a call runs for and what it may reach. `labels` maps `m1`… of this turn's recall to entry ids, `shown` to their
    texts. `said` is the person's last turn, `written` all they wrote in the conversation."""

    caller: Caller
    memory: MemoryService
    platform: PlatformService
    agent: str
    said: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)
    written: str = ""
    sandbox: SandboxService | None = None
    web: WebService | None = None
    allowance: Allowance = field(default_factory=Unlimited)
    reading: Reading = field(default_factory=Reading)
    result_chars: int = 2000


@dataclass(frozen=True)
class Tool:
    """A tool of the platform. `run` returns what the model is told; it raises the errors of `tools.errors`.

    `outside`: what it tells comes from outside the platform and taints the turn. `counted`: each call spends something of
    the day's. `seconds` bound one call. `prepare` gives the arguments the meaning they have when the call is made, before
    other calls of the round have changed it.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    right: Right
    kind: ToolKind
    run: Callable[[Context, dict[str, Any]], Awaitable[str | Result]]
    outside: bool = False
    counted: bool = False
    seconds: float = 60
    prepare: Callable[[Context, dict[str, Any]], dict[str, Any]] | None = None

    @property
    def reviewed(self) -> bool:
        """Whether it may be called alone and over MCP: a read that spends nothing and needs no turn."""
        return self.kind == "read" and not self.counted

    def as_function(self) -> dict[str, Any]:
        """The form in which chat templates take it. Bounds are left out: a small model reads tokens, and is told of a bound
        when it breaks one."""
        about = {"name": self.name, "description": self.description, "parameters": _brief(self.parameters)}
        return {"type": "function", "function": about}


_BOUNDS = {"minLength", "maxLength", "minimum", "maximum"}


def _brief(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    return {key: _brief(value) for key, value in schema.items() if key not in _BOUNDS or isinstance(value, dict)}
