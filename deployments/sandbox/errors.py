"""What the sandbox refuses. They cross Ray handles: positional arguments, numbers and our own words, never a program's.

SandboxError
├── InvalidLimits      a limit that is no bound: zero, negative, not a number, absurd
├── ProgramTooLarge    the program's text is longer than may be run
├── SandboxUnfit       this platform cannot give every wall, so nothing is run
├── SandboxFailed      the walls could not be put up this time; the program did not start
└── SandboxClosed      the sandbox was closed, or was never started
"""


class SandboxError(Exception):
    """Base of the sandbox's errors."""


class InvalidLimits(SandboxError):
    """`field` must be a number from `least` to `most`."""

    def __init__(self, field: str, least: int, most: int) -> None:
        super().__init__(field, least, most)
        self.field = field
        self.least = least
        self.most = most


class ProgramTooLarge(SandboxError):
    """A program of `size_bytes`; at most `limit_bytes` are run."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(size_bytes, limit_bytes)
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class SandboxUnfit(SandboxError):
    """Each of `missing` is a sentence: a wall that does not hold here, or why none can be put up."""

    def __init__(self, missing: tuple[str, ...]) -> None:
        super().__init__(missing)
        self.missing = missing


class SandboxFailed(SandboxError):
    """`fault` says what bubblewrap or the launcher complained about before the program began."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.fault = fault


class SandboxClosed(SandboxError):
    """Programs run between start and close alone."""
