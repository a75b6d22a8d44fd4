"""What the routes share: who may call, what each may reach, and the parts of the platform behind handles."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from configs import folders
from configs.settings import Settings
from deployments.agent.account import Account
from deployments.agent.as_caller import CallersMemory, Episodes, Mint, ToolsMemory
from deployments.agent.callers_services import CallersAllowance, CallersPlatform, CallersSandbox, CallersWeb
from deployments.agent.world import World
from deployments.handles import EmbeddingHandle, ServiceHandle, TierHandle, translated
from deployments.identity import EPISODES, Audience, Signer
from deployments.ledger.budget import Budgets
from deployments.ledger.database import LedgerDatabase
from deployments.ledger.keys import KeyRing
from deployments.ledger.records import Generation, Records
from deployments.ledger.turns import Turns
from deployments.tiers.errors import TierError
from memory_store import connect
from serve.auth import Resolver
from serve.models import models
from serve.oidc import OidcVerifier
from serve.upkeep import Upkeep
from tools.caller import Caller
from tools.table import table_of
from tools.tool import Context, Tool

log = logging.getLogger(__name__)
_REQUEST_SECONDS = 60  # bound on what is not a turn
_ALONE_CHARS = 20_000  # of a result that no small model has to read


@dataclass(frozen=True)
class Handles:
    """The deployments the ingress calls."""

    tiers: Mapping[str, Any]
    embedding: Any
    memory: Any
    platform: Any
    sandbox: Any = None  # None where the profile has none
    web: Any = None


class Edge:
    """Made by `open` when an ingress replica starts, closed when it ends."""

    def __init__(
        self,
        settings: Settings,
        handles: Handles,
        ledger: LedgerDatabase,
        upkeep: Upkeep,
        tools: Mapping[str, Tool],
    ) -> None:
        secrets = folders.secrets(settings)
        self.settings = settings
        self.ledger = ledger
        self.tiers = {
            name: TierHandle(name, settings.tiers.chat[name], handle) for name, handle in handles.tiers.items()
        }
        self.adapters = {
            adapter: TierHandle(name, settings.tiers.chat[name], handles.tiers[name], adapter)
            for adapter, name in settings.tiers.adapters.items()
        }
        self.embedding = EmbeddingHandle(handles.embedding, settings.tiers.embed.deadline_seconds)
        self.budgets, self.turns = Budgets(ledger), Turns(ledger)
        self.records = Records(ledger, (secrets / "answers.key").read_bytes())
        oidc = OidcVerifier(settings.auth.oidc, settings.limits) if settings.auth.oidc else None
        self.resolver = Resolver(KeyRing(ledger, settings.limits), oidc, settings.auth.failures_per_minute)
        self._memory, self._platform = ServiceHandle(handles.memory), ServiceHandle(handles.platform)
        self._sandbox = ServiceHandle(handles.sandbox) if handles.sandbox else None
        self._web = ServiceHandle(handles.web) if handles.web else None
        self.tools = tools
        self._signer, self._service_signer = Signer("caller", secrets), Signer("service", secrets)
        self._upkeep = upkeep

    @classmethod
    async def open(cls, settings: Settings, handles: Handles) -> Edge:
        """Connect to the ledger. Raises LedgerUnavailable."""
        secrets = folders.secrets(settings)
        as_ledger = connect.arguments(settings.database, secrets, "recall_ledger")
        ledger = await LedgerDatabase.open(as_ledger, settings.database.ledger_pool)
        return cls(settings, handles, ledger, await Upkeep.open(settings), await _tools(settings, handles))

    async def close(self) -> None:
        await self._upkeep.close()
        await self.ledger.close()

    def world(self, caller: Caller, record: Generation, tier: TierHandle, seconds: float | None = None) -> World:
        """Everything a turn of this caller runs in, which lasts `seconds` at most; None: the tier's deadline."""
        seconds = tier.deadline_seconds if seconds is None else seconds
        account, mint = self.account(caller, seconds), self._mint(caller, record.id, seconds)
        return World(
            caller,
            tier,
            ToolsMemory(self._callers_memory(caller, account, record, seconds)),
            CallersPlatform(self._platform, mint, models(self.settings)),
            account,
            self.turns,
            self._lasts(seconds),
            self.records,
            self.tools,
            CallersSandbox(self._sandbox, mint) if self._sandbox else None,
            CallersWeb(self._web, mint) if self._web else None,
            CallersAllowance(self.budgets, caller.subject, caller.limits, self._lasts(seconds)),
        )

    def episodes(self, world: World, record: Generation) -> Episodes:
        """What writes the summary of a session, charged to the caller of `world`."""

        def mint(audience: Audience) -> str:
            return self._service_signer.mint(EPISODES, frozenset(), audience, record.id, _REQUEST_SECONDS)

        return Episodes(self._memory, mint, world.account, record, self.settings.memory.query_tokens)

    def context(self, caller: Caller) -> Context:
        """What a tool called alone runs in: the caller's services, and no turn."""
        mint = self._mint(caller, "", _REQUEST_SECONDS)
        platform = CallersPlatform(self._platform, mint, models(self.settings))
        return Context(caller, ToolsMemory(self.memory(caller)), platform, "alone", result_chars=_ALONE_CHARS)

    def account(self, caller: Caller, seconds: float = _REQUEST_SECONDS) -> Account:
        """The caller's budget for a request that is not a turn."""
        lasts = self._lasts(seconds)
        return Account(self.budgets, caller.subject, caller.limits.tokens_per_day, lasts)

    def memory(self, caller: Caller, seconds: float = _REQUEST_SECONDS) -> CallersMemory:
        """The caller's memory for a request that is not a turn."""
        return self._callers_memory(caller, self.account(caller, seconds), None, seconds)

    async def snapshot(self, caller: Caller) -> dict[str, Any]:
        """The platform's state as the caller may see it."""
        token = self._mint(caller, "", _REQUEST_SECONDS)("platform")
        snapshot: dict[str, Any] = await self._platform.call("snapshot", token)
        return snapshot

    def _callers_memory(
        self, caller: Caller, account: Account, record: Generation | None, seconds: float
    ) -> CallersMemory:
        mint = self._mint(caller, record.id if record else "", seconds)
        return CallersMemory(self._memory, mint, account, record, self.settings.memory.query_tokens)

    def _mint(self, caller: Caller, generation: str, seconds: float) -> Mint:
        def mint(audience: Audience) -> str:
            return self._signer.mint(caller.subject, caller.rights, audience, generation, seconds)

        return mint

    def _lasts(self, seconds: float) -> timedelta:
        return timedelta(seconds=seconds + self.settings.ledger.reservation_slack_seconds)


async def _tools(settings: Settings, handles: Handles) -> Mapping[str, Tool]:
    """The tools of the profile; `run_code` only where the sandbox found all its walls."""
    tools = table_of(settings)
    if handles.sandbox is not None and not await _is_fit(handles.sandbox):
        del tools["run_code"]
    return tools


async def _is_fit(sandbox: Any) -> bool:
    try:
        async with asyncio.timeout(_REQUEST_SECONDS):
            with translated():
                return not await sandbox.missing_walls.remote()
    except (TimeoutError, TierError):
        log.warning("the sandbox did not answer; run_code is not offered by this replica")
        return False
