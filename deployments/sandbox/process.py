"""One run: a launcher process, its streams, and how it ended."""

from __future__ import annotations

import asyncio
import marshal
import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from deployments.sandbox.account import Account
from deployments.sandbox.bubblewrap import COMMAND, Descriptors
from deployments.sandbox.descriptors import Owned, nul_joined
from deployments.sandbox.errors import SandboxFailed
from deployments.sandbox.limits import Limits
from deployments.sandbox.order import Order, Report
from deployments.sandbox.room import Room
from deployments.sandbox.streams import Captured, capture

_SOURCES = str(Path(__file__).parents[2])
_BOOT = "import sys; sys.path.append(sys.argv[1]); from deployments.sandbox import launcher; launcher.main(sys.argv[2])"
_SLACK_SECONDS = 10  # beyond the wall clock that the launcher keeps, before it is taken to hang
_SIGNALLED = 128  # bubblewrap's way to say that a signal ended the program
_FAULT_CHARS = 300
_OUT_OF_MEMORY = re.compile(r"^MemoryError\b.*\Z", re.MULTILINE)

Arguments = Callable[[Room, Limits, Descriptors], list[str]]


@dataclass(frozen=True)
class Result:
    """What a program did. `exit_code` is None where it was killed from outside, and `reason` says why.

    Reasons: `wall clock`, `cpu time`, `memory`, `files` (too many), `output`, or the name of the signal it died of. A program
    that ran out of memory by itself has an exit code and the reason `memory`. Streams are as printed: neutralise them
    before they are shown.
    """

    stdout: str
    stderr: str
    exit_code: int | None
    elapsed_ms: int
    timed_out: bool
    stdout_truncated: bool
    stderr_truncated: bool
    reason: str | None = None


@dataclass(frozen=True)
class Walls:
    """What the runs of one sandbox share."""

    room: Room
    filters: tuple[bytes, ...]
    closed_folders: list[str]
    """Those on the way to what the room needs, which an account of ours cannot enter."""
    arguments: Arguments


class Leash:
    """Held while a run may go on; cut from any task, before the run begins too. The first reason counts."""

    def __init__(self) -> None:
        self.cut_because: str | None = None
        self._descriptor: int | None = None

    def cut(self, because: str) -> None:
        if self.cut_because is None:
            self.cut_because = because
            self._pull()

    def tie(self, descriptor: int) -> None:
        """To the launcher's pipe."""
        self._descriptor = descriptor
        if self.cut_because:
            self._pull()

    def untie(self) -> None:
        self._descriptor = None

    def _pull(self) -> None:
        if self._descriptor is not None:
            os.write(self._descriptor, b"x")


async def run(walls: Walls, account: Account, limits: Limits, program: bytes, leash: Leash) -> Result:
    """Returns when nothing of the run is left. Raises SandboxFailed."""
    with Owned() as owned:
        leash_end, held = owned.pipe()
        report, report_end = owned.pipe()
        order = _order(walls, account, limits, owned, program)
        order["leash"], order["report"] = leash_end, report_end
        leash.tie(held)
        began = time.monotonic()
        try:
            process = await _launched(walls.room.python, order)
            out, err = await _followed(process, limits, leash)
        finally:
            leash.untie()
        return _result(_told(report), out, err, leash, int((time.monotonic() - began) * 1000))


def _order(walls: Walls, account: Account, limits: Limits, owned: Owned, program: bytes) -> Order:
    status, status_end = owned.pipe()
    hold, let_go = owned.pipe()
    filters = tuple(owned.sealed("filter", one) for one in walls.filters)
    descriptors = Descriptors(owned.sealed("program", program), status_end, hold, filters)
    options = nul_joined(walls.arguments(walls.room, limits, descriptors))
    arguments = owned.sealed("arguments", options)
    below = [str(path) for path in walls.room.sources if any(map(path.is_relative_to, walls.closed_folders))]
    return Order(
        service=os.getpid(),
        uid=account.uid,
        gid=account.gid,
        unreachable=walls.closed_folders,
        sources=below,
        bubblewrap=str(walls.room.bubblewrap),
        arguments=arguments,
        command=list(COMMAND),
        passed=[arguments, descriptors.program, descriptors.status, descriptors.hold, *filters],
        status_read=status,
        let_go=let_go,
        report=-1,
        leash=-1,
        wall_seconds=limits.wall_seconds,
        cpu_seconds=limits.cpu_seconds,
        memory_bytes=limits.memory_bytes,
        address_space_bytes=limits.address_space_bytes,
        work_bytes=limits.work_bytes,
        work_files=limits.work_files,
        file_bytes=limits.file_bytes,
        processes=limits.processes,
        open_files=limits.open_files,
    )


async def _launched(python: Path, order: Order) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(str(python), "-I", "-S", "-B", "-c", _BOOT, _SOURCES, marshal.dumps({**order}).hex()),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={},
        cwd="/",
        pass_fds=[*order["passed"], order["status_read"], order["let_go"], order["report"], order["leash"]],
        start_new_session=True,
    )


async def _followed(process: asyncio.subprocess.Process, limits: Limits, leash: Leash) -> tuple[Captured, Captured]:
    assert process.stdout and process.stderr

    def flooded() -> None:
        leash.cut("output")

    streams = [
        asyncio.create_task(capture(stream, limits.output_bytes, flooded))
        for stream in (process.stdout, process.stderr)
    ]
    try:
        async with asyncio.timeout(limits.wall_seconds + _SLACK_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
    out, err = await asyncio.gather(*streams)
    return out, err


def _told(report: int) -> Report | None:
    """What the launcher said last, if it came to say something."""
    os.set_blocking(report, False)
    try:
        return cast(Report, marshal.loads(os.read(report, 4096)))  # noqa: S302 (by our own launcher)
    except (BlockingIOError, EOFError, ValueError):
        return None


def _result(told: Report | None, out: Captured, err: Captured, leash: Leash, elapsed_ms: int) -> Result:
    if told is None:
        raise SandboxFailed("the launcher ended without a word")
    if not told["started"]:
        raise SandboxFailed(told["fault"] or _complaint(err.text))
    reason, code = told["reason"], told["exit_code"]
    if reason == "stopped":
        reason = leash.cut_because
    elif reason is None and code is not None:
        reason = _ended_by(code, err.text)
    return Result(out.text, err.text, code, elapsed_ms, reason == "wall clock", out.truncated, err.truncated, reason)


def _complaint(stderr: str) -> str:
    """The line in which bubblewrap or the launcher complains; never a line of the program's."""
    ours = (line for line in stderr.splitlines() if line.startswith(("bwrap: ", "launcher: ")))
    return next(ours, "bubblewrap said nothing")[:_FAULT_CHARS]


def _ended_by(code: int, stderr: str) -> str | None:
    """Read from what a program may have written too; it deceives nobody but its own reader."""
    if code == 1 and _OUT_OF_MEMORY.search(stderr.rstrip()):
        return "memory"
    try:
        died_of = signal.Signals(code - _SIGNALLED)
    except ValueError:
        return None
    return "cpu time" if died_of is signal.SIGXCPU else died_of.name
