"""Descriptors that a run needs, closed with it. What is handed over has no name, so it leaves no file."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable

_SEALS = fcntl.F_ADD_SEALS
_ALL = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


class Owned(contextlib.ExitStack):
    """Closes each descriptor once."""

    def sealed(self, name: str, data: bytes) -> int:
        """Memory that holds `data` and can no longer change, read from its beginning."""
        descriptor = self._own(os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        fcntl.fcntl(descriptor, _SEALS, _ALL)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def pipe(self) -> tuple[int, int]:
        """Reading and writing end."""
        reading, writing = os.pipe()
        return self._own(reading), self._own(writing)

    def _own(self, descriptor: int) -> int:
        self.callback(os.close, descriptor)
        return descriptor


def nul_joined(words: Iterable[str]) -> bytes:
    """As bubblewrap's `--args` wants them. Raises ValueError for a word that would become two."""
    listed = list(words)
    if any("\0" in word for word in listed):
        raise ValueError("a NUL in an option")
    return b"".join(os.fsencode(word) + b"\0" for word in listed)
