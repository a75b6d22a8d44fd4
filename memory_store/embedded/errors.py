"""What can go wrong with the embedded Postgres, each as one sentence for the person who typed `make up`.

EmbeddedPostgresError
├── BinariesMissing     the package that carries Postgres is not installed, or carries another version
├── AccountUnavailable  root has no unprivileged account to run Postgres as
├── FolderUnusable      a folder cannot be made, entered or written, or holds something else
├── WrongMajorVersion   the data was made by another major version
├── PasswordMissing     the data is there, its password is not
├── AlreadyInUse        another supervisor holds the same data
├── DidNotInitialise    initdb failed
├── DidNotStart         Postgres ended, or was not ready in time
├── DidNotStop          a process outlived its shutdown
└── NotStarted          asked for what only a started server has

Constructor arguments are positional and equal to what `super()` gets, so that every class survives pickling.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class EmbeddedPostgresError(Exception):
    """The base: catch this one to catch all of them."""


class BinariesMissing(EmbeddedPostgresError):
    def __init__(self, package: str, looked_for: str) -> None:
        super().__init__(package, looked_for)

    def __str__(self) -> str:
        return f"the package {self.args[0]} with {self.args[1]} is not installed"


class AccountUnavailable(EmbeddedPostgresError):
    def __init__(self, account: str, reason: str) -> None:
        super().__init__(account, reason)

    def __str__(self) -> str:
        return (
            f"Postgres never runs as root, and the system account {self.args[0]} could not be made "
            f"({self.args[1]}): make it, or start as an ordinary user"
        )


class FolderUnusable(EmbeddedPostgresError):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)

    def __str__(self) -> str:
        return f"{self.args[0]} cannot be used: {self.args[1]}"


class WrongMajorVersion(EmbeddedPostgresError):
    def __init__(self, data_dir: str, found: str, wanted: str) -> None:
        super().__init__(data_dir, found, wanted)

    def __str__(self) -> str:
        data_dir, found, wanted = self.args
        return f"{data_dir} was made by Postgres {found}, this is {wanted}: dump it there and restore it here"


class PasswordMissing(EmbeddedPostgresError):
    def __init__(self, path: str) -> None:
        super().__init__(path)

    def __str__(self) -> str:
        return f"the database exists but its password file {self.args[0]} is gone: restore it from a backup"


class AlreadyInUse(EmbeddedPostgresError):
    def __init__(self, lock: str, holder: str) -> None:
        super().__init__(lock, holder)

    def __str__(self) -> str:
        lock, holder = self.args
        return f"another recall-serve (process {holder}) already runs on this data and holds {lock}"


class DidNotInitialise(EmbeddedPostgresError):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)

    def __str__(self) -> str:
        return f"the database could not be made: {self.args[0]}"


class DidNotStart(EmbeddedPostgresError):
    def __init__(self, reason: str, log_tail: str) -> None:
        super().__init__(reason, log_tail)

    def __str__(self) -> str:
        reason, log_tail = self.args
        return f"Postgres {reason}; its log ends:\n{log_tail}" if log_tail else f"Postgres {reason}"


class DidNotStop(EmbeddedPostgresError):
    def __init__(self, pids: str) -> None:
        super().__init__(pids)

    def __str__(self) -> str:
        return f"Postgres does not stop; these processes remain: {self.args[0]}"


class NotStarted(EmbeddedPostgresError):
    def __init__(self, wanted: str) -> None:
        super().__init__(wanted)

    def __str__(self) -> str:
        return f"the embedded Postgres has no {self.args[0]} before it is started"


@contextmanager
def translated(folder: Path) -> Iterator[None]:
    """The one border where foreign errors become ours; `folder` is named when the error names no path."""
    try:
        yield
    except OSError as error:
        path = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else str(folder)
        raise FolderUnusable(path, error.strerror or str(error)) from error
    except subprocess.TimeoutExpired as error:
        raise DidNotStart(f"kept {error.cmd[0]} waiting for {error.timeout:g} s", "") from error
    except subprocess.SubprocessError as error:
        raise DidNotStart(f"could not be run: {error}", "") from error
