"""Ray's replicas run on uvloop, which hands more descriptors down than it is asked to: every wall holds there too."""

from __future__ import annotations

import subprocess
import sys

import pytest

CHECK = """
import asyncio, {module}
from deployments.sandbox.run import Sandbox

async def main():
    sandbox = Sandbox()
    await sandbox.prepare()
    print(type(asyncio.get_running_loop()).__module__, await sandbox.missing_walls())
    await sandbox.close()

{module}.run(main())
"""


@pytest.mark.parametrize("module", ["asyncio", "uvloop"])
def test_every_wall_holds(module: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CHECK.format(module=module)], capture_output=True, text=True, timeout=100, check=True
    )
    loop, _, missing = ran.stdout.partition(" ")
    assert loop.startswith(module) and missing == "[]\n", ran.stdout
