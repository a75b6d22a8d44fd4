"""The Postgres that `make up` owns: the package's binaries with our own start and stop."""

from memory_store.embedded.errors import EmbeddedPostgresError
from memory_store.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError"]
