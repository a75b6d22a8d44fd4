"""One embedded Postgres for all store tests.

pytest's own temporary folders are closed to everyone but their owner, and as root Postgres runs as another
account: the folders here are made open for passage.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memory_store.embedded import EmbeddedPostgres


@contextmanager
def passable_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="recall-serve-test-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """A started server, shared: make databases and roles of your own in it, and never stop it."""
    with passable_folder() as folder, EmbeddedPostgres(folder / "data", folder / "logs") as server:
        yield server
