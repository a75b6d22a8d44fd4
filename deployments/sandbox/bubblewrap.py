"""The walls as bubblewrap's options.

They travel through a descriptor: the command line of a process is public inside the sandbox, and a program that stood among
the options could be read as one. Two walls are there because bubblewrap's own do not suffice: /proc/sys is bound read-only
(bubblewrap looks only at the folder), and what it builds the root of is read-only at last, since that memory has no bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from deployments.sandbox.limits import Limits
from deployments.sandbox.room import PYTHON, Room

PROGRAM = "/program.py"
ENVIRONMENT = {"PATH": "/usr/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}  # noqa: S108 (the sandbox's own)
# -I: no environment, no user's packages, no folder on the path. -B: nothing can be written beside a module.
# -u: what was printed before a kill is seen. `site` stays on for `exit()`; the packages it looks for are hidden.
COMMAND = (PYTHON, "-I", "-B", "-u", "-X", "utf8", PROGRAM)
_DEVICES = ("null", "zero", "full", "random", "urandom")
_NOBODY = "65534"


@dataclass(frozen=True)
class Descriptors:
    """What bubblewrap reads from and writes to; it closes them before the program starts."""

    program: int
    status: int
    hold: int
    """Read until something comes; the program starts after that."""
    filters: tuple[int, ...]


def arguments(room: Room, limits: Limits, descriptors: Descriptors) -> list[str]:
    """Bubblewrap's options, in the order in which they take effect; the command follows on its command line."""
    return [
        *_NAMESPACES,
        *_environment(),
        *_interpreter(room),
        *_proc(room),
        *_devices(),
        *("--size", str(limits.work_bytes), "--perms", "0700", "--tmpfs", "/tmp"),  # noqa: S108
        *("--perms", "0444", "--file", str(descriptors.program), PROGRAM),
        *("--remount-ro", "/", "--chdir", "/tmp"),  # noqa: S108
        *("--json-status-fd", str(descriptors.status), "--block-fd", str(descriptors.hold)),
        *(word for one in descriptors.filters for word in ("--add-seccomp-fd", str(one))),
    ]


_NAMESPACES = (
    *("--unshare-user", "--disable-userns", "--uid", _NOBODY, "--gid", _NOBODY),
    *("--unshare-pid", "--unshare-ipc", "--unshare-net", "--unshare-cgroup"),
    *("--unshare-uts", "--hostname", "sandbox"),
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
)


def _environment() -> list[str]:
    return ["--clearenv", *(word for name, value in ENVIRONMENT.items() for word in ("--setenv", name, value))]


def _interpreter(room: Room) -> list[str]:
    return [word for bind in room.binds for word in ("--ro-bind", str(bind.source), bind.target)]


def _proc(room: Room) -> list[str]:
    """A fresh /proc without what tells about the host. The folders that hide are empty and as read-only as the root."""
    folders = [word for folder in room.hidden_folders for word in ("--tmpfs", folder, "--remount-ro", folder)]
    files = [word for file in room.hidden_files for word in ("--ro-bind", "/dev/null", file)]
    return ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", *folders, *files]


def _devices() -> list[str]:
    """Five devices that do nothing, and POSIX semaphores in the work folder, where they count."""
    links = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "shm": "/tmp"}  # noqa: S108
    return [
        *(word for name in _DEVICES for word in ("--dev-bind", f"/dev/{name}", f"/dev/{name}")),
        *(word for name, target in links.items() for word in ("--symlink", target, f"/dev/{name}")),
    ]
