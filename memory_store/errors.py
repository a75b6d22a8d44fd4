"""What can go wrong in the store.

MemoryStoreError
├── InvalidEntry      the text or its source cannot be kept (the caller's fault)
├── MemoryFull        the subject holds as many entries as it may
├── EntryConflict     a correction would make two equal entries
├── WrongDimension    a vector does not fit the model's others (the operator's fault)
├── SchemaMismatch    the database is not the one this code was written for
└── StoreUnavailable  Postgres does not answer (try again)

They cross Ray handles by pickle: constructor arguments are positional and no message holds a text of a person.
"""


class MemoryStoreError(Exception):
    """Base of this package's errors."""


class InvalidEntry(MemoryStoreError):
    """The entry cannot be kept; the message says why and what is allowed."""


class MemoryFull(MemoryStoreError):
    """The subject already holds `limit` entries; one must be forgotten first."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit


class EntryConflict(MemoryStoreError):
    """The corrected text equals entry `other`."""

    def __init__(self, other: str) -> None:
        super().__init__(other)
        self.other = other


class WrongDimension(MemoryStoreError):
    """The database holds vectors of this model in another dimension."""

    def __init__(self, expected: int, got: int) -> None:
        super().__init__(expected, got)


class SchemaMismatch(MemoryStoreError):
    """The schema is newer than this code, or a migration was edited after it ran."""


class StoreUnavailable(MemoryStoreError):
    """Postgres did not answer in time or ended the connection."""
