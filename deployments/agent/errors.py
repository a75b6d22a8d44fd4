"""How a turn is refused before its first byte. Later failures are endings of the stream instead.

AgentError
├── ContextLengthExceeded   the prompt does not fit the model's window
└── DeadlineExceeded        nothing was answered within the tier's deadline
"""


class AgentError(Exception):
    """Base of the agent's errors."""


class ContextLengthExceeded(AgentError):
    """The prompt has `tokens`, the window `window_tokens`; nothing was spent."""

    def __init__(self, tokens: int, window_tokens: int) -> None:
        super().__init__(tokens, window_tokens)
        self.tokens = tokens
        self.window_tokens = window_tokens


class DeadlineExceeded(AgentError):
    """`seconds` passed before the first byte."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds
