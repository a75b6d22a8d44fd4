"""Which processes a test started, told apart from what other tests of the session share: a database, a graph, a tracker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deployments.sandbox import watch

_older: set[int] = set()


@contextmanager
def marked() -> Iterator[None]:
    """Children there are now belong to others while this is open."""
    _older.update(watch.children(os.getpid()))
    try:
        yield
    finally:
        _older.clear()


def started() -> list[int]:
    """Children that are younger than the mark, unless they are gone already; an ended one that nobody reaped is there."""
    young = (pid for pid in watch.children(os.getpid()) if pid not in _older)
    return [pid for pid in young if Path(f"/proc/{pid}").exists()]
