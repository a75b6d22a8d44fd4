"""The end of a session: what was said becomes one entry, and nothing else of it stays."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from configs import settings
from deployments.agent.as_caller import Episodes
from deployments.agent.episode.summary import Summary, summarise
from deployments.agent.errors import DeadlineExceeded
from deployments.agent.generation import recorded
from deployments.agent.world import World
from deployments.ledger.records import Generation
from deployments.tiers.contract import Message

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SessionEnd:
    """One session that its person ends. `record` is that of the person's own generation."""

    messages: Sequence[Message]
    agent: str
    world: World
    record: Generation
    settings: settings.Episodes
    episodes: Episodes

    async def run(self) -> dict[str, Any]:
        """The entry kept, and `left_out`: what of the session was not read.

        Raises EpisodeRefused when no sound summary can be made, DeadlineExceeded, and what ledger, tiers and store refuse.
        """
        async with recorded(self.world, self.record, lambda: None):
            try:
                async with asyncio.timeout(self.settings.deadline_seconds):
                    summary = await self._summary()
            except TimeoutError:
                raise DeadlineExceeded(self.settings.deadline_seconds) from None
            entry = await self.episodes.write(self.world.caller.subject, summary.text, self.agent)
            self.record.stop_reason, self.record.outcome = "answered", "completed"
            return entry | {"left_out": summary.left_out}

    async def _summary(self) -> Summary:
        world = self.world
        return await summarise(
            self.messages, world.caller.subject, world.tier, world.account, world.records, self.record, self.settings
        )
