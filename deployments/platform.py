"""The platform's own state, from Ray Serve itself and from the tiers: replicas, health, load."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from ray import serve
from ray.serve.schema import DeploymentStatusOverview

from configs import folders
from configs.settings import Radar, Settings
from deployments import feed, replica
from deployments.handles import TierHandle
from deployments.identity import Verifier
from deployments.remote import Remote
from deployments.tiers.errors import TierError
from tools.errors import ModelShouldKnow

RUNNING_WELL = {"HEALTHY", "UPSCALING", "DOWNSCALING"}
_LOAD_SECONDS = 2
_ERROR = re.compile(r"\b[A-Z]\w*(?:Error|Exception|Failed|Unavailable|Unfit)\b")


class Platform:
    """Answers callers that bring a token for the audience `platform`."""

    def __init__(self, settings: Settings, tiers: Mapping[str, Any]) -> None:
        replica.prepare()
        self._settings = settings
        self._tiers = {name: TierHandle(name, settings.tiers.chat[name], one) for name, one in tiers.items()}
        self._verifier = Verifier("caller", folders.secrets(settings), "platform")
        self._remote = Remote(settings)

    async def snapshot(self, token: str) -> dict[str, Any]:
        """`{"healthy", "tiers"}`, and for callers with the right `admin` also `services`. Raises IdentityRefused.

        A part is `{"name", "kind", "health", "replicas", "target"}`; a chat tier has `ongoing`, `waiting` and
        `slots` too, as one of its replicas sees them. For the right `admin` a part that is not well has `last_error`.
        """
        identity = self._verifier.verify(token)
        status = await asyncio.to_thread(serve.status)
        deployments = {name: one for app in status.applications.values() for name, one in app.deployments.items()}
        loads = await asyncio.gather(*(self._load(name) for name in deployments))
        admin = "admin" in identity.rights
        parts = [
            self._part(name, one) | load | (_last_error(one) if admin else {})
            for (name, one), load in zip(deployments.items(), loads, strict=True)
        ]
        snapshot = {
            "healthy": all(one.status in RUNNING_WELL for one in deployments.values()),
            "tiers": [part for part in parts if part["kind"] != "service"],
        }
        if admin:
            return snapshot | {"services": [part for part in parts if part["kind"] == "service"]}
        return snapshot

    async def radar(self, token: str, gateway_token: str, limit: int) -> dict[str, Any]:
        """`{"answer": [digest]}`, newest first, or `{"refused", "kind"}`. Raises IdentityRefused, EngineFailed."""
        self._verifier.verify(token)
        radar = self._settings.radar
        return await self._remote.refusable(self._digests(radar, gateway_token, limit))

    async def call_tool(self, token: str, gateway_token: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """`{"answer": text}` of a service of the platform, called as the caller, or `{"refused", "kind"}`.

        Not named `remote`, which a Ray handle is itself asked by.
        """
        self._verifier.verify(token)
        return await self._remote.refusable(self._remote.call(name, gateway_token, arguments))

    async def _digests(self, radar: Radar, gateway_token: str, limit: int) -> list[dict[str, str]]:
        if radar.path is not None:
            raw = await self._remote.get(radar.path, gateway_token)
        elif radar.file is not None:
            raw = await asyncio.to_thread(radar.file.read_bytes)
        else:
            raise ModelShouldKnow("This platform has no Radar.")
        return await asyncio.to_thread(feed.digests, raw, limit)

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


def _last_error(one: DeploymentStatusOverview) -> dict[str, str]:
    """The class of the last error that Serve tells of a deployment that is not well; its message may quote anything."""
    names = _ERROR.findall(one.message or "") if one.status not in RUNNING_WELL else []
    return {"last_error": names[-1]} if names else {}
