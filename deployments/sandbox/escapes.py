"""Walls are promised by a kernel, a container and a package together, so each is tried where the service runs.

An escape is a small program that tries one way out and prints `held` when every try failed. Whatever else it prints, and
whatever else becomes of it, counts as a wall that does not hold. Nothing is written where the host could feel it: access is
asked for, not used.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deployments.sandbox.bubblewrap import ENVIRONMENT
from deployments.sandbox.limits import Limits
from deployments.sandbox.process import Result

Attempt = Callable[[str, Limits], Awaitable[Result]]

_END = "\nprint('open:', *opened) if opened else print('held')"
_CALLS = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def refused(*call):
    ctypes.set_errno(0)
    return libc.syscall(*map(ctypes.c_long, call)) == -1 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS)
"""
_SECOND = {"wall_seconds": 1.0}


@dataclass(frozen=True)
class Escape:
    """One way out. `program` fills the list `opened`; `dies_of` are reasons that mean the wall held too."""

    wall: str
    program: str
    dies_of: tuple[str, ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)

    async def is_open(self, attempt: Attempt, limits: Limits) -> bool:
        result = await attempt("opened = []\n" + self.program + _END, dataclasses.replace(limits, **self.limits))
        return result.stdout.splitlines()[-1:] != ["held"] and result.reason not in self.dies_of


ESCAPES = (
    Escape(
        "identity: the program has a user's id, capabilities, or may gain some",
        """
import os
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
wanted = {"CapInh": "0" * 16, "CapPrm": "0" * 16, "CapEff": "0" * 16, "CapBnd": "0" * 16, "CapAmb": "0" * 16,
          "NoNewPrivs": "1", "Seccomp": "2"}
opened += [name for name, value in wanted.items() if status[name].strip() != value]
opened += ["id"] if set(os.getresuid() + os.getresgid()) != {65534} else []
""",
    ),
    Escape(
        "environment: the service's environment can be read",
        f"""
import os
opened += [name for name in os.environ if name not in {sorted([*ENVIRONMENT, "PWD"])}]
opened += ["/proc/1/environ"] if open("/proc/1/environ", "rb").read().strip(b"\\0") else []
""",
    ),
    Escape(
        "descriptors: the program inherits an open file of the service",
        """
import os
for name in os.listdir("/proc/self/fd"):
    try:
        os.fstat(int(name))
    except OSError:
        continue  # the listing's own
    opened += [name] if int(name) > 2 else []
opened += ["stdin"] if os.read(0, 1) else []
""",
    ),
    Escape(
        "processes: processes of the host can be seen or signalled",
        """
import os
opened += [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) > 20]
opened += ["parent"] if os.getppid() not in (0, 1) else []
opened += ["session"] if os.getsid(0) not in (0, 1, 2, os.getpid()) else []
""",
    ),
    Escape(
        "files: more of the host than the interpreter can be seen",
        """
import os
opened += [name for name in os.listdir("/") if name not in
           ("bin", "dev", "lib", "lib32", "lib64", "proc", "program.py", "tmp", "usr")]
opened += [name for name in os.listdir("/usr") if name not in ("bin", "lib", "lib32", "lib64", "share")]
opened += [name for name in os.listdir("/usr/bin") if name != "python3"]
opened += [name for name in os.listdir("/dev") if name not in
           ("fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero")]
opened += os.listdir("/tmp")
""",
    ),
    Escape(
        "writing: a place besides the work folder can be written",
        """
import os
for folder, folders, files in os.walk("/"):
    folders[:] = [name for name in folders if folder != "/" or name not in ("proc", "tmp")]
    names = [folder] + [os.path.join(folder, name) for name in files if folder != "/dev"]
    opened += [name for name in names if os.access(name, os.W_OK)]
for folder, _, files in os.walk("/proc/sys"):
    opened += [name for name in files if os.access(os.path.join(folder, name), os.W_OK)]
for name in ("sysrq-trigger", "kcore", "kmsg", "irq", "fs", "bus"):
    path = "/proc/" + name
    opened += [path] if os.path.exists(path) and not os.path.samefile(path, "/dev/null") and os.access(path, os.W_OK) else []
""",
    ),
    Escape(
        "network: an address can be spoken to",
        """
import os, socket
for family in (socket.AF_INET, socket.AF_INET6, 16, 17, 31, 38, 40):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
        for wide in (0, 1 << 32):
            try:
                socket.socket(family, kind).close()
                opened.append(str(family))
            except OSError:
                pass
opened += [line for line in open("/proc/net/dev").read().split() if line.endswith(":") and line != "lo:"]
""",
    ),
    Escape(
        "namespaces: a namespace can be made or entered",
        _CALLS
        + """
libc.unshare.argtypes = [ctypes.c_int]
for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
    if libc.unshare(flag) == 0:
        opened.append(hex(flag))
if libc.setns(0, 0) == 0 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
    opened.append("setns")
""",
    ),
    Escape(
        "kernel calls: a call that Python does not need is answered",
        _CALLS
        + """
import platform
numbers = {"x86_64": {"keyctl": 250, "add_key": 248, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "ptrace": 101,
                      "mount": 165, "pivot_root": 155, "chroot": 161, "io_uring_setup": 425, "memfd_create": 319,
                      "open_by_handle_at": 304, "fsopen": 430, "clone3": 435, "kexec_load": 246, "shmget": 29,
                      "process_vm_readv": 310, "pidfd_getfd": 438, "personality": 135, "flock": 73, "unknown": 9999},
           "aarch64": {"keyctl": 219, "add_key": 217, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "ptrace": 117,
                       "mount": 40, "pivot_root": 41, "chroot": 51, "io_uring_setup": 425, "memfd_create": 279,
                       "open_by_handle_at": 265, "fsopen": 430, "clone3": 435, "kexec_load": 104, "shmget": 194,
                       "process_vm_readv": 270, "pidfd_getfd": 438, "personality": 92, "flock": 32, "unknown": 9999}}
opened += [name for name, number in numbers[platform.machine()].items() if not refused(number, 0, 0, 0, 0, 0, 0)]
""",
    ),
    Escape(
        "limits: a limit of a process is missing or can be raised",
        """
import resource
unlimited = [name for name in ("CPU", "AS", "FSIZE", "NOFILE", "NPROC") if
             resource.getrlimit(getattr(resource, "RLIMIT_" + name))[1] == resource.RLIM_INFINITY]
opened += unlimited + (["CORE"] if resource.getrlimit(resource.RLIMIT_CORE) != (0, 0) else [])
try:
    resource.setrlimit(resource.RLIMIT_NPROC, (resource.RLIM_INFINITY,) * 2)
    opened.append("raised")
except (ValueError, OSError):
    pass
""",
    ),
    Escape(
        "process count: processes are made without bound",
        """
import os, resource, time
allowed = resource.getrlimit(resource.RLIMIT_NPROC)[0]
for count in range(allowed + 2):
    try:
        if os.fork() == 0:
            time.sleep(60)
    except BlockingIOError:
        break
else:
    opened.append(str(allowed))
""",
    ),
    Escape(
        "memory: many processes hold more together than one may",
        """
import os, time
for _ in range(3):
    if os.fork() == 0:
        held = bytearray(os.urandom(1 << 20)) * 40
        time.sleep(60)
time.sleep(60)
""",
        dies_of=("memory",),
        limits={"memory_mib": 96},
    ),
    Escape(
        "work folder: it takes more bytes than its size",
        """
import errno
try:
    for number in range(1 << 20):
        with open(f"/tmp/{number}", "wb") as file:
            file.write(bytes(1 << 20))
    opened.append("size")
except OSError as error:
    opened += [] if error.errno == errno.ENOSPC else [str(error.errno)]
""",
        limits={"work_mib": 4, "file_mib": 2},
    ),
    Escape(
        "work folder: it takes files without bound",
        """
import time
for number in range(200):
    open(f"/tmp/{number}", "w").close()
time.sleep(60)
""",
        dies_of=("files",),
        limits={"work_files": 100},
    ),
    Escape(
        "wall clock: a program outlives its time",
        """
import signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
time.sleep(60)
""",
        dies_of=("wall clock",),
        limits=_SECOND,
    ),
    Escape(
        "output: a program prints without bound",
        """
while True:
    print("x" * 65536)
""",
        dies_of=("output",),
        limits={"output_bytes": 1024},
    ),
)


async def open_ways(attempt: Attempt, limits: Limits) -> list[str]:
    """The wall of each escape that succeeded; all are tried at once, as far as there are slots."""
    found = await asyncio.gather(*(escape.is_open(attempt, limits) for escape in ESCAPES))
    return [escape.wall for escape, is_open in zip(ESCAPES, found, strict=True) if is_open]
