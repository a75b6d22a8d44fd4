"""What every engine must do, and nothing more. Only plain values cross a Ray handle.

An engine declares what it can do, `chat` or `embedding`; a tier offers what its engine declares.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Capability = Literal["chat", "embedding"]
EmbedRole = Literal["query", "passage"]
FinishReason = Literal["stop", "length", "tool_calls"]
Message = dict[str, Any]  # OpenAI's shape: role, content, and for tools tool_calls or tool_call_id


@dataclass(frozen=True)
class ChatRequest:
    """One round. `tools` are in OpenAI's shape; `schema` binds the answer to a JSON Schema."""

    messages: list[Message]
    max_tokens: int
    tools: list[dict[str, Any]] = field(default_factory=list)
    sampling: dict[str, Any] = field(default_factory=dict)  # temperature, top_p, seed, stop: only those asked for
    schema: dict[str, Any] | None = None
    top_logprobs: int | None = None  # None: no logprobs; 0: of the chosen tokens alone
    adapter: str | None = None  # one of the engine's; None: the model itself


@dataclass(frozen=True)
class Usage:
    """Tokens of one round; `cached` of the prompt's were not read again."""

    prompt: int
    completion: int
    cached: int = 0


@dataclass(frozen=True)
class ToolCall:
    """A call the model wrote. `arguments` is what it wrote, parsed from JSON and not yet checked."""

    name: str
    arguments: Any


@dataclass(frozen=True)
class Delta:
    """A piece of a round's output. The last one alone carries `finish` and `usage`."""

    text: str = ""
    logprobs: tuple[dict[str, Any], ...] = ()
    calls: tuple[ToolCall, ...] = ()
    finish: FinishReason | None = None
    usage: Usage | None = None
    tokens: int = 0  # generated so far in this round, counted before hold-back, so that a cancelled round is settled


class Engine(Protocol):
    """What all engines share."""

    capability: Capability
    model: str  # what the records name: the weights

    def stop(self) -> None:
        """Free everything; the engine is not used again."""

    async def healthy(self) -> bool:
        """Whether it can serve now; quick."""


class ChatEngine(Engine, Protocol):
    """A model that chats."""

    window_tokens: int

    async def start(self) -> None:
        """Load the weights. Raises EngineFailed."""

    def schema_fault(self, schema: dict[str, Any]) -> str | None:
        """Why an answer cannot be held to this schema, None when it can. A value, not an error: it may quote the schema,
        and Ray logs errors that cross a handle."""

    async def count(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> int:
        """Tokens of the prompt these make. Raises EngineFailed."""

    def chat(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        """Generate one round. Closing the generator stops the engine within a token.

        Raises SchemaUnsupported before anything is generated, EngineFailed.
        """


class EmbeddingEngine(Engine, Protocol):
    """A model that embeds."""

    dimension: int
    window_tokens: int

    def start(self) -> None:
        """Load the weights; blocks. Raises EngineFailed."""

    def count(self, texts: Sequence[str], role: EmbedRole) -> list[int]:
        """Tokens of each text; blocks."""

    def embed(self, texts: Sequence[str], role: EmbedRole) -> tuple[list[list[float]], list[int]]:
        """Unit vectors of `dimension` numbers and the tokens of each text; blocks. Texts are cut to the window."""
