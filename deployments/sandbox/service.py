"""The sandbox as a deployment: it verifies for itself who is calling, and runs nothing where a wall is missing."""

from __future__ import annotations

import dataclasses
import logging
import math
from typing import Any

from configs import folders
from configs.settings import Settings
from deployments import replica
from deployments.identity import IdentityRefused, Verifier
from deployments.sandbox.errors import ProgramTooLarge, SandboxUnfit
from deployments.sandbox.run import Limits, Sandbox
from deployments.tiers.errors import EngineFailed

log = logging.getLogger(__name__)


class SandboxService:
    """Every run takes an identity token for the audience `sandbox`. Raises IdentityRefused, EngineFailed."""

    async def __init__(self, settings: Settings) -> None:  # type: ignore[misc]  # Serve awaits it
        replica.prepare()
        self._verifier = Verifier("caller", folders.secrets(settings), "sandbox")
        seconds = settings.sandbox.wall_seconds
        limits = Limits(wall_seconds=seconds, cpu_seconds=math.ceil(seconds), memory_mib=settings.sandbox.memory_mib)
        self._sandbox = Sandbox(limits, settings.sandbox.slots)
        self._missing: tuple[str, ...] = ()
        try:
            await self._sandbox.start()
        except SandboxUnfit as unfit:
            self._missing = unfit.missing
            log.warning("run_code is not offered: %s", "; ".join(unfit.missing))

    async def missing_walls(self) -> list[str]:
        """What the self-check at the start found open; empty where every wall holds."""
        return list(self._missing)

    async def run(self, token: str, program: str) -> dict[str, Any]:
        """`{"answer": the fields of Result}`, or `{"refused", "kind"}` for a program that cannot be run."""
        identity = self._verifier.verify(token)
        if "tools.run_code" not in identity.rights:
            raise IdentityRefused("right_missing")
        if self._missing:
            raise EngineFailed("sandbox_unfit")
        try:
            result = await self._sandbox.run(program)
        except ProgramTooLarge as error:
            return {"kind": "retry", "refused": f"The program is too long; at most {error.limit_bytes} bytes."}
        return {"answer": dataclasses.asdict(result)}

    async def check_health(self) -> None:
        """Asked by Serve; a sandbox without all its walls answers, and refuses to run."""
