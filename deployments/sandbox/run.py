"""Runs a program so that nothing of it remains: not a process, not a mount, not a file, and no word but its output.

    async with Sandbox(Limits(), slots=2) as sandbox:
        result = await sandbox.run("print(sum(range(10)))")

Whatever ends a run, its slot is free only when all of it has been reaped.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Self

from deployments.sandbox import bubblewrap, escapes, process, room, seccomp
from deployments.sandbox.account import Account, accounts
from deployments.sandbox.errors import ProgramTooLarge, SandboxClosed, SandboxFailed, SandboxUnfit
from deployments.sandbox.limits import Limits
from deployments.sandbox.process import Arguments, Leash, Result, Walls

__all__ = ["Limits", "Result", "Sandbox"]


class Sandbox:
    """`slots` programs at a time, the others wait in the order they came.

    `arguments` makes bubblewrap's options; tests hand in one that leaves a wall out.
    """

    def __init__(
        self, limits: Limits | None = None, slots: int = 2, *, arguments: Arguments = bubblewrap.arguments
    ) -> None:
        self._limits, self._slots, self._arguments = limits or Limits(), slots, arguments
        self._free: asyncio.Queue[Account] = asyncio.Queue()
        self._runs: dict[asyncio.Task[Result], Leash] = {}
        self._walls: Walls | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Prepare, and try every escape. Raises SandboxUnfit with each wall that does not hold."""
        await self.prepare()
        try:
            if missing := await self.missing_walls():
                raise SandboxUnfit(tuple(missing))
        except BaseException:
            await self.close()
            raise

    async def prepare(self) -> None:
        """Look up what runs need, without trying the walls. Raises SandboxUnfit."""
        if sys.platform != "linux":
            raise SandboxUnfit((f"platform: {sys.platform} has no namespaces; run the service on Linux",))
        furnished = await asyncio.to_thread(room.furnish)
        filters = await asyncio.to_thread(seccomp.filters)
        closed = room.closed_folders(furnished.sources) if os.geteuid() == 0 else []
        self._free = asyncio.Queue()
        for account in accounts(self._slots):
            self._free.put_nowait(account)
        self._walls = Walls(furnished, filters, closed, self._arguments)

    async def missing_walls(self) -> list[str]:
        """A sentence for each escape that succeeds, or one that says why they could not be tried."""
        try:
            await self.run("")
            return await escapes.open_ways(self.run, self._limits)
        except SandboxFailed as error:
            return [f"bubblewrap: the walls cannot be put up here ({error.fault})"]

    async def run(self, program: str, limits: Limits | None = None) -> Result:
        """Run a program in a slot, within `limits` where they differ from the sandbox's own.

        Cancelling kills it, and returns when nothing of it is left. Raises ProgramTooLarge, SandboxFailed, SandboxClosed.
        """
        bounds = limits or self._limits
        text = program.encode("utf-8", "surrogatepass")  # a lone surrogate is the interpreter's to refuse
        if len(text) > bounds.program_bytes:
            raise ProgramTooLarge(len(text), bounds.program_bytes)
        walls, account = await self._slot()
        leash = Leash()
        task = asyncio.create_task(process.run(walls, account, bounds, text, leash))
        self._runs[task] = leash
        task.add_done_callback(lambda _: self._ended(task, account))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            leash.cut("stopped")
            await asyncio.wait([task])
            raise

    async def close(self) -> None:
        """Kill what runs, and refuse what comes."""
        self._walls = None
        for leash in self._runs.values():
            leash.cut("stopped")
        if self._runs:
            await asyncio.wait(list(self._runs))

    async def _slot(self) -> tuple[Walls, Account]:
        """Wait for one. Raises SandboxClosed."""
        if self._walls is None:
            raise SandboxClosed
        account = await self._free.get()
        if self._walls is None:
            self._free.put_nowait(account)  # for the next who waits, to be turned away too
            raise SandboxClosed
        return self._walls, account

    def _ended(self, task: asyncio.Task[Result], account: Account) -> None:
        del self._runs[task]
        self._free.put_nowait(account)
        if not task.cancelled():
            task.exception()  # told to whoever waits, and nobody does after a cancellation
