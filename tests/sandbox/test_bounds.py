"""Programs that take all they can get: each is bounded, and another one beside it does not feel it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from deployments.sandbox.run import Sandbox
from tests.sandbox.conftest import LIMITS, Runs, programs

WALL = {"wall_seconds": 2}
FORKS = """
import os, time
made = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
        made += 1
except BlockingIOError:
    print(made)
    time.sleep(60)
"""

BOMBS = programs(
    r"""
# X01-fork-bomb
import os
while True:
    try: os.fork()
    except OSError: pass

# X01-thread-bomb
import threading, time
while True:
    try: threading.Thread(target=time.sleep, args=(60,)).start()
    except RuntimeError: pass

# X01-fork-and-exec
import os, sys
while True:
    try:
        if os.fork() == 0:
            os.execv(sys.executable, ['python3', '-I', '-S', '/program.py'])
    except OSError: pass

# X08-ignores-signals
import signal, time
for one in signal.valid_signals():
    try: signal.signal(one, signal.SIG_IGN)
    except (OSError, ValueError): pass
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
time.sleep(60)

# X09-sleeps
import time; time.sleep(600)

# X09-busy
while True: pass

# X09-naps
import time
while True: time.sleep(1e-9)

# X09-stops-itself
import os, signal; os.kill(os.getpid(), signal.SIGSTOP)

# X09-reads-a-pipe-nobody-writes
import os; os.read(os.pipe()[0], 1)
"""
)


@pytest.mark.parametrize("program", BOMBS.values(), ids=BOMBS)
async def test_it_ends_at_the_wall_clock_and_another_runs_meanwhile(sandbox: Sandbox, run: Runs, program: str) -> None:
    bomb = asyncio.create_task(run(program, **WALL))
    beside = await run("import os\nfor _ in range(3):\n    if os.fork() == 0: os._exit(0)\nprint('unharmed')")
    result = await bomb
    assert beside.stdout == "unharmed\n"
    assert (result.reason, result.timed_out) == ("wall clock", True)
    assert 1_900 < result.elapsed_ms < 8_000


async def test_processes_stop_at_the_limit_though_the_service_is_root(run: Runs) -> None:
    """X02."""
    result = await run(FORKS, processes=12, **WALL)
    assert 5 <= int(result.stdout) < 12


DAEMONS = {
    "X08-setsid": "os.setsid() if os.fork() == 0 else os._exit(0)",
    "X08-double-fork": "os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0)",
    "X08-no-death-signal": "ctypes.CDLL(None).prctl(1, 0, 0, 0, 0); os.fork() and os._exit(0)",
    "X08-subreaper": "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.fork() and time.sleep(.1) or os.fork(); os._exit(0)",
    "X08-closes-its-streams": "os.fork() and os._exit(0); os.closerange(0, 64)",
}


@pytest.mark.parametrize("program", DAEMONS.values(), ids=DAEMONS)
async def test_what_stays_behind_ends_with_the_program(run: Runs, program: str) -> None:
    result = await run(f"import ctypes, os, signal, time\nsignal.signal(15, signal.SIG_IGN)\n{program}\ntime.sleep(60)")
    assert result.reason is None and result.elapsed_ms < 5_000


MEMORY = programs(
    r"""
# X03-one-allocation
bytearray(10**10)

# X03-until-failure
kept = []
while True: kept.append(bytearray(10**7))

# X03-many-small
kept = [object() for _ in iter(int, 1)]

# X03-untouched-mappings
import mmap
kept = []
try:
    while True: kept.append(mmap.mmap(-1, 1 << 28))
except OSError: raise MemoryError

# X03-many-processes
import os, time
for _ in range(4): os.fork()
kept = bytearray(os.urandom(1 << 20)) * 40
time.sleep(60)

# X03-shared-memory
import mmap, os, time
m = mmap.mmap(-1, 1 << 29)
while True: m.write(b'x' * (1 << 20))

# X03-grandchildren
import os, time
while os.fork() == 0: kept = bytearray(os.urandom(1 << 20)) * 40
time.sleep(60)

# X45-compile-bomb
'a' * 10**12

# X45-huge-power
10 ** 10 ** 10 ** 10
"""
)


@pytest.mark.parametrize("program", [value for name, value in MEMORY.items() if "power" not in name],
                         ids=[name for name in MEMORY if "power" not in name])  # fmt: skip
async def test_memory_is_bounded_and_said_so(run: Runs, program: str) -> None:
    assert (await run(program, wall_seconds=15)).reason == "memory"


async def test_shared_pages_are_counted_once(run: Runs) -> None:
    """Ten children that share what their parent made hold it together, not ten times."""
    result = await run(
        "import os, time\nkept = bytearray(os.urandom(1 << 20)) * 60\n"
        "for _ in range(8):\n    if os.fork() == 0: time.sleep(.3); os._exit(0)\n"
        "for _ in range(8): os.wait()\nprint('ok')"
    )
    assert result.stdout == "ok\n"


FILLS = {
    "X04-tmp": ("while True: open(f'/tmp/{next(n)}', 'wb').write(bytes(1 << 20))", "ENOSPC"),
    "X04-dev-shm": ("while True: open(f'/dev/shm/{next(n)}', 'wb').write(bytes(1 << 20))", "ENOSPC"),
    "X04-root": ("open('/x', 'wb')", "EROFS"),
    "X04-dev": ("open('/dev/x', 'wb')", "EROFS"),
    "X04-hidden-folder": ("open('/usr/lib/x', 'wb')", "EROFS"),
    "X04-proc": ("open('/proc/x', 'wb')", "ENOENT EACCES EPERM"),
    "X04-one-large-file": ("open('/tmp/x', 'wb').write(bytes(40 << 20))", "EFBIG"),
    "X04-sparse": ("os.truncate(os.open('/tmp/x', os.O_CREAT | os.O_RDWR), 1 << 40)", "EFBIG"),
    "X04-fallocate": ("os.posix_fallocate(os.open('/tmp/x', os.O_CREAT | os.O_RDWR), 0, 1 << 30)", "EFBIG ENOSPC"),
    "X04-memfd": ("os.memfd_create('x')", "EPERM ENOSYS"),
    "X04-pipes": ("while True: kept.append(os.pipe())", "EMFILE"),
    "X04-pipe-size": ("fcntl.fcntl(os.pipe()[1], 1031, 1 << 20)", "EPERM"),
    "X04-socket-buffers": ("socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)", "EPERM"),
    "X04-sysv-shm": ("raise OSError(call(29, 0, 1 << 20, 0o1600), '')", "EPERM ENOSYS"),
    "X05-descriptors": ("while True: kept.append(os.open('/dev/null', 0))", "EMFILE"),
    "X05-passed-descriptors": (
        "a, b = socket.socketpair()\na.setblocking(False)\n"
        "while True: socket.send_fds(a, [b'x'], [os.open('/dev/null', 0)] * 1); kept.append(os.open('/dev/null', 0))",
        "EMFILE ETOOMANYREFS EAGAIN",
    ),
}  # fmt: skip
FILLER = """
import ctypes, errno, fcntl, itertools, os, socket
n, kept = itertools.count(), []
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    return ctypes.get_errno() if libc.syscall(*map(ctypes.c_long, arguments)) == -1 else 0
try:
    {attempt}
except OSError as error:
    print(errno.errorcode.get(error.errno, 'done'))
"""


@pytest.mark.parametrize(("attempt", "errors"), FILLS.values(), ids=FILLS)
async def test_what_can_be_filled_is_bounded(run: Runs, attempt: str, errors: str) -> None:
    result = await run(FILLER.format(attempt=attempt.replace("\n", "\n    ")))
    assert result.stdout.strip() in errors.split(), result


async def test_a_million_empty_files_are_stopped_early(run: Runs) -> None:
    """X04: inodes."""
    result = await run("n = 0\nwhile True:\n    open(f'/tmp/{n}', 'w').close(); n += 1", work_files=2_000)
    assert (result.reason, result.exit_code) == ("files", None)


async def test_a_thousand_files_are_fine(run: Runs) -> None:
    assert (await run("for n in range(1000): open(f'/tmp/{n}', 'w').close()\nprint('ok')")).stdout == "ok\n"


FLOODS = {
    "X06-stdout": "import sys\nwhile True: sys.stdout.write('x\\n' * 9999)",
    "X06-stderr": "import sys\nwhile True: sys.stderr.write('x\\n' * 9999)",
    "X06-both": "import os\nwhile True: os.write(1, b'x' * 9999); os.write(2, b'x' * 9999)",
    "X06-no-newline": "import os\nwhile True: os.write(1, b'x' * 65536)",
    "X06-binary": "import os\nwhile True: os.write(1, bytes(range(256)) * 99)",
    "X06-children": "import os\nfor _ in range(3): os.fork()\nwhile True: os.write(1, b'x' * 9999)",
}


@pytest.mark.parametrize("program", FLOODS.values(), ids=FLOODS)
async def test_a_flood_is_cut_and_ended(run: Runs, program: str) -> None:
    result = await run(program, output_bytes=4096)
    assert (result.reason, result.exit_code) == ("output", None)
    assert len(result.stdout) <= 4096 and len(result.stderr) <= 4096
    assert result.stdout_truncated or result.stderr_truncated


BOMBS_OF_TEXT = {
    "X45-deep-recursion": ("def f(): f()\nf()", "RecursionError"),
    "X45-deep-source": ("(" * 5000, "SyntaxError"),
    "X45-nested-source": ("x = " + "[" * 150 + "]" * 150 + "\nprint('fine')", ""),
    "X45-huge-int": ("int('9' * 10**7)", "ValueError"),
    "X45-own-exception-text": ("raise SystemExit('x' * 10**6)", ""),
}


@pytest.mark.parametrize(("program", "error"), BOMBS_OF_TEXT.values(), ids=BOMBS_OF_TEXT)
async def test_odd_programs_end_with_an_error_of_python(run: Runs, program: str, error: str) -> None:
    result = await run(program)
    assert error in result.stderr and result.reason is None


async def test_a_power_that_never_ends_is_ended(run: Runs) -> None:
    """X45."""
    assert (await run(MEMORY["X45-huge-power"], **WALL)).reason in ("wall clock", "memory")


async def test_core_files_and_limits_cannot_be_raised(run: Runs) -> None:
    """X30."""
    result = await run(
        "import resource\n"
        "for name in ('CORE', 'CPU', 'AS', 'NPROC', 'FSIZE', 'NOFILE', 'MEMLOCK'):\n"
        "    kind = getattr(resource, 'RLIMIT_' + name)\n"
        "    try: resource.setrlimit(kind, (resource.RLIM_INFINITY,) * 2); print('raised', name)\n"
        "    except (ValueError, OSError): pass\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_NPROC)[1])"
    )
    assert result.stdout == f"(0, 0) {LIMITS.processes}\n"


HELD = """
import asyncio, resource, sys
sys.path.insert(0, {root!r})
from deployments.sandbox.run import Sandbox
resource.setrlimit(resource.RLIMIT_NPROC, (20, 20))
async def main():
    sandbox = Sandbox(slots=1)
    await sandbox.prepare()
    print((await sandbox.run("import resource; print(resource.getrlimit(resource.RLIMIT_NPROC))")).stdout)
asyncio.run(main())
"""


def test_a_program_gets_no_more_than_the_service_itself_is_held_to(sandbox: Sandbox) -> None:
    """The host may hold the service to fewer processes than the limits allow a program; that is no reason to run none."""
    code = HELD.format(root=str(Path(__file__).parents[2]))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "(20, 20)\n\n", done.stderr
