"""The platform's own state, from Ray Serve itself and from the tiers: replicas, health, load."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ray import serve
from ray.serve.schema import DeploymentStatusOverview

from configs import folders
from configs.settings import Settings
from deployments import replica
from deployments.handles import TierHandle
from deployments.identity import Verifier
from deployments.tiers.errors import TierError

RUNNING_WELL = {"HEALTHY", "UPSCALING", "DOWNSCALING"}
_LOAD_SECONDS = 2


class Platform:
    """Answers callers that bring a token for the audience `platform`."""

    def __init__(self, settings: Settings, tiers: Mapping[str, Any]) -> None:
        replica.prepare()
        self._settings = settings
        self._tiers = {name: TierHandle(name, settings.tiers.chat[name], one) for name, one in tiers.items()}
        self._verifier = Verifier("caller", folders.secrets(settings), "platform")

    async def snapshot(self, token: str) -> dict[str, Any]:
        """`{"healthy", "tiers"}`, and for callers with the right `admin` also `services`. Raises IdentityRefused.

        A part is `{"name", "kind", "health", "replicas", "target"}`; a chat tier has `ongoing`, `waiting` and
        `slots` too, as one of its replicas sees them.
        """
        identity = self._verifier.verify(token)
        status = await asyncio.to_thread(serve.status)
        deployments = {name: one for app in status.applications.values() for name, one in app.deployments.items()}
        loads = await asyncio.gather(*(self._load(name) for name in deployments))
        parts = [self._part(name, one) | load for (name, one), load in zip(deployments.items(), loads, strict=True)]
        snapshot = {
            "healthy": all(one.status in RUNNING_WELL for one in deployments.values()),
            "tiers": [part for part in parts if part["kind"] != "service"],
        }
        if "admin" in identity.rights:
            return snapshot | {"services": [part for part in parts if part["kind"] == "service"]}
        return snapshot

    async def check_health(self) -> None:
        """Asked by Serve; it answers as long as it runs."""

    def _part(self, name: str, one: DeploymentStatusOverview) -> dict[str, Any]:
        states = {str(getattr(state, "value", state)): count for state, count in one.replica_states.items()}
        return {
            "name": name,
            "kind": self._kind(name),
            "health": str(one.status.value).lower(),
            "replicas": states.get("RUNNING", 0),
            "target": sum(count for state, count in states.items() if state != "STOPPING"),
        }

    def _kind(self, name: str) -> str:
        if name in self._settings.tiers.chat:
            return "chat"
        return "embedding" if name == "embed" else "service"

    async def _load(self, name: str) -> dict[str, int]:
        if name not in self._tiers:
            return {}
        try:
            return await asyncio.wait_for(self._tiers[name].load(), _LOAD_SECONDS)
        except (TimeoutError, TierError):
            return {}
