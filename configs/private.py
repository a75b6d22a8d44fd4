"""Files that only their owner may read: keys, passwords, tokens. Whole or not there at all, a power cut included.

A secret of which half was written would be used from then on: an empty password, an empty key.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def made_once(path: Path, make: Callable[[], str | bytes]) -> bytes:
    """What the file holds; written by `make` the first time."""
    if not path.exists():
        write(path, make())
    return path.read_bytes()


def write(path: Path, content: str | bytes) -> None:
    """Replace the file at once, mode 0600."""
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent)  # mkstemp makes it 0600
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    Path(unfinished).replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
