"""Namespaces share one kernel, and its rarely used calls are where sandboxes broke.

Two filters, since the kernel takes the stricter answer of both. The first knows the calls that Python, its threads and its
children make, and answers ENOSYS to every other one, also to those that later kernels add. The second looks at arguments of
allowed calls, and says EPERM where a program should read "not permitted" rather than "unknown".

Arguments the kernel reads as 32 bits are compared as such, or the upper half would carry a call past the filter.
"""

from __future__ import annotations

import errno
import importlib
import tempfile
from typing import Any

from deployments.sandbox.errors import SandboxUnfit

_PROCESSES = """
    exit exit_group wait4 waitid fork vfork clone execve execveat getpid getppid gettid getpgid getpgrp getsid setpgid setsid
    set_tid_address set_robust_list get_robust_list rseq futex futex_waitv membarrier arch_prctl prctl getrlimit setrlimit
    prlimit64 getrusage times kill tgkill tkill pidfd_open pidfd_send_signal sched_yield sched_getaffinity sched_setaffinity
    sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min sched_setscheduler sched_rr_get_interval
    getpriority setpriority getcpu restart_syscall seccomp
"""
_IDENTITY = """
    getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid setresgid setfsuid
    setfsgid setgroups capget capset uname sysinfo umask
"""
_SIGNALS = """
    rt_sigaction rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigpending rt_sigqueueinfo rt_tgsigqueueinfo
    sigaltstack signalfd signalfd4 pause alarm getitimer setitimer
"""
_MEMORY = """
    brk mmap munmap mremap mprotect madvise mlock munlock msync mincore get_mempolicy
"""
_FILES = """
    read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 open openat openat2 creat close close_range dup
    dup2 dup3 lseek fcntl ioctl stat lstat fstat newfstatat statx statfs fstatfs access faccessat faccessat2 readlink
    readlinkat getcwd chdir fchdir getdents getdents64 mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link
    linkat symlink symlinkat chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat
    truncate ftruncate fallocate fsync fdatasync sync_file_range fadvise64 sendfile copy_file_range splice tee readahead
    getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr mknod mknodat pipe pipe2
"""
_WAITING = """
    poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2
    timerfd_create timerfd_settime timerfd_gettime timer_create timer_settime timer_gettime timer_getoverrun timer_delete
    nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time
"""
_SOCKETS = """
    socket socketpair bind connect listen accept accept4 getsockname getpeername sendto recvfrom sendmsg recvmsg sendmmsg
    recvmmsg shutdown getsockopt setsockopt
"""
ALLOWED = frozenset(
    " ".join((_PROCESSES, _IDENTITY, _SIGNALS, _MEMORY, _FILES, _WAITING, _SOCKETS, "getrandom")).split()
)

# Known and refused. Locks, leases and watches on the shared files of the interpreter would let two programs talk.
_REFUSED = """
    keyctl add_key request_key bpf perf_event_open userfaultfd ptrace process_vm_readv process_vm_writev process_madvise
    kcmp pidfd_getfd mount umount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount fspick
    mount_setattr open_by_handle_at name_to_handle_at unshare setns kexec_load kexec_file_load init_module finit_module
    delete_module reboot swapon swapoff acct quotactl quotactl_fd syslog fanotify_init fanotify_mark inotify_init
    inotify_init1 inotify_add_watch settimeofday clock_settime clock_adjtime adjtimex stime personality iopl ioperm
    sethostname setdomainname vhangup nfsservctl lookup_dcookie modify_ldt memfd_create memfd_secret flock shmget shmat
    shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink mq_timedsend
    mq_timedreceive mq_notify mq_getsetattr move_pages migrate_pages mbind set_mempolicy setxattr lsetxattr fsetxattr
    removexattr lremovexattr fremovexattr vmsplice
"""
REFUSED = frozenset(_REFUSED.split())

_AF_UNIX, _FAMILIES = 1, 64
_SOL_SOCKET = 1
_BUFFER_SIZES = (7, 8, 32, 33)  # SO_SNDBUF, SO_RCVBUF and their forms for root: a buffer's size is memory nobody counts
_NAMESPACES = (0x80, 0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
_TERMINAL = (0x5412, 0x541C, 0x5423)  # TIOCSTI, TIOCLINUX, TIOCSETD
_COVERT = (5, 36, 1024, 1025, 1026, 1031)  # F_GETLK, F_OFD_GETLK, F_SETLEASE, F_GETLEASE, F_NOTIFY, F_SETPIPE_SZ
_LOW = 0xFFFFFFFF
_UNKNOWN_CALL = -1


def filters() -> tuple[bytes, ...]:
    """The programs to load, in this order. Raises SandboxUnfit where libseccomp is missing or knows no such machine."""
    try:
        lib: Any = importlib.import_module(
            "pyseccomp"
        )  # now, since it loads the C library and fails where there is none
        return _compiled(_known(lib)), _compiled(_looked_at(lib))
    except (ImportError, RuntimeError, OSError) as error:
        raise SandboxUnfit((f"seccomp: no filter can be made here ({error}); install libseccomp",)) from error


def _known(lib: Any) -> Any:
    made = lib.SyscallFilter(lib.ERRNO(errno.ENOSYS))
    made.set_attr(lib.Attr.ACT_BADARCH, lib.ERRNO(errno.ENOSYS))
    for call in sorted(ALLOWED):
        _add(lib, made, lib.ALLOW, call)
    return made


def _looked_at(lib: Any) -> Any:
    made = lib.SyscallFilter(lib.ALLOW)
    made.set_attr(lib.Attr.ACT_BADARCH, lib.ERRNO(errno.ENOSYS))
    for call in sorted(REFUSED):
        _add(lib, made, lib.ERRNO(errno.EPERM), call)
    for call in ("socket", "socketpair"):
        _only_unix(lib, made, call)
    for bit in _NAMESPACES:
        _add(lib, made, lib.ERRNO(errno.EPERM), "clone", lib.Arg(0, lib.MASKED_EQ, bit, bit))
    for call, values in (("ioctl", _TERMINAL), ("fcntl", _COVERT)):
        for value in values:
            _add(lib, made, lib.ERRNO(errno.EPERM), call, _is(lib, 1, value))
    for option in _BUFFER_SIZES:
        _add(lib, made, lib.ERRNO(errno.EPERM), "setsockopt", _is(lib, 1, _SOL_SOCKET), _is(lib, 2, option))
    return made


def _only_unix(lib: Any, made: Any, call: str) -> None:
    """Also loopback is refused: the buffers of TCP are megabytes each, taken from what the whole host has for them."""
    refuse = lib.ERRNO(errno.EAFNOSUPPORT)
    for family in set(range(_FAMILIES)) - {_AF_UNIX}:
        _add(lib, made, refuse, call, _is(lib, 0, family))
    for bit in range(_FAMILIES.bit_length() - 1, 32):
        _add(lib, made, refuse, call, lib.Arg(0, lib.MASKED_EQ, 1 << bit, 1 << bit))


def _is(lib: Any, place: int, value: int) -> Any:
    return lib.Arg(place, lib.MASKED_EQ, _LOW, value)


def _add(lib: Any, made: Any, action: int, call: str, *conditions: Any) -> None:
    """Add a rule, unless this libseccomp does not know the call: then the first filter answers."""
    if lib.resolve_syscall(lib.Arch.NATIVE, call) != _UNKNOWN_CALL:
        made.add_rule(action, call, *conditions)


def _compiled(made: Any) -> bytes:
    with tempfile.TemporaryFile() as file:
        made.export_bpf(file)
        file.seek(0)
        return file.read()
