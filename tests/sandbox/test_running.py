"""What a program that means no harm gets: its output, its exit code, a usual Python."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from deployments.sandbox.errors import ProgramTooLarge, SandboxClosed
from deployments.sandbox.run import Limits, Sandbox
from tests.sandbox.conftest import LIMITS, SLOTS, Runs, command, of_runs

RAISED = (
    'Traceback (most recent call last):\n  File "/program.py", line 2, in <module>\n    1/0\n    ~^~\nZeroDivisionError'
)


@pytest.mark.parametrize(
    ("program", "stdout", "stderr", "exit_code"),
    [
        pytest.param("print(sum(range(10)))", "45\n", "", 0, id="prints"),
        pytest.param("", "", "", 0, id="empty"),
        pytest.param("print('Čaj', '日本', 'שלום', '👩‍💻')", "Čaj 日本 שלום 👩‍💻\n", "", 0, id="unicode"),
        pytest.param("import sys; print('e', file=sys.stderr)", "", "e\n", 0, id="stderr"),
        pytest.param("exit(3)", "", "", 3, id="exit-code"),
        pytest.param("import os; os._exit(255)", "", "", 255, id="exit-255"),
        pytest.param("print(input())", "", "EOFError: EOF when reading a line\n", 1, id="X20-stdin-is-empty"),
        pytest.param("import sys; print(sys.stdin.isatty(), sys.argv)", "False ['/program.py']\n", "", 0, id="no-terminal"),
        pytest.param("import os; os.write(1, b'a\\xff\\x00b')", "a\ufffd\x00b", "", 0, id="X06-no-utf8-and-nul"),
        pytest.param("print('\\x1b[31mred\\rx', end='')", "\x1b[31mred\rx", "", 0, id="X06-escapes-pass-as-data"),
        pytest.param("a = '\0'", "", "SyntaxError: source code cannot contain null bytes\n", 1, id="nul-in-the-source"),
        pytest.param("print('\ud800')", "", "Non-UTF-8 code", 1, id="surrogate-in-the-source"),
        pytest.param("# -*- coding: latin-1 -*-\nprint(1)", "1\n", "", 0, id="declared-encoding"),
        pytest.param("--bind / /\n", "", "SyntaxError: invalid syntax\n", 1, id="X46-starts-like-an-option"),
        pytest.param("\n1/0", "", RAISED, 1, id="traceback-shows-the-line"),
        pytest.param("import os; print(os.getcwd(), os.path.expanduser('~'))", "/tmp /tmp\n", "", 0, id="work-folder"),
        pytest.param("import numpy", "", "ModuleNotFoundError: No module named 'numpy'\n", 1, id="no-package-of-ours"),
        pytest.param("import deployments", "", "ModuleNotFoundError: No module named 'deployments'\n", 1, id="no-code-of-ours"),
    ],
)  # fmt: skip
async def test_output_and_end(run: Runs, program: str, stdout: str, stderr: str, exit_code: int) -> None:
    result = await run(program)
    assert (result.stdout, result.exit_code, result.reason) == (stdout, exit_code, None)
    assert stderr in result.stderr and bool(stderr) == bool(result.stderr)
    assert not result.timed_out and not result.stdout_truncated and result.elapsed_ms > 0


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("import asyncio; print(asyncio.run(asyncio.sleep(0, 'ok')))", id="asyncio"),
        pytest.param(
            "from concurrent.futures import ThreadPoolExecutor as E\n"
            "import time\nwith E(24) as e: list(e.map(time.sleep, [.05] * 24))\nprint('ok')",
            id="24-threads",
        ),
        pytest.param(
            "from multiprocessing import Pool\nif __name__ == '__main__':\n"
            "    with Pool(4) as p: print('ok' if p.map(abs, [-1, 2]) == [1, 2] else '')",
            id="processes",
        ),
        pytest.param(
            "import sqlite3\nc = sqlite3.connect('a.db')\nc.execute('create table t(a)')\nc.commit()\nprint('ok')",
            id="sqlite",
        ),
        pytest.param(
            "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'print(\"ok\")'], capture_output=True,"
            " text=True).stdout.strip())",
            id="subprocess",
        ),
        pytest.param(
            "import bz2, ctypes, curses, decimal, hashlib, lzma, ssl, unittest, uuid, zlib, zoneinfo\n"
            "hashlib.sha256(b'').hexdigest(); zoneinfo.ZoneInfo('UTC'); print('ok')",
            id="libraries",
        ),
        pytest.param("import tempfile\nwith tempfile.TemporaryFile() as f: f.write(b'x'); print('ok')", id="files"),
    ],
)  # fmt: skip
async def test_the_standard_library_works(run: Runs, program: str) -> None:
    assert (await run(program)).stdout == "ok\n"


async def test_a_program_of_a_megabyte_runs(run: Runs) -> None:
    assert (
        await run("x = 1  # padded to a longer line of text, which is what real sources are\n" * 14_000 + "print(x)")
    ).stdout == "1\n"


async def test_a_program_that_is_too_large_is_refused_before_it_takes_a_slot(sandbox: Sandbox) -> None:
    """X45."""
    with pytest.raises(ProgramTooLarge) as refused:
        await sandbox.run("#" * 10_000_000)
    assert (refused.value.size_bytes, refused.value.limit_bytes) == (10_000_000, LIMITS.program_bytes)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_a_stream_is_cut_at_the_cap_and_the_program_goes_on(run: Runs, stream: str) -> None:
    result = await run(f"import sys\nsys.{stream}.write('x' * 5000)\nexit(4)", output_bytes=1000)
    assert result.exit_code == 4 and getattr(result, stream) == "x" * 1000 and getattr(result, f"{stream}_truncated")


async def test_output_at_the_cap_is_whole_and_a_character_is_never_cut_in_two(run: Runs) -> None:
    exact = await run("print('x' * 9)", output_bytes=10)
    assert exact.stdout == "x" * 9 + "\n" and not exact.stdout_truncated
    cut = await run("print('čšž' * 9)", output_bytes=9)
    assert cut.stdout == "čšžč" and cut.stdout_truncated


async def test_what_was_printed_before_a_kill_is_told(run: Runs) -> None:
    result = await run("print('before'); import time; time.sleep(60)", wall_seconds=1)
    assert (result.stdout, result.timed_out, result.reason, result.exit_code) == ("before\n", True, "wall clock", None)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("import os; os.abort()", "SIGABRT"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
        ("x = bytearray(10**11)", "memory"),
        ("raise MemoryError('text')", "memory"),
    ],
    ids=["SIGSEGV", "SIGABRT", "SIGKILL", "memory", "memory-with-a-text"],
)
async def test_the_reason_of_a_death(run: Runs, program: str, reason: str) -> None:
    result = await run(program)
    assert result.reason == reason and result.exit_code not in (None, 0)


async def test_cpu_time_is_bounded_below_the_wall_clock(run: Runs) -> None:
    result = await run("while True: pass", cpu_seconds=1)
    assert (result.reason, result.timed_out) == ("cpu time", False)


async def running(count: int) -> None:
    """Until so many programs run; there is no event to wait for."""
    while programs() < count:
        await asyncio.sleep(0.01)


def programs() -> int:
    return sum(command(pid).startswith(b"/usr/bin/python3\0") for pid in of_runs())


SLEEPS = "import time; time.sleep(60)"


async def test_cancelling_kills_at_once_and_frees_the_slot(sandbox: Sandbox) -> None:
    """X37."""
    tasks = [asyncio.create_task(sandbox.run(SLEEPS)) for _ in range(SLOTS)]
    async with asyncio.timeout(10):
        await running(SLOTS)
    for task in tasks:
        task.cancel()
    async with asyncio.timeout(5):
        await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks) and programs() == 0


@pytest.mark.parametrize("turns", range(6))
async def test_cancelling_at_any_moment_of_the_start_leaves_nothing(sandbox: Sandbox, turns: int) -> None:
    task = asyncio.create_task(sandbox.run(SLEEPS))
    await asyncio.sleep(turns * 0.012)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancelling_while_waiting_loses_no_slot(sandbox: Sandbox) -> None:
    tasks = [asyncio.create_task(sandbox.run(SLEEPS)) for _ in range(SLOTS + 3)]
    async with asyncio.timeout(10):
        await running(SLOTS)
    for task in reversed(tasks):
        task.cancel()
    await asyncio.wait(tasks)
    assert [(await sandbox.run("print(1)")).stdout for _ in range(SLOTS + 1)] == ["1\n"] * (SLOTS + 1)


async def test_no_more_programs_than_slots_run_and_all_come_to_their_turn(sandbox: Sandbox) -> None:
    """X36, in small; each prints its number, so none gets another's output."""
    tasks = [
        asyncio.create_task(sandbox.run(f"import time; time.sleep(.1); print({number})")) for number in range(SLOTS * 4)
    ]
    most = 0
    while not all(task.done() for task in tasks):
        most = max(most, programs())
        await asyncio.sleep(0.005)
    assert [(await task).stdout for task in tasks] == [f"{number}\n" for number in range(SLOTS * 4)]
    assert most == SLOTS


async def test_closing_kills_what_runs_and_turns_away_who_waits(sandbox: Sandbox) -> None:
    own = Sandbox(Limits(), 1)
    await own.prepare()
    running_one, waiting, last = (asyncio.create_task(own.run(SLEEPS)) for _ in range(3))
    async with asyncio.timeout(10):
        await running(1)
    await own.close()
    assert (await running_one).reason == "stopped"
    for task in (waiting, last, asyncio.create_task(own.run("print(1)"))):
        with pytest.raises(SandboxClosed):
            await task


async def test_a_sandbox_that_was_not_started_runs_nothing() -> None:
    with pytest.raises(SandboxClosed):
        await Sandbox().run("print(1)")


async def test_the_text_of_a_program_stands_in_no_command_line(sandbox: Sandbox) -> None:
    task = asyncio.create_task(sandbox.run("marker = 'f00dcafe'; import time; time.sleep(60)"))
    async with asyncio.timeout(10):
        await running(1)
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    task.cancel()
    await asyncio.wait([task])
    assert not any(b"f00dcafe" in line for line in lines)
