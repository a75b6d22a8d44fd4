"""What a turn runs in: the ports to tier, memory and platform, and the ledger. The graph gives real ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from configs.settings import Agent
from deployments.agent.account import Account
from deployments.agent.prompt import Page
from deployments.ledger.records import Records
from deployments.ledger.turns import Turns
from deployments.tiers.contract import ChatRequest, Delta, Message
from tools.caller import Caller
from tools.services import Allowance, MemoryService, PlatformService, SandboxService, Unlimited, WebService
from tools.table import TABLE
from tools.tool import Tool


class TierPort(Protocol):
    """A chat tier as the loop sees it. Every call may raise the errors of `deployments.tiers.errors`."""

    name: str
    model: str
    window_tokens: int
    max_output_tokens: int
    deadline_seconds: float

    async def schema_fault(self, schema: dict[str, Any]) -> str | None: ...

    async def count(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> int: ...

    def chat(self, request: ChatRequest) -> AsyncGenerator[Delta, None]: ...


class RecallPort(MemoryService, Protocol):
    """The memory of the caller; each call is charged to the caller's account."""

    async def recall(self, query: str) -> dict[str, Any]:
        """`{"shown": [entry with score], "left_out": […], "tokens": embedding tokens}`."""


@dataclass(frozen=True)
class World:
    """Everything outside the turn itself, already bound to the caller."""

    caller: Caller
    tier: TierPort
    memory: RecallPort
    platform: PlatformService
    account: Account
    turns: Turns
    lasts: timedelta  # how long the turn may count as under way, whatever happens to this process
    records: Records
    tools: Mapping[str, Tool] = field(default_factory=lambda: TABLE)  # those there are on this platform now
    sandbox: SandboxService | None = None
    web: WebService | None = None
    allowance: Allowance = field(default_factory=Unlimited)


@dataclass(frozen=True)
class TurnRequest:
    """What is asked. `agent` None asks the bare tier, which neither recalls nor offers tools."""

    messages: list[Message]  # roles user and assistant, contents strings
    wishes: list[str] = field(default_factory=list)  # the caller's system and developer messages, in order
    agent: Agent | None = None
    max_tokens: int | None = None
    sampling: dict[str, Any] = field(default_factory=dict)
    schema: dict[str, Any] | None = None
    top_logprobs: int | None = None
    recall: bool = True
    page: Page | None = None
