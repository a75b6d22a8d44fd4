"""What can go wrong in a tier. They cross Ray handles: positional arguments, codes and numbers, never a text.

TierError
├── EngineFailed          the engine broke (500)
├── Overloaded            no slot and no place in the queue (429)
├── SchemaUnsupported     the engine cannot hold to a schema (400)
└── TierUnavailable       no replica answers (503)
"""


class TierError(Exception):
    """Base of the tiers' errors."""


class EngineFailed(TierError):
    """The engine did not do its work; carries a code."""


class Overloaded(TierError):
    """Every slot is taken and the queue is full."""


class SchemaUnsupported(TierError):
    """The engine cannot hold an answer to this schema; the message names the keyword."""


class TierUnavailable(TierError):
    """No replica of the tier answers."""
