import asyncio
import inspect
import os
import pickle
import secrets
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

from memory_store.embedded import EmbeddedPostgres
from memory_store.embedded import account as embedded_account
from memory_store.embedded import errors as embedded_errors
from memory_store.embedded import files as embedded_files
from tests.store.conftest import passable_folder

pytestmark = pytest.mark.timeout(120)
REPOSITORY = Path(__file__).parents[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as another account")


@pytest.fixture
def folder() -> Iterator[Path]:
    with passable_folder() as made:
        yield made


@pytest.fixture
def fresh(folder: Path) -> Iterator[EmbeddedPostgres]:
    """Not started, and stopped afterwards whatever the test did with it."""
    server = server_in(folder)
    yield server
    server.stop()


def server_in(folder: Path) -> EmbeddedPostgres:
    return EmbeddedPostgres(folder / "home" / "data", folder / "logs", deadline_seconds=60)


def fetch(server: EmbeddedPostgres, *statements: str, **changed: Any) -> Any:
    """Run statements in one session; returns the last one's first value."""

    async def session() -> Any:
        connection = await asyncpg.connect(**{**server.superuser_connection(), **changed})
        try:
            for statement in statements[:-1]:
                await connection.execute(statement)
            return await connection.fetchval(statements[-1])
        finally:
            await connection.close()

    return asyncio.run(session())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def owner(path: Path) -> int:
    return path.stat().st_uid


def family(pid: int) -> list[psutil.Process]:
    postmaster = psutil.Process(pid)
    return [postmaster, *postmaster.children(recursive=True)]


def gone(process: psutil.Process) -> bool:
    """Also when its parent, which may be the container's first process, has not waited for it yet."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def kill_postmaster(server: EmbeddedPostgres) -> int:
    """Returns its pid once it has ended; it is left for its parent, us, to wait for."""
    pid = server.postmaster_pid
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


# Starting and stopping


def test_data_outlives_a_restart(fresh: EmbeddedPostgres) -> None:
    fresh.start()
    fetch(fresh, "create table kept (value int)", "insert into kept values (7) returning value")
    fresh.stop()
    assert not fresh.running()
    fresh.start()
    assert fetch(fresh, "select value from kept") == 7


def test_stop_ends_every_process_and_removes_the_socket(fresh: EmbeddedPostgres) -> None:
    fresh.start()
    processes, socket_folder = family(fresh.postmaster_pid), Path(fresh.host)
    fresh.stop()
    assert all(map(gone, processes))
    assert list(socket_folder.iterdir()) == []


def test_starting_twice_and_stopping_twice_are_harmless(fresh: EmbeddedPostgres) -> None:
    fresh.start()
    pid = fresh.postmaster_pid
    fresh.start()
    assert fresh.postmaster_pid == pid
    fresh.stop()
    fresh.stop()


def test_what_only_a_started_server_has_is_refused_before(fresh: EmbeddedPostgres) -> None:
    with pytest.raises(embedded_errors.NotStarted):
        fresh.superuser_connection()


def test_stop_cuts_an_open_session_short(fresh: EmbeddedPostgres) -> None:
    async def stop_under_a_session() -> None:
        connection = await asyncpg.connect(**fresh.superuser_connection())
        await asyncio.to_thread(fresh.stop)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await connection.fetchval("select 1")

    fresh.start()
    began = time.monotonic()
    asyncio.run(stop_under_a_session())
    assert time.monotonic() - began < 15


def test_the_terminals_ctrl_c_does_not_reach_it(postgres: EmbeddedPostgres) -> None:
    assert os.getsid(postgres.postmaster_pid) != os.getsid(0)
    assert os.getpgid(postgres.postmaster_pid) != os.getpgid(0)


# After an accident


def test_committed_rows_survive_a_killed_postmaster(fresh: EmbeddedPostgres) -> None:
    fresh.start()
    fetch(fresh, "create table kept (value int)", "insert into kept select generate_series(1, 1000) returning 1")
    killed = kill_postmaster(fresh)
    fresh.start()
    assert fresh.postmaster_pid != killed
    assert fetch(fresh, "select count(*) from kept") == 1000


def test_a_session_busy_in_a_killed_postmaster_is_ended(fresh: EmbeddedPostgres) -> None:
    """Such a session notices the death only when its statement ends; no Postgres starts beside it."""

    async def kill_under_a_busy_session() -> None:
        connection = await asyncpg.connect(**fresh.superuser_connection())
        statement = "do $$ begin loop perform 1; end loop; end $$"
        busy = asyncio.create_task(connection.execute(statement))
        backend = psutil.Process(connection.get_server_pid())
        await asyncio.sleep(0)
        while backend.status() != psutil.STATUS_RUNNING:
            await asyncio.sleep(0.01)
        kill_postmaster(fresh)
        assert not gone(backend)
        await asyncio.to_thread(fresh.start)
        assert gone(backend)
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await busy

    fresh.start()
    asyncio.run(kill_under_a_busy_session())
    assert fetch(fresh, "select 1") == 1


def test_a_killed_supervisors_server_is_replaced_by_ours(folder: Path, fresh: EmbeddedPostgres) -> None:
    left_over = left_by_a_killed_supervisor(folder)
    fresh.start()
    assert gone(left_over)
    assert fresh.postmaster_pid != left_over.pid
    assert fetch(fresh, "select value from kept") == 7


def left_by_a_killed_supervisor(folder: Path) -> psutil.Process:
    program = (
        "import sys, time\n"
        "from tests.store.test_embedded import fetch, server_in, Path\n"
        "server = server_in(Path(sys.argv[1]))\n"
        "server.start()\n"
        "fetch(server, 'create table kept (value int)', 'insert into kept values (7) returning 1')\n"
        "print(server.postmaster_pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    supervisor = python(program, folder)
    assert supervisor.stdout is not None
    left_over = psutil.Process(int(supervisor.stdout.readline()))
    supervisor.kill()
    supervisor.communicate()
    assert not gone(left_over)
    return left_over


def python(program: str, *arguments: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, start_new_session=True)


@pytest.mark.parametrize("kind", ["ended", "stranger", "not waited for"])
def test_a_stale_pid_file_does_not_stop_a_start(fresh: EmbeddedPostgres, folder: Path, kind: str) -> None:
    fresh.start()
    pid_file = folder / "home" / "data" / "postmaster.pid"
    content = pid_file.read_text().split("\n", 1)[1]
    fresh.stop()
    with someone(kind, folder / "home") as pid:
        pid_file.write_text(f"{pid}\n{content}")
        os.chown(pid_file, owner(pid_file.parent), -1)
        fresh.start()
        assert fetch(fresh, "select 1") == 1


@contextmanager
def someone(kind: str, home: Path) -> Iterator[int]:
    """The pid of a process of Postgres' own account (another's would be no obstacle)."""
    account = embedded_account.unprivileged()
    postgres = embedded_files.binaries_for(account, home) / "postgres"
    commands: dict[str, list[str | Path]] = {
        "stranger": ["sleep", "600"],
        "not waited for": [postgres, "--version"],
    }
    process = account.spawn(commands.get(kind, ["true"]), output_fd=subprocess.DEVNULL)
    if kind != "stranger":
        os.waitid(os.P_PID, process.pid, os.WEXITED | (os.WNOWAIT if kind == "not waited for" else 0))
    yield process.pid
    assert kind != "stranger" or process.poll() is None, "the stranger was ended"
    process.kill()
    process.wait()


def test_an_interrupted_initdb_is_redone(folder: Path, fresh: EmbeddedPostgres) -> None:
    program = (
        "import sys\nfrom tests.store.test_embedded import server_in, Path\nserver_in(Path(sys.argv[1])).start()\n"
    )
    supervisor = python(program, folder)
    unfinished = wait_for(lambda: next(folder.glob("home/data.unfinished-*/PG_VERSION"), None))
    everyone = family(supervisor.pid)
    os.killpg(supervisor.pid, signal.SIGKILL)
    supervisor.communicate()
    psutil.wait_procs(everyone, timeout=10)
    assert unfinished.exists() and not (folder / "home" / "data").exists()

    fresh.start()
    assert fetch(fresh, "select 1") == 1
    assert list(folder.glob("home/data.unfinished-*")) == []


def wait_for(look: Callable[[], Path | None]) -> Path:
    while (found := look()) is None:
        time.sleep(0.005)
    return found


# What is refused


def test_a_second_supervisor_on_the_same_data_is_refused(folder: Path, fresh: EmbeddedPostgres) -> None:
    fresh.start()
    second = server_in(folder)
    with pytest.raises(embedded_errors.AlreadyInUse, match=rf"process {os.getpid()}\b"):
        second.start()
    second.stop()
    assert fresh.running() and fetch(fresh, "select 1") == 1


def test_another_major_versions_data_is_refused_untouched(folder: Path, fresh: EmbeddedPostgres) -> None:
    fresh.start()
    fresh.stop()
    version = folder / "home" / "data" / "PG_VERSION"
    version.write_text("17\n")
    with pytest.raises(embedded_errors.WrongMajorVersion, match="made by Postgres 17"):
        fresh.start()
    version.write_text("18\n")
    fresh.start()


def test_a_folder_that_holds_something_else_is_never_wiped(folder: Path, fresh: EmbeddedPostgres) -> None:
    precious = folder / "home" / "data" / "thesis.txt"
    precious.parent.mkdir(parents=True)
    precious.write_text("years of work")
    with pytest.raises(embedded_errors.FolderUnusable, match="not a database"):
        fresh.start()
    assert precious.read_text() == "years of work"


def test_a_home_that_cannot_be_made_is_one_clear_line(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(embedded_errors.FolderUnusable, match=r"file.* cannot be used: Not a directory") as caught:
        EmbeddedPostgres(folder / "file" / "home" / "data", folder / "logs").start()
    assert len(str(caught.value).splitlines()) == 1


def test_a_lost_password_is_said(folder: Path, fresh: EmbeddedPostgres) -> None:
    fresh.start()
    fresh.stop()
    embedded_files.password_file(folder / "home").unlink()
    with pytest.raises(embedded_errors.PasswordMissing):
        fresh.start()


def test_an_early_end_shows_the_log_and_frees_the_lock(folder: Path, fresh: EmbeddedPostgres) -> None:
    fresh.start()
    fresh.stop()
    with (folder / "home" / "data" / "postgresql.conf").open("a") as settings:
        settings.write("no_such_setting = 1\n")
    with pytest.raises(embedded_errors.DidNotStart, match=r"ended with status 1.*\n.*no_such_setting"):
        fresh.start()
    os.close(embedded_files.hold_lock(folder / "home"))


def test_a_start_that_takes_too_long_leaves_nothing_running(folder: Path, fresh: EmbeddedPostgres) -> None:
    fresh.start()
    fresh.stop()
    data_dir = folder / "home" / "data"
    (data_dir / "standby.signal").touch()  # a standby that waits for a primary is up, and never ready
    with (data_dir / "postgresql.conf").open("a") as settings:
        settings.write("hot_standby = off\n")
    hurried = EmbeddedPostgres(data_dir, folder / "logs", deadline_seconds=1)
    with pytest.raises(embedded_errors.DidNotStart, match=r"(?s)not ready within 1 s.*standby mode"):
        hurried.start()
    assert not [process for process in psutil.process_iter() if str(data_dir) in cmdline(process)]


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


# Who may connect, and from where


def test_a_wrong_password_is_refused(postgres: EmbeddedPostgres) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        fetch(postgres, "select 1", password="wrong")


def test_the_system_account_gets_no_free_entry(postgres: EmbeddedPostgres, folder: Path) -> None:
    """A role named like the operating system's account is what peer authentication would let in."""
    account = embedded_account.unprivileged()
    name = psutil.Process(postgres.postmaster_pid).username()
    role = f'"{name}"'
    fetch(postgres, f"drop role if exists {role}", f"create role {role} login superuser", "select 1")
    program = embedded_files.binaries_for(account, folder) / "psql"
    arguments = ["--no-password", "-h", postgres.host, "-U", name, "-d", "postgres", "-c", "select 1"]
    done = account.run([program, *arguments], timeout_seconds=30)
    fetch(postgres, f"drop role {role}", "select 1")
    assert done.returncode != 0 and "no password supplied" in done.stderr


def test_every_way_in_asks_for_scram(postgres: EmbeddedPostgres) -> None:
    methods = fetch(postgres, "select array_agg(distinct auth_method) from pg_hba_file_rules")
    assert methods == ["scram-sha-256"]
    stored = fetch(postgres, "select rolpassword from pg_authid where rolname = 'postgres'")
    assert stored.startswith("SCRAM-SHA-256$")


def test_only_a_unix_socket_is_listened_on(postgres: EmbeddedPostgres) -> None:
    held = {inode for process in family(postgres.postmaster_pid) for inode in socket_inodes(process.pid)}
    assert not held & inodes_in("tcp", "tcp6", "udp", "udp6")
    assert held & inodes_in("unix")


def socket_inodes(pid: int) -> set[str]:
    """Asked as Postgres' account: the root of an ordinary container may not look at another user's
    descriptors.
    """
    look = ["sh", "-c", f"readlink /proc/{pid}/fd/*"]
    links = embedded_account.unprivileged().run(look, timeout_seconds=30).stdout.split()
    return {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}


def inodes_in(*tables: str) -> set[str]:
    return {word for table in tables for word in Path("/proc/net", table).read_text().split() if word.isdecimal()}


def test_secrets_socket_and_data_are_closed_to_others(postgres: EmbeddedPostgres) -> None:
    home = Path(postgres.host).parent
    closed = {
        home / "secrets": 0o700,
        home / "run": 0o700,
        home / "data": 0o700,
        home / "postgres.lock": 0o600,
    }
    closed |= {embedded_files.password_file(home): 0o600, home / "logs" / "postgres.log": 0o600}
    assert {path: oct(mode(path)) for path in closed} == {path: oct(wanted) for path, wanted in closed.items()}
    assert owner(home / "secrets") == owner(embedded_files.password_file(home)) == os.geteuid()
    assert owner(home / "run") == owner(home / "data") == psutil.Process(postgres.postmaster_pid).uids().real


def test_no_process_shows_the_password(postgres: EmbeddedPostgres) -> None:
    password = postgres.superuser_connection()["password"]
    assert len(password) >= 32
    assert not [process for process in family(postgres.postmaster_pid) if password in " ".join(process.cmdline())]
    assert password not in repr(vars(postgres))


@needs_root
def test_postgres_is_never_root_and_has_no_groups_of_root(postgres: EmbeddedPostgres) -> None:
    process = psutil.Process(postgres.postmaster_pid)
    status = Path(f"/proc/{process.pid}/status").read_text()
    assert process.username() == embedded_account.SYSTEM_ACCOUNT
    assert 0 not in process.uids() and 0 not in process.gids()
    assert "\nGroups:\t \n" in status


@needs_root
def test_a_package_the_account_cannot_reach_is_copied_once(
    folder: Path, fresh: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = embedded_files.package_folder()
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    for name in (embedded_files.PACKAGE, embedded_files.LIBRARIES):
        (closed / name).symlink_to(real.parent / name)
    monkeypatch.setattr(embedded_files, "package_folder", lambda: closed / embedded_files.PACKAGE)
    fresh.start()
    [copy] = (folder / "home").glob("postgres-18-*")
    assert psutil.Process(fresh.postmaster_pid).cmdline()[0].startswith(f"{copy}/")
    assert owner(copy) == 0 and fetch(fresh, "create extension vector", "select 1") == 1
    made_at = copy.stat().st_ctime_ns
    fresh.stop()
    fresh.start()
    assert copy.stat().st_ctime_ns == made_at


@needs_root
def test_a_home_the_account_cannot_enter_is_one_clear_line(folder: Path) -> None:
    folder.chmod(0o700)
    with pytest.raises(embedded_errors.FolderUnusable, match="runs as recall-serve"):
        server_in(folder).start()


def test_an_interrupted_copy_of_the_binaries_is_redone_and_readable(folder: Path) -> None:
    package, target = embedded_files.package_folder(), folder / "postgres-18-test"
    (folder / "postgres-18-test.unfinished" / "half").mkdir(parents=True)
    previous_umask = os.umask(0o077)
    try:
        programs = embedded_files.copy_binaries(package, target)
    finally:
        os.umask(previous_umask)
    closed = [path for path in target.rglob("*") if not mode(path) & stat.S_IROTH]
    assert closed == [] and [path.name for path in folder.iterdir()] == [target.name]
    done = embedded_account.unprivileged().run([programs / "initdb", "--version"], timeout_seconds=30)
    assert "(PostgreSQL) 18" in done.stdout


def test_a_long_path_gets_a_short_closed_socket_folder(folder: Path) -> None:
    server = EmbeddedPostgres(folder / ("long" * 25) / "data", folder / "logs")
    with server:
        socket_folder = Path(server.host)
        assert len(str(socket_folder / embedded_files.SOCKET_NAME)) <= embedded_files.SOCKET_PATH_MAX_BYTES
        assert mode(socket_folder) == 0o700
        assert fetch(server, "select 1") == 1
    assert not socket_folder.exists()


@pytest.mark.parametrize("name", ["two words", 'a "quote"', "a,comma", "čvor"])
def test_an_unusual_path_is_fine(folder: Path, name: str) -> None:
    with EmbeddedPostgres(folder / name / "data", folder / "logs") as server:
        assert fetch(server, "select 1") == 1


# What it can do, and what it must not tell


def test_halfvec_works(postgres: EmbeddedPostgres) -> None:
    database = f"vectors_{secrets.token_hex(4)}"
    fetch(postgres, f"create database {database}", "select 1")
    distance = fetch(
        postgres,
        "create extension vector",
        "create table vectors (vector halfvec(384))",
        "insert into vectors select array_fill(0.5::real, array[384])::halfvec",
        "select vector <=> array_fill(1::real, array[384])::halfvec(384) from vectors",
        database=database,
    )
    assert distance == pytest.approx(0, abs=1e-6)
    with pytest.raises(asyncpg.DataError, match="expected 384 dimensions"):
        fetch(postgres, "insert into vectors values ('[1,2]') returning 1", database=database)
    fetch(postgres, f"drop database {database}", "select 1")


def test_letters_fold_beyond_ascii(postgres: EmbeddedPostgres) -> None:
    assert fetch(postgres, "select lower('ČEVAPČIĆI')") == "čevapčići"


@pytest.mark.parametrize("setting", ["data_checksums", "fsync"])
def test_data_is_guarded(postgres: EmbeddedPostgres, setting: str) -> None:
    assert fetch(postgres, f"show {setting}") == "on"


@pytest.mark.parametrize(
    "statement",
    [
        "select '{marker}'::int",
        "{marker} 1",
        "select * from {marker}",
        "do $$ begin raise warning '{marker}'; end $$",
        "insert into once values ('{marker}'), ('{marker}')",
        "insert into once values ('{marker}' || repeat('x', 1000))",
        "do $$ begin perform '{marker}'::int; end $$",
    ],
)
def test_a_failed_statement_leaves_no_word_in_the_log(postgres: EmbeddedPostgres, statement: str) -> None:
    marker = f"marker{secrets.token_hex(8)}"
    table = "create temp table once (value text primary key check (length(value) < 500))"
    try:
        fetch(postgres, table, statement.replace("{marker}", marker))
        failed = False
    except asyncpg.PostgresError as error:
        failed = marker in str(error.as_dict())
    assert failed or "raise warning" in statement
    logs = Path(postgres.host).parent / "logs"
    assert not [path for path in logs.rglob("*") if marker in path.read_text()]


def test_a_bound_parameter_that_fails_leaves_no_word_in_the_log(postgres: EmbeddedPostgres) -> None:
    async def fail(marker: str) -> None:
        connection = await asyncpg.connect(**postgres.superuser_connection())
        with pytest.raises(asyncpg.DataError, match=marker):
            await connection.fetchval("select ($1::text)::int", marker)
        await connection.close()

    marker = f"marker{secrets.token_hex(8)}"
    asyncio.run(fail(marker))
    assert marker not in (Path(postgres.host).parent / "logs" / "postgres.log").read_text()


def test_the_log_does_tell_of_starts(postgres: EmbeddedPostgres) -> None:
    """Guards the two tests above: a log that nothing reaches would pass them."""
    log = (Path(postgres.host).parent / "logs" / "postgres.log").read_text()
    assert "ready to accept connections" in log


def test_activity_shows_no_statement(postgres: EmbeddedPostgres) -> None:
    shown = fetch(postgres, "select string_agg(query, ' ') from pg_stat_activity where pid = pg_backend_pid()")
    assert "pg_stat_activity" not in (shown or "")


# Errors


@pytest.mark.parametrize("kind", embedded_errors.EmbeddedPostgresError.__subclasses__())
def test_errors_survive_pickling(kind: type[embedded_errors.EmbeddedPostgresError]) -> None:
    error = kind(*(f"<{name}>" for name in inspect.signature(kind).parameters))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind and copy.args == error.args and str(copy) == str(error)
    assert all(argument in str(error) for argument in error.args)
