"""A limit of zero, or one that nothing can reach, is no limit: other systems ran endlessly on such values."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from deployments.sandbox.errors import InvalidLimits

_MIB = 1024 * 1024
_RESERVED_BYTES = 3 * 1024 * _MIB  # 32 threads: a stack of 8 MiB and an arena of 64 MiB each


@dataclass(frozen=True)
class Limits:
    """What one run may use. Raises InvalidLimits for a value that bounds nothing."""

    wall_seconds: float = 10
    """From launch to end; everything the program started is killed then."""
    cpu_seconds: int = 10
    """Of each process."""
    memory_mib: int = 512
    """What all processes and the work folder hold together. Each process may map 3 GiB more, which threads reserve unused."""
    processes: int = 32
    """Processes and threads, one of which is bubblewrap's."""
    work_mib: int = 64
    """Size of /tmp, the one place where files can be written."""
    work_files: int = 10_000
    """Files and folders in it; an empty one costs the kernel a kilobyte."""
    file_mib: int = 32
    """Size of one file."""
    open_files: int = 64
    """Descriptors of each process."""
    output_bytes: int = 64 * 1024
    """Kept of each stream. Sixteen times as much is read before the program is killed."""
    program_bytes: int = 2 * _MIB
    """Size of the program's text."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check(field.name, getattr(self, field.name))

    @property
    def memory_bytes(self) -> int:
        return self.memory_mib * _MIB

    @property
    def address_space_bytes(self) -> int:
        return self.memory_bytes + _RESERVED_BYTES

    @property
    def work_bytes(self) -> int:
        return self.work_mib * _MIB

    @property
    def file_bytes(self) -> int:
        return self.file_mib * _MIB


# The least with which Python starts, the most that one machine can mean.
_BOUNDS = {
    "wall_seconds": (0.1, 600),
    "cpu_seconds": (1, 600),
    "memory_mib": (64, 65_536),
    "processes": (4, 1_024),
    "work_mib": (1, 16_384),
    "work_files": (8, 1_000_000),
    "file_mib": (1, 16_384),
    "open_files": (16, 1_024),
    "output_bytes": (1, 16 * _MIB),
    "program_bytes": (1, 16 * _MIB),
}


def _check(name: str, value: float) -> None:
    least, most = _BOUNDS[name]
    kinds = (int, float) if name == "wall_seconds" else (int,)
    if (
        isinstance(value, bool)
        or not isinstance(value, kinds)
        or not math.isfinite(value)
        or not least <= value <= most
    ):
        raise InvalidLimits(name, math.ceil(least), int(most))
