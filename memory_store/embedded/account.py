"""Postgres refuses to run as root, and the first process of a container usually is root.

An ordinary user runs Postgres as itself. Root runs it as an unprivileged system account, made once, that owns
the data and the socket folder and nothing else.
"""

import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from memory_store.embedded import errors

SYSTEM_ACCOUNT = "recall-serve"
# Not ours: PGPORT, PGDATA, PGOPTIONS or LD_LIBRARY_PATH of the caller would change what the commands do.
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
USERADD_SECONDS = 30.0


class _Identity(TypedDict):
    user: int | None
    group: int | None
    extra_groups: list[int] | None


@dataclass(frozen=True)
class Account:
    """Whom Postgres runs as."""

    name: str
    uid: int
    gid: int

    def run(
        self, command: Sequence[str | Path], *, timeout_seconds: float, pass_fds: Sequence[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end as this account; a failing exit status is the caller's to read."""
        return subprocess.run(  # noqa: S603 (every command is ours, and no shell reads it)
            command,
            check=False,
            **self._identity(),
            cwd="/",
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_seconds,
            pass_fds=pass_fds,
        )

    def spawn(self, command: Sequence[str | Path], *, output_fd: int) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own.

        A terminal sends Ctrl-C to its whole foreground group, and Postgres would answer with a fast shutdown
        before the service in front of it has drained.
        """
        return subprocess.Popen(  # noqa: S603 (as above)
            command,
            **self._identity(),
            cwd="/",
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=output_fd,
            stderr=output_fd,
            start_new_session=True,
        )

    def own(self, folder: Path) -> None:
        """Give a folder to this account, closed (0700) to everyone else but root."""
        folder.chmod(0o700)
        if not self._is_us():
            os.chown(folder, self.uid, self.gid)

    def owns(self, folder: Path) -> bool:
        """Whether this account can reach the folder and owns it, asked of the kernel as that account."""
        command = ["test", "-O", str(folder), "-a", "-w", str(folder)]
        return self.run(command, timeout_seconds=10).returncode == 0

    def _identity(self) -> _Identity:
        if self._is_us():
            return {"user": None, "group": None, "extra_groups": None}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def _is_us(self) -> bool:
        return self.uid == os.geteuid()


def unprivileged() -> Account:
    """The account for Postgres; as root it is made when missing.

    Raises AccountUnavailable.
    """
    if os.geteuid() != 0:
        return Account("this user", os.geteuid(), os.getegid())
    return _find() or _make()


def _find() -> Account | None:
    try:
        entry = pwd.getpwnam(SYSTEM_ACCOUNT)
    except KeyError:
        return None
    if entry.pw_uid == 0:
        raise errors.AccountUnavailable(SYSTEM_ACCOUNT, "an account of that name exists and is root")
    return Account(SYSTEM_ACCOUNT, entry.pw_uid, entry.pw_gid)


def _make() -> Account:
    reason = _useradd()
    account = _find()  # also found when another supervisor made it meanwhile
    if account is None:
        raise errors.AccountUnavailable(SYSTEM_ACCOUNT, reason)
    return account


def _useradd() -> str:
    """Returns what useradd complained about, empty when it did not."""
    options = ["--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"]
    root = Account("root", os.geteuid(), os.getegid())
    try:
        return root.run(["useradd", *options, SYSTEM_ACCOUNT], timeout_seconds=USERADD_SECONDS).stderr.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
