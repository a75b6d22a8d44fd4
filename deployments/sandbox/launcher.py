"""A process between the service and the walls, one a run, because four things cannot be done elsewhere.

Privileges and limits are set before bubblewrap starts and without code between fork and exec of a threaded service. The
interpreter of root's home is made reachable in a mount namespace of its own, which ends with the run. What the sandbox leaves
behind is adopted and reaped here, so that its end is the end of everything. And bounds that the kernel lacks are watched.

It starts with each run, so it imports little. The service holds the other end of a pipe, the leash: when that closes, because
the run was cancelled or the service died, everything is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import marshal
import os
import resource
import select
import time
from typing import TYPE_CHECKING, NoReturn

from deployments.sandbox import watch

if TYPE_CHECKING:
    from deployments.sandbox.order import Order, Report

_TICK_SECONDS = 0.025
_SIGKILL = 9
_NICE = 10
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_REC, _MS_PRIVATE, _MS_NOSUID_NODEV = 4096, 16384, 1 << 18, 2 | 4
_NONE_OF = (resource.RLIMIT_CORE, resource.RLIMIT_MSGQUEUE, resource.RLIMIT_MEMLOCK)
_NOT_STARTED = 127

_libc = ctypes.CDLL(None, use_errno=True)


def main(order: str) -> None:
    """Do one run; `order` is a marshalled Order in hexadecimal digits."""
    told: Order = marshal.loads(bytes.fromhex(order))  # noqa: S302 (written by our own service)
    report: Report = {"started": False, "exit_code": None, "reason": None, "fault": ""}
    try:
        report = _run(told)
    except (OSError, ValueError) as error:
        report["fault"] = f"launcher: {error}"
    os.write(told["report"], marshal.dumps({**report}))


def _run(told: Order) -> Report:
    ours = (told["report"], told["leash"], told["status_read"], told["let_go"])
    _close_all_but({0, 1, 2, *ours, *told["passed"]})
    for kept in ours:
        os.set_inheritable(kept, False)
    _be_first_to_die()
    if told["unreachable"]:
        _make_reachable(told["unreachable"], told["sources"])
    _become(told["uid"], told["gid"])
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _die_with(told["service"])
    launcher, monitor = os.getpid(), os.fork()
    if monitor == 0:
        _become_bubblewrap(told, launcher)
    _give_away(told)
    try:
        return _ended(told, monitor, _wait(told, monitor))
    finally:
        _end_everything()


def _close_all_but(known: set[int]) -> None:
    """An event loop may hand down more than it was asked to; uvloop does."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 (it starts with each run, and imports little)
        if int(name) not in known:
            with contextlib.suppress(OSError):  # the listing's own
                os.close(int(name))


def _ended(told: Order, monitor: int, reason: str | None) -> Report:
    code = None
    if reason is None:
        code = os.waitstatus_to_exitcode(os.waitpid(monitor, 0)[1])
    started = reason is not None or b'"exit-code"' in _said(told["status_read"])
    fault = f"launcher: bubblewrap died of signal {-code}" if code is not None and code < 0 else ""
    return {"started": started, "exit_code": code if started else None, "reason": reason, "fault": fault}


def _said(status: int) -> bytes:
    """By bubblewrap, which names an exit code only if the program was started; the service holds this pipe open too."""
    os.set_blocking(status, False)
    try:
        return os.read(status, 4096)
    except BlockingIOError:
        return b""


def _wait(told: Order, monitor: int) -> str | None:
    """Why the run must end, None when it ended by itself."""
    deadline = time.monotonic() + told["wall_seconds"]
    looks = watch.Watch(monitor, told["memory_bytes"], told["work_bytes"], told["work_files"])
    poll, ended = select.poll(), os.pidfd_open(monitor)
    poll.register(ended, select.POLLIN)
    poll.register(told["leash"], select.POLLIN)
    poll.register(told["status_read"], select.POLLIN)
    while True:
        ready = dict(poll.poll(_TICK_SECONDS * 1000))
        if ended in ready:
            return None
        if told["leash"] in ready:
            return "stopped"
        if told["status_read"] in ready:
            poll.unregister(told["status_read"])
            _let_in(told)
        if time.monotonic() >= deadline:
            return "wall clock"
        if reason := looks.breach():
            return reason


def _let_in(told: Order) -> None:
    """Bound the number of processes where the program's own are counted alone, then start it.

    Bubblewrap has made the user namespace by now and waits. Set any earlier, the kernel would count against the bound whatever
    else the account runs on this host: for an ordinary user the service itself, and its other programs.
    """
    process_1 = int(os.read(told["status_read"], 4096).partition(b'"child-pid":')[2].partition(b",")[0])
    with contextlib.suppress(ProcessLookupError):
        _lower(resource.RLIMIT_NPROC, told["processes"], told["processes"], process_1)
    os.write(told["let_go"], b"x")


def _end_everything() -> None:
    """Kill our children and whom we inherit from them, until there is no one: their numbers are ours until reaped."""
    while True:
        for pid in watch.children(os.getpid()):
            os.kill(pid, _SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _become_bubblewrap(told: Order, launcher: int) -> NoReturn:
    """Never returns into the code of the launcher, whatever fails."""
    try:
        _die_with(launcher)
        _limit(told)
        line = ["bwrap", "--args", str(told["arguments"]), "--", *told["command"]]
        os.execve(told["bubblewrap"], line, {})  # noqa: S606
    except OSError as error:
        os.write(2, f"launcher: {error}".encode())
    finally:
        os._exit(_NOT_STARTED)


def _limit(told: Order) -> None:
    os.umask(0o077)
    os.nice(_NICE)
    _lower(resource.RLIMIT_CPU, told["cpu_seconds"], told["cpu_seconds"] + 1)  # the first says why, the second means it
    limits = {
        resource.RLIMIT_AS: told["address_space_bytes"],
        resource.RLIMIT_FSIZE: told["file_bytes"],
        resource.RLIMIT_NOFILE: told["open_files"],
        **dict.fromkeys(_NONE_OF, 0),
    }
    for limit, value in limits.items():
        _lower(limit, value, value)


def _lower(limit: int, soft: int, hard: int, pid: int = 0) -> None:
    """Never above what the service itself is held to; 0 is this process."""
    most = resource.prlimit(pid, limit)[1]
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.prlimit(pid, limit, (soft, hard))


def _give_away(told: Order) -> None:
    """The sandbox alone holds its streams, so that they end with it."""
    null = os.open("/dev/null", os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream, inheritable=False)
    for one in told["passed"]:
        os.close(one)


def _be_first_to_die() -> None:
    """Where memory runs out on the host, it is the program's."""
    with open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123 (pathlib is slow to import)
        file.write("1000")


def _become(uid: int, gid: int) -> None:
    """For good. Raises PermissionError while any way back to root is left."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    if 0 in os.getresuid() or os.getresuid() != (uid,) * 3:
        raise PermissionError("bubblewrap is never started as root")


def _die_with(parent: int) -> None:
    """Asked for after the change of user, which forgets it. A parent that died before asking is noticed."""
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    if os.getppid() != parent:
        os._exit(_NOT_STARTED)


def _make_reachable(covers: list[str], sources: list[str]) -> None:
    """Lay an open, empty folder over each closed one, for this run alone, and into it what the sandbox needs from there."""
    _check(_libc.unshare(_CLONE_NEWNS), "a mount namespace")
    _mount(None, "/", _MS_REC | _MS_PRIVATE)
    opened = {source: os.open(source, os.O_PATH | os.O_CLOEXEC) for source in sources}
    for cover in covers:
        _mount("tmpfs", cover, _MS_NOSUID_NODEV, "mode=0755")
    for source, descriptor in opened.items():
        _stand_in(source, is_folder=os.path.isdir(f"/proc/self/fd/{descriptor}"))  # noqa: PTH112
        _mount(f"/proc/self/fd/{descriptor}", source, _MS_BIND)
        os.close(descriptor)


def _stand_in(path: str, *, is_folder: bool) -> None:
    os.makedirs(path if is_folder else os.path.dirname(path), mode=0o755, exist_ok=True)  # noqa: PTH103, PTH120
    if not is_folder:
        os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o644))


def _mount(source: str | None, target: str, flags: int, options: str = "") -> None:
    """`source` names the type too where something new is mounted."""
    kind = source.encode() if source and not flags & _MS_BIND else None
    done = _libc.mount(source.encode() if source else None, target.encode(), kind, flags, options.encode())
    _check(done, f"mount {target}")


def _prctl(option: int, value: int) -> None:
    _check(_libc.prctl(option, value, 0, 0, 0), f"prctl {option}")


def _check(returned: int, what: str) -> None:
    if returned != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
