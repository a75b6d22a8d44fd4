"""One sandbox for all tests, and after each: no process, mount or file of a run is left, and the next run works."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deployments.sandbox import watch
from deployments.sandbox.account import accounts
from deployments.sandbox.errors import SandboxFailed, SandboxUnfit
from deployments.sandbox.run import Limits, Result, Sandbox
from tests import processes

LIMITS = Limits(wall_seconds=20, memory_mib=256)
SLOTS = 2
Runs = Callable[..., Awaitable[Result]]


@pytest.fixture(scope="session")
async def sandbox() -> AsyncIterator[Sandbox]:
    made = Sandbox(LIMITS, SLOTS)
    try:
        await made.prepare()
        await made.run("")
    except (SandboxUnfit, SandboxFailed) as error:
        pytest.skip(f"no sandbox can be built here: {error}")
    yield made
    await made.close()


@pytest.fixture
def run(sandbox: Sandbox) -> Runs:
    """Runs a program; keywords are limits that differ."""

    async def runs(program: str, **limits: float) -> Result:
        return await sandbox.run(program, replace(LIMITS, **limits))

    return runs


def programs(text: str) -> dict[str, str]:
    """Programs under headings like `# X01-name`."""
    parts = re.split(r"^# (X\S+)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.fixture(autouse=True)
async def nothing_is_left(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    mounts = Path("/proc/self/mountinfo").read_text()
    with processes.marked():
        yield
        await _assert_nothing_is_left(request, mounts)


async def _assert_nothing_is_left(request: pytest.FixtureRequest, mounts: str) -> None:
    assert [pid for pid in of_runs() if not is_zombie(pid)] == []
    assert list(of_the_account()) == []
    assert Path("/proc/self/mountinfo").read_text() == mounts
    if "sandbox" in request.fixturenames:
        sandbox = request.getfixturevalue("sandbox")
        assert (await sandbox.run("print('next')")).stdout == "next\n"


def of_runs() -> Iterator[int]:
    """What the test started, and everything below."""
    for child in processes.started():
        yield child
        yield from watch.descendants(child)


def command(pid: int) -> bytes:
    """The command line of a process; empty where it has none, or is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def of_the_account() -> Iterator[str]:
    """Processes and files of the users that root runs programs as."""
    if os.geteuid() != 0:
        return
    uids = {account.uid for account in accounts(8)}
    folders = [
        *Path("/proc").glob("[0-9]*"),
        *(one for top in ("/tmp", "/var/tmp", "/dev/shm") for one in Path(top).iterdir()),
    ]
    for path in folders:
        try:
            if path.lstat().st_uid in uids and not (path.name.isdigit() and is_zombie(int(path.name))):
                yield str(path)
        except OSError:
            continue


def is_zombie(pid: int) -> bool:
    """asyncio reaps a child in a thread, init what a killed launcher leaves: perhaps a moment after its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
