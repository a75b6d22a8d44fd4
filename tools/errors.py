"""How a tool call fails. The three kinds of failure are three types, because three different parties must act.

ToolError
├── ModelShouldRetry   bad arguments: the model is told what is wrong and may call again
├── ModelShouldKnow    the world says no: the model is told and works with it
│   └── PageRefused      a page that cannot be opened; its host is audited
└── PlatformBroken     ours: the turn says so, the model sees nothing internal
"""


class ToolError(Exception):
    """Base of this package's errors. The message of the first two kinds is written for the model."""


class ModelShouldRetry(ToolError):
    """The arguments are wrong; the message says what is allowed."""


class ModelShouldKnow(ToolError):
    """The call was understood and cannot succeed; the message says why."""


class PageRefused(ModelShouldKnow):
    """`sentence` says why the page on `host` cannot be read; `sent`: whether a request was made for it."""

    def __init__(self, sentence: str, host: str = "", sent: bool = True) -> None:
        super().__init__(sentence, host, sent)
        self.host = host
        self.sent = sent

    def __str__(self) -> str:
        return str(self.args[0])


class PlatformBroken(ToolError):
    """A service behind the tool failed; carries a code, never a text."""
