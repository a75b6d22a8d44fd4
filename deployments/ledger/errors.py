"""What the ledger refuses.

LedgerError
├── BudgetExhausted     the day's tokens (or runs, pages) do not suffice
├── TooManyTurns        the subject has as many turns under way as it may
├── TooManyRequests     the subject made as many requests this minute as it may
└── LedgerUnavailable   Postgres does not answer: nothing is allowed without an account
"""


class LedgerError(Exception):
    """Base of the ledger's errors."""


class BudgetExhausted(LedgerError):
    """`asked` does not fit what is left of `limit`; `resets_in_seconds` until the UTC day ends."""

    def __init__(self, resource: str, limit: int, left: int, asked: int, resets_in_seconds: int) -> None:
        super().__init__(resource, limit, left, asked, resets_in_seconds)
        self.resource = resource
        self.limit = limit
        self.left = left
        self.asked = asked
        self.resets_in_seconds = resets_in_seconds


class TooManyTurns(LedgerError):
    """`limit` turns of this subject are under way."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit


class TooManyRequests(LedgerError):
    """`limit` requests of this subject were made in this minute, which ends in `resets_in_seconds`."""

    def __init__(self, limit: int, resets_in_seconds: int) -> None:
        super().__init__(limit, resets_in_seconds)
        self.limit = limit
        self.resets_in_seconds = resets_in_seconds


class LedgerUnavailable(LedgerError):
    """The ledger cannot be read or written; the request is refused."""
