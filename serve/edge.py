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
from deployments.agent.as_caller import CallersMemory, CallersPlatform, Mint, ToolsMemory
from deployments.agent.world import World
from deployments.handles import EmbeddingHandle, ServiceHandle, TierHandle
from deployments.identity import Audience, Signer
from deployments.ledger.budget import Budgets
from deployments.ledger.database import LedgerDatabase
from deployments.ledger.keys import KeyRing
from deployments.ledger.records import Generation, Records
from deployments.ledger.sweeper import sweep
from deployments.ledger.turns import Turns
from memory_store import connect
from serve.auth import Resolver
from serve.models import models
from serve.oidc import OidcVerifier
from tools.caller import Caller

log = logging.getLogger(__name__)
_REQUEST_SECONDS = 60  # bound on what is not a turn


@dataclass(frozen=True)
class Handles:
    """The deployments the ingress calls."""

    tiers: Mapping[str, Any]
    embedding: Any
    memory: Any
    platform: Any


class Edge:
    """Made by `open` when an ingress replica starts, closed when it ends."""

    def __init__(
        self, settings: Settings, handles: Handles, ledger: LedgerDatabase, maintenance: LedgerDatabase
    ) -> None:
        secrets = folders.secrets(settings)
        self.settings = settings
        self.ledger = ledger
        self.tiers = {
            name: TierHandle(name, settings.tiers.chat[name], handle) for name, handle in handles.tiers.items()
        }
        self.embedding = EmbeddingHandle(handles.embedding)
        self.budgets, self.turns = Budgets(ledger), Turns(ledger)
        self.records = Records(ledger, (secrets / "answers.key").read_bytes())
        oidc = OidcVerifier(settings.auth.oidc, settings.limits) if settings.auth.oidc else None
        self.resolver = Resolver(KeyRing(ledger, settings.limits), oidc, settings.auth.failures_per_minute)
        self._memory, self._platform = ServiceHandle(handles.memory), ServiceHandle(handles.platform)
        self._signer = Signer("caller", secrets)
        self._maintenance = maintenance
        self._sweeping = asyncio.create_task(self._sweep())

    @classmethod
    async def open(cls, settings: Settings, handles: Handles) -> Edge:
        """Connect to the ledger. Raises LedgerUnavailable."""
        secrets = folders.secrets(settings)
        as_ledger = connect.arguments(settings.database, secrets, "recall_ledger")
        as_maintenance = connect.arguments(settings.database, secrets, "recall_maintenance")
        ledger = await LedgerDatabase.open(as_ledger, settings.database.ledger_pool)
        return cls(settings, handles, ledger, await LedgerDatabase.open(as_maintenance, 1))

    async def close(self) -> None:
        self._sweeping.cancel()
        await asyncio.wait([self._sweeping])
        await self.ledger.close()
        await self._maintenance.close()

    def world(self, caller: Caller, record: Generation) -> World:
        """Everything a turn of this caller runs in."""
        tier = self.tiers[record.tier]
        lasts = self._lasts(tier.deadline_seconds)
        account = Account(self.budgets, caller.subject, caller.limits.tokens_per_day, lasts)
        memory = ToolsMemory(self._callers_memory(caller, account, record, tier.deadline_seconds))
        platform = CallersPlatform(
            self._platform, self._mint(caller, record.id, tier.deadline_seconds), models(self.settings)
        )
        return World(caller, tier, memory, platform, account, self.turns, lasts, self.records)

    def account(self, caller: Caller) -> Account:
        """The caller's budget for a request that is not a turn."""
        lasts = self._lasts(_REQUEST_SECONDS)
        return Account(self.budgets, caller.subject, caller.limits.tokens_per_day, lasts)

    def memory(self, caller: Caller) -> CallersMemory:
        """The caller's memory for a request that is not a turn."""
        return self._callers_memory(caller, self.account(caller), None, _REQUEST_SECONDS)

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

    async def _sweep(self) -> None:
        while True:
            try:
                await sweep(self._maintenance, timedelta(days=self.settings.ledger.retention_days))
            except Exception as error:  # whatever it was, the next sweep tries again
                log.warning("a sweep failed (%s)", type(error).__name__)
            await asyncio.sleep(self.settings.ledger.sweep_seconds)
