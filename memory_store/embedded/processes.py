"""A killed supervisor leaves its Postgres running, and a killed Postgres leaves a pid file whose number may
belong to anyone by now: deciding by the number alone ends a stranger, or starts a second server on the same
files.

Our servers therefore carry their data folder's identity in `cluster_name`, which Postgres shows in the
command line of each of its processes. Command lines are read, not working directories: those of another user
are closed to the root of an ordinary container.
"""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from memory_store.embedded import errors

NAME_PREFIX = "recall-serve-"
IMMEDIATE_STOP_SECONDS = 15.0
LOOK_EVERY_SECONDS = 0.05
PID_LINE, STATUS_LINE = 0, 7  # of postmaster.pid


@dataclass(frozen=True)
class ClusterProcesses:
    """The processes of the one Postgres whose data lies in `data_dir`, run by the user `uid`."""

    data_dir: Path
    uid: int
    cluster_name: str

    @classmethod
    def of(cls, data_dir: Path, uid: int) -> Self:
        """Named by device and inode, so that the name stays right when the folder is moved or mounted
        elsewhere.
        """
        status = data_dir.stat()
        return cls(data_dir, uid, f"{NAME_PREFIX}{status.st_dev:x}-{status.st_ino:x}.")

    def pids(self) -> set[int]:
        mine = (pid for pid in _pids_of(self.uid) if self.cluster_name in _title(pid))
        return {pid for pid in mine if _is_postgres(pid)}

    def end(self, fast_seconds: float) -> None:
        """Fast shutdown (sessions are cut, all is written), and after `fast_seconds` an immediate one, which
        the next start recovers from without loss.

        Raises DidNotStop.
        """
        postmaster = self._recorded_pid()
        if postmaster in self.pids():
            _send(postmaster, signal.SIGINT)
            self._gone_within(fast_seconds)
        for pid in self.pids():  # also sessions whose postmaster was killed
            _send(pid, signal.SIGQUIT)
        if not self._gone_within(IMMEDIATE_STOP_SECONDS):
            raise errors.DidNotStop(", ".join(map(str, sorted(self.pids()))))

    def drop_stale_pid_file(self) -> None:
        """Postgres clears a dead pid itself, with better checks, but refuses to start when the pid is a
        stranger's.
        """
        pid = self._recorded_pid()
        if pid is not None and _exists(pid) and _is_stranger(pid, self.cluster_name):
            self._pid_file.unlink()

    def ready(self, pid: int) -> bool:
        """Whether that postmaster has written that it takes connections, as pg_ctl asks it.

        Connecting to find out would put a line into the log each time while a recovery lasts.
        """
        return self._recorded_pid() == pid and self._recorded(STATUS_LINE) == "ready"

    @property
    def _pid_file(self) -> Path:
        return self.data_dir / "postmaster.pid"

    def _recorded_pid(self) -> int | None:
        number = self._recorded(PID_LINE).removeprefix("-")  # negative in single-user mode
        return int(number) if number.isdecimal() else None

    def _recorded(self, line: int) -> str:
        """A line of the pid file; empty while there is none."""
        try:
            lines = self._pid_file.read_bytes().decode("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return ""
        return lines[line].strip() if line < len(lines) else ""

    def _gone_within(self, seconds: float) -> bool:
        """Looks again and again: the processes need not be our children, so nothing tells of their end."""
        deadline = time.monotonic() + seconds
        while self.pids():
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_EVERY_SECONDS)
        return True


def _pids_of(uid: int) -> list[int]:
    entries = (entry for entry in os.scandir("/proc") if entry.name.isdecimal())
    return [int(entry.name) for entry in entries if _owner(entry) == uid]


def _owner(entry: os.DirEntry[str]) -> int | None:
    try:
        return entry.stat().st_uid
    except (FileNotFoundError, ProcessLookupError):
        return None


def _is_stranger(pid: int, cluster_name: str) -> bool:
    """A Postgres that is not one of ours may have been started on our folder by hand: that one is no
    stranger.

    One without a command line has ended and was not waited for by its parent.
    """
    title = _title(pid)
    ours_of_another_folder = NAME_PREFIX in title and cluster_name not in title
    return not _is_postgres(pid) or not title or ours_of_another_folder


def _is_postgres(pid: int) -> bool:
    return _read(pid, "comm").strip() == "postgres"


def _title(pid: int) -> str:
    return _read(pid, "cmdline")


def _read(pid: int, name: str) -> str:
    """Empty for a process that has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().decode("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _send(pid: int | None, signal_number: signal.Signals) -> None:
    try:
        if pid is not None:
            os.kill(pid, signal_number)
    except ProcessLookupError:
        pass
