"""What can go wrong in the store.

MemoryStoreError
├── InvalidEntry      the text or its source cannot be kept (the caller's fault)
├── BadLines          lines of an import that cannot be entries (the caller's fault)
├── MemoryFull        the subject holds as many entries as it may
├── EntryConflict     a correction would make two equal entries
├── WrongDimension    a vector does not fit the model's others (the operator's fault)
├── ScrubBlocked      deleted rows cannot be removed from the files yet
├── SchemaMismatch    the database is not the one this code was written for
└── StoreUnavailable  Postgres does not answer (try again)

They cross Ray handles by pickle: constructor arguments are positional and no message holds a text of a person.
"""


class MemoryStoreError(Exception):
    """Base of this package's errors."""


class InvalidEntry(MemoryStoreError):
    """The entry cannot be kept; the message says why and what is allowed, `param` which part of it is meant."""

    def __init__(self, message: str, param: str = "text") -> None:
        super().__init__(message, param)
        self.param = param

    def __str__(self) -> str:
        return str(self.args[0])


class BadLines(MemoryStoreError):
    """Lines of an import cannot be entries; the message names them by number, each with its reason."""


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
        self.expected = expected
        self.got = got

    def __str__(self) -> str:
        return (
            f"the embedding model's vectors have {self.expected} numbers in this database, and now {self.got}: a model "
            "with other vectors needs another name; then run `recall-serve memory reembed`"
        )


class ScrubBlocked(MemoryStoreError):
    """Another scrub runs, or old transactions did not end within `seconds`, so that deleted rows could not go yet."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"other work in the database did not end within {self.seconds:g} s; try again later"


class SchemaMismatch(MemoryStoreError):
    """The schema is newer than this code, or a migration was edited after it ran."""


class StoreUnavailable(MemoryStoreError):
    """Postgres did not answer in time or ended the connection."""
