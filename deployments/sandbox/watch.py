"""What no limit of the kernel bounds: the memory of a whole tree of processes, and how many files a memory file system holds.

A control group would bound the first, but few containers let a service make one. So the launcher looks, forty times a second.
It is the host's side of the user namespace that it made, so it may look even where the service itself may not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

_PAGE_BYTES = os.sysconf("SC_PAGESIZE")


class Watch:
    """Looks at one run."""

    def __init__(self, monitor: int, memory_bytes: int, work_bytes: int, work_files: int) -> None:
        self._monitor, self._memory_bytes, self._work_files = monitor, memory_bytes, work_files
        self._work_bytes = work_bytes
        self._host_root = _identity("/")

    def breach(self) -> str | None:
        """Which bound is passed: `memory`, `files`, or none."""
        pids = list(descendants(self._monitor))
        work_bytes, work_files = self._work(pids)
        if work_files > self._work_files:
            return "files"
        return "memory" if self._too_much(pids, work_bytes) else None

    def _too_much(self, pids: list[int], work_bytes: int) -> bool:
        """The cheap sum counts a page once for each process that shares it, so only the exact one convicts."""
        if sum(map(_resident_bytes, pids)) + work_bytes <= self._memory_bytes:
            return False
        return sum(map(_share_bytes, pids)) + work_bytes > self._memory_bytes

    def _work(self, pids: list[int]) -> tuple[int, int]:
        """Bytes and files in the work folder; zeros until it is there."""
        if not pids:
            return 0, 0
        root = f"/proc/{pids[0]}/root"
        try:
            if _identity(root) == self._host_root:
                return 0, 0
            found = os.statvfs(f"{root}/tmp")  # noqa: S108 (the sandbox's own)
        except OSError:
            return 0, 0
        if not self._work_bytes <= found.f_blocks * found.f_frsize < self._work_bytes + _PAGE_BYTES:
            return 0, 0  # bubblewrap is still moving house
        return (found.f_blocks - found.f_bfree) * found.f_frsize, found.f_files - found.f_ffree


def descendants(pid: int) -> Iterator[int]:
    """Children before grandchildren; the first below bubblewrap's monitor is the sandbox's process 1."""
    level = children(pid)
    while level:
        yield from level
        level = [child for one in level for child in children(one)]


def children(pid: int) -> list[int]:
    """Those of all its threads."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 (as below)
    except OSError:
        return []
    return [int(word) for thread in threads for word in _read(f"/proc/{pid}/task/{thread}/children").split()]


def _resident_bytes(pid: int) -> int:
    return _kibibytes(f"/proc/{pid}/status", (b"RssAnon:", b"RssShmem:", b"VmSwap:"))


def _share_bytes(pid: int) -> int:
    exact = _kibibytes(f"/proc/{pid}/smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:"))
    return exact or _resident_bytes(pid)


def _kibibytes(path: str, names: tuple[bytes, ...]) -> int:
    return sum(1024 * int(line.split()[1]) for line in _read(path).splitlines() if line.startswith(names))


def _read(path: str) -> bytes:
    """Empty for a process that is gone, or that may not be looked into."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 (pathlib costs as much as the rest of the launcher's start)
            return file.read()
    except OSError:
        return b""


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116 (as above)
    return found.st_dev, found.st_ino
