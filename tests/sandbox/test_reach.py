"""What a program can see, speak to and ask the kernel for. Each tries, and prints what it got; it should print nothing."""

from __future__ import annotations

import os
import platform
import socket
import sys
from pathlib import Path

import pytest

from deployments.sandbox import seccomp
from deployments.sandbox.run import Sandbox
from tests.sandbox.conftest import Runs, programs

TRY = """
import ctypes, errno, fcntl, os, resource, signal, socket, stat, sys, time
libc = ctypes.CDLL(None, use_errno=True)

def denied(number, *arguments, errors=("EPERM", "ENOSYS")):
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    name = errno.errorcode.get(ctypes.get_errno(), "ok")
    if done != -1 or name not in errors:
        print(number, done, name)

def fails(attempt, *errors):
    try:
        print("worked:", attempt())
    except OSError as error:
        name = errno.errorcode.get(error.errno, str(error))
        if errors and name not in errors:
            print(name, error)
"""
X86 = platform.machine() == "x86_64"

REACHES = programs(
    r"""
# X11-tcp-loopback
fails(lambda: socket.create_connection(('127.0.0.1', 80), 1))

# X11-udp-metadata
fails(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('169.254.169.254', 80)))

# X11-ipv6
fails(lambda: socket.create_connection(('::1', 80), 1))

# X11-names
fails(lambda: socket.getaddrinfo('example.com', 80))

# X11-interfaces
print(*[one for one in open('/proc/net/dev').read().split() if one.endswith(':') and one != 'lo:'], sep='')

# X12-socket-files
print(*[os.path.join(at, name) for at, _, names in os.walk('/') if not at.startswith('/proc')
    for name in names if stat.S_ISSOCK(os.lstat(os.path.join(at, name)).st_mode)], sep='')

# X14-every-family
for family in range(2, 64): fails(lambda: socket.socket(family, socket.SOCK_DGRAM), 'EAFNOSUPPORT', 'EPERM')

# X14-raw-and-sctp
for kind, proto in ((3, 255), (3, 1), (1, 132), (2, 1)):
    fails(lambda: socket.socket(2, kind, proto), 'EAFNOSUPPORT', 'EPERM')

# X14-pairs
for family in (2, 16, 30, 40): fails(lambda: socket.socketpair(family), 'EAFNOSUPPORT', 'EPERM')

# X15-secrets
for path in ('/etc/shadow', '/etc/passwd', '/root', '/home', '/work', '/var', '/run', '/sys', '/opt', '/srv'):
    fails(lambda: os.stat(path), 'ENOENT')

# X15-environ-of-1
print(open('/proc/1/environ').read(), end='')

# X15-root-of-1
print(*set(os.listdir('/proc/1/root')) - set(os.listdir('/')), sep='')
print(*set(os.listdir('/proc/1/cwd')) - set(os.listdir('/')) - set(os.listdir('/tmp')), sep='')

# X15-descriptors-of-others
for pid in (one for one in os.listdir('/proc') if one.isdigit()):
    for fd in os.listdir(f'/proc/{pid}/fd'):
        try: name = os.readlink(f'/proc/{pid}/fd/{fd}')
        except OSError: continue
        if not name.startswith(('pipe:', 'anon_inode:', '/dev/null', '/proc/')): print(pid, name)

# X15-siblings-of-the-library
folder = os.path.dirname(os.__file__) + '/site-packages'
print(*os.listdir(folder) if os.path.exists(folder) else (), sep='')

# X17-kernel-settings
for at, _, names in os.walk('/proc/sys'):
    for name in names:
        if os.access(os.path.join(at, name), os.W_OK): print(at, name)

# X17-proc-and-sys
for path in ('/sys', '/proc/sysrq-trigger', '/proc/irq', '/proc/acpi', '/proc/fs', '/proc/bus', '/proc/kcore'):
    if os.path.exists(path) and os.access(path, os.W_OK) and not os.path.samefile(path, '/dev/null'): print(path)

# X17-oom-score
fails(lambda: os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-1000'), 'EACCES', 'EPERM')

# X17-id-maps
for name in ('uid_map', 'gid_map'):
    fails(lambda: os.write(os.open('/proc/self/' + name, os.O_WRONLY), b'0 0 1'), 'EACCES', 'EPERM')

# X18-host-in-proc
for name in ('kcore', 'kallsyms', 'cmdline', 'keys', 'key-users', 'config.gz', 'timer_list', 'interrupts',
             'partitions', 'kmsg'):
    if os.path.exists('/proc/' + name): fails(lambda: open('/proc/' + name, 'rb').read(100), 'EACCES', 'EPERM')

# X18-hostname
print('' if socket.gethostname() == 'sandbox' else 'host', end='')

# X18-network-tables
print(*open('/proc/net/unix').read().splitlines()[1:], *open('/proc/net/route').read().splitlines()[1:], sep='')

# X19-inherited
for fd in range(3, 256): fails(lambda: os.fstat(fd), 'EBADF')

# X20-terminal
import termios
for fd in range(3): fails(lambda: fcntl.ioctl(fd, termios.TIOCSTI, b'x'), 'EPERM')
fails(lambda: os.open('/dev/tty', os.O_RDWR))
fails(lambda: os.open('/dev/ptmx', os.O_RDWR))

# X21-host-pids
for pid in {host_pids}: fails(lambda: os.kill(pid, 0), 'ESRCH')

# X21-sees-itself-alone
print(*[pid for pid in os.listdir('/proc') if pid.isdigit() and int(pid) > 9], sep='')

# X21-kills-all
os.fork() or time.sleep(60)
try: os.kill(-1, signal.SIGKILL)
except OSError as error: print(error)

# X22-other-programs
print(*[name for at, _, names in os.walk('/usr/bin') for name in names if name != 'python3'], sep='')
for name in ('su', 'sudo', 'mount', 'ping', 'newuidmap', 'sh'): fails(lambda: os.execvp(name, [name]), 'ENOENT')

# X22-set-uid-files
for at, _, names in os.walk('/'):
    if not at.startswith('/proc'):
        for name in names:
            if os.lstat(os.path.join(at, name)).st_mode & 0o6000: print(at, name)

# X22-status
for line in open('/proc/self/status'):
    name, value = line.split(':', 1)
    if name.startswith('Cap') and int(value, 16): print(line)
    if (name, value.strip()) in (('NoNewPrivs', '0'), ('Seccomp', '0')): print(line)

# X22-becomes-root
for call in (os.setuid, os.setgid, os.seteuid): fails(lambda: call(0), 'EPERM', 'EINVAL')
fails(lambda: os.setgroups([0]), 'EPERM')

# X23-unshare
for bit in (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
    denied({unshare}, bit)

# X23-clone
for bit in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
    denied({clone}, bit | 17, 0, 0, 0, 0)

# X23-clone3
denied(435, 0, 0)

# X23-setns
denied({setns}, 0, 0)

# X31-devices
fails(lambda: os.mknod('/tmp/device', stat.S_IFCHR | 0o600, os.makedev(1, 1)), 'EPERM')

# X31-link-out
os.symlink('/etc/passwd', '/tmp/out')
fails(lambda: open('/tmp/out').read(), 'ENOENT')
fails(lambda: os.link('/usr/bin/python3', '/tmp/python3'), 'EXDEV', 'EPERM', 'EROFS')

# X43-clock
fails(lambda: time.clock_settime(time.CLOCK_REALTIME, 0), 'EPERM', 'ENOSYS')

# X44-own-memory
import _ctypes
fails(lambda: os.write(os.open('/usr/bin/python3', os.O_RDWR), b'x'))
denied({ptrace}, 16, 1, 0, 0)
fails(lambda: os.open('/proc/1/mem', os.O_RDWR) * 0 or open('/etc/passwd'), 'ENOENT', 'EACCES', 'EPERM')

# X44-loader
import glob, subprocess
for loader in glob.glob('/lib*/ld-*'):
    done = subprocess.run([loader, '/usr/bin/python3', '-c', 'open("/etc/passwd")'], capture_output=True)
    if done.returncode == 0: print(loader)

# X44-exec-from-tmp
import shutil, subprocess
shutil.copy('/usr/bin/python3', '/tmp/p')
done = subprocess.run(['/tmp/p', '-c', 'import os; print(os.getuid())'], capture_output=True, text=True)
if done.returncode == 0 and done.stdout.strip() != '65534': print(done.stdout)

# X44-preload
os.environ['LD_PRELOAD'] = '/tmp/none.so'
import subprocess
reads = [sys.executable, '-c', 'open("/etc/passwd")']
if subprocess.run(reads, capture_output=True).returncode == 0: print('read')

# X35-locks
fails(lambda: fcntl.flock(open('/program.py'), fcntl.LOCK_SH), 'EPERM')
fails(lambda: fcntl.flock(open(os.__file__), fcntl.LOCK_EX), 'EPERM')
fails(lambda: fcntl.fcntl(open(os.__file__), fcntl.F_GETLK, bytes(32)), 'EPERM')
fails(lambda: fcntl.fcntl(open(os.__file__), fcntl.F_SETLEASE, fcntl.F_RDLCK), 'EPERM')
fails(lambda: fcntl.fcntl(os.open('/usr', os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_ACCESS), 'EPERM')
"""
)
NUMBERS = (
    {"unshare": 272, "clone": 56, "setns": 308, "ptrace": 101}
    if X86
    else {"unshare": 97, "clone": 220, "setns": 268, "ptrace": 117}
)


def filled(program: str) -> str:
    """With the numbers of this machine, and of processes that live on it."""
    values = {**NUMBERS, "host_pids": [os.getpid(), os.getppid()]}
    for name, value in values.items():
        program = program.replace("{" + name + "}", str(value))
    return program


@pytest.mark.parametrize("program", REACHES.values(), ids=REACHES)
async def test_it_reaches_nothing(run: Runs, program: str) -> None:
    result = await run(TRY + filled(program))
    assert (result.stdout.strip(), result.stderr) == ("", ""), result


CALLS = {
    "X24-mounts": "mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr "
    "open_by_handle_at name_to_handle_at",
    "X25-io-uring": "io_uring_setup io_uring_enter io_uring_register",
    "X26-keys": "keyctl add_key request_key",
    "X27-the-machine": "bpf perf_event_open userfaultfd kexec_load kexec_file_load init_module finit_module delete_module reboot "
    "swapon swapoff acct quotactl syslog fanotify_init settimeofday clock_settime clock_adjtime adjtimex personality iopl ioperm",
    "X21-other-processes": "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp process_madvise",
    "X34-shared-memory": "shmget shmat shmctl semget semctl msgget msgctl mq_open mq_unlink memfd_create memfd_secret",
    "X35-watches": "flock inotify_init inotify_init1 inotify_add_watch fanotify_mark",
    "X27-memory-policies": "mbind set_mempolicy migrate_pages move_pages",
}


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS)
async def test_the_kernel_refuses(run: Runs, sandbox: Sandbox, calls: str) -> None:
    import pyseccomp

    numbers = [pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) for name in calls.split()]
    assert len([number for number in numbers if number >= 0]) >= 3
    attempts = "\n".join(f"denied({number}, 0, 0, 0, 0, 0, 0)" for number in numbers if number >= 0)
    result = await run(TRY + attempts)
    assert (result.stdout, result.stderr) == ("", "")


async def test_only_listed_calls_are_answered(run: Runs) -> None:
    """X29, and its whole kind: every number from 0 to 600 that is not on the list, and some far beyond."""
    import pyseccomp

    allowed = {pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) for name in seccomp.ALLOWED}
    numbers = [number for number in [*range(600), 9_999, 2**20] if number not in allowed]
    result = await run(TRY + f"for number in {numbers}: denied(number, -1, -1, -1, -1, -1, -1)")
    assert (result.stdout, result.stderr) == ("", "")


@pytest.mark.skipif(not X86, reason="these doors into the kernel exist on x86-64 alone")
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("b8140000 00cd80c3", (-38, None), id="X28-int-0x80-getpid"),
        pytest.param("b827000040 0f05c3", (-38, None), id="X28-x32-getpid"),
        pytest.param("b8ffffff7f 0f05c3", (-38, None), id="X29-a-number-out-of-range"),
    ],
)
async def test_other_doors_into_the_kernel_are_shut(run: Runs, code: str, expected: tuple[int, None]) -> None:
    """Machine code in a page of its own; without the filter each of the first two answers with the process's id."""
    result = await run(
        "import ctypes, mmap\n"
        "page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
        f"page.write(bytes.fromhex('{code}'))\n"
        "call = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))\n"
        "print(ctypes.c_int(call()).value)"
    )
    assert (result.stdout, result.reason) == (f"{expected[0]}\n", None) or result.reason in ("SIGSYS", "SIGSEGV")


@pytest.mark.skipif(not X86, reason="the number of `socket` is that of x86-64")
async def test_arguments_are_compared_as_the_kernel_reads_them(run: Runs) -> None:
    """The kernel takes 32 bits of a family or a request; a filter that compares 64 lets 2**32 + 16 pass."""
    result = await run(
        TRY + "for high in (1 << 32, 1 << 63):\n"
        "    for family in (2, 10, 16, 17, 31, 38, 40):\n"
        "        denied(41, high | family, 2, 0, errors=('EAFNOSUPPORT', 'EPERM'))\n"
        "    denied(16, 1, high | 0x5412, 0)\n"
        "    denied(72, 0, high | 5, 0)\n"
    )
    assert (result.stdout, result.stderr) == ("", "")


async def test_the_environment_is_the_documented_few(run: Runs) -> None:
    """X16."""
    result = await run("import os; print(sorted(os.environ.items()))")
    assert result.stdout == "[('HOME', '/tmp'), ('LANG', 'C.UTF-8'), ('PATH', '/usr/bin'), ('PWD', '/tmp')]\n"


async def test_abstract_sockets_of_the_host_are_not_there(run: Runs) -> None:
    """X13."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("\0recall-sandbox-test")
        listening.listen()
        result = await run(TRY + "fails(lambda: socket.socket(1).connect('\\0recall-sandbox-test'), 'ECONNREFUSED')")
    assert (result.stdout, result.stderr) == ("", "")


async def test_what_proc_tells_of_the_walls(run: Runs) -> None:
    """X15, X18: the options travel unseen. What is visible of the host's paths is the mount table, as documented."""
    result = await run("print(open('/proc/1/cmdline').read().split('\\0')); print(open('/proc/self/mountinfo').read())")
    line, _, mounts = result.stdout.partition("\n")
    assert line.startswith("['bwrap', '--args', '") and "--ro-bind" not in line
    assert str(Path(sys.base_prefix)) in mounts or sys.base_prefix == "/usr"
    assert str(Path.cwd()) not in result.stdout


LEAVES = """
import os
for folder in ('/tmp', '/dev/shm', '/var/tmp', '/run', '/dev/mqueue'):
    try: open(folder + '/left', 'w').write('left')
    except OSError: pass
try:
    os.mkfifo('/tmp/pipe'); os.symlink('/etc/passwd', '/tmp/out')
    open('/tmp/' + 'n' * 255, 'w').close(); open('/tmp/a\\nb', 'w').close()
except OSError as error: print(error)
"""


async def test_nothing_stays_for_the_next_run(run: Runs) -> None:
    """X31, X33, X34: no file is collected, so no name that a program chose is touched by the host."""
    assert (await run(LEAVES)).stdout == ""
    seen = await run(
        "import os\nprint(os.listdir('/tmp'), *[one for one in ('/dev/shm/left', '/var/tmp', '/run', '/dev/mqueue')"
        " if os.path.exists(one)], *open('/proc/sysvipc/shm').read().splitlines()[1:])"
    )
    assert seen.stdout == "[]\n"


async def test_one_program_cannot_see_another(sandbox: Sandbox) -> None:
    """X35: two at once, each writing, listing and listening."""
    import asyncio

    program = (
        "import os, socket, time\nopen('/tmp/mine', 'w').close()\n"
        "s = socket.socket(socket.AF_UNIX); s.bind('\\0shared'); s.listen()\ntime.sleep(.4)\n"
        "print(len([p for p in os.listdir('/proc') if p.isdigit()]), os.listdir('/tmp'), os.getuid())"
    )
    results = await asyncio.gather(sandbox.run(program), sandbox.run(program))
    assert [one.stdout for one in results] == ["2 ['mine'] 65534\n"] * 2
