"""An engine's chunks, in the shape of OpenAI's streams, as deltas: calls read out, logprobs and the count of tokens alongside."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, cast, get_args

from deployments.tiers.calls import CallReader, strict
from deployments.tiers.contract import Delta, FinishReason, ToolCall, Usage
from deployments.tiers.errors import EngineFailed

Chunk = dict[str, Any]


async def deltas(
    chunks: AsyncGenerator[Chunk, None],
    most_tokens: int,
    reader: CallReader,
    generated: Callable[[Chunk], int | None],
) -> AsyncGenerator[Delta, None]:
    """Deltas of a round of at most `most_tokens`. `reader` finds calls in the text; an engine that reads them itself sends
    them apart.

    `generated` finds the tokens so far in a chunk. Reasoning that an engine splits off is counted and not passed on.
    Raises EngineFailed with the kind of an error that came as a chunk: its message may quote the request.
    """
    finish: FinishReason = "stop"
    usage = Usage(0, 0)
    tokens = 0
    apart = _CallsApart()
    unheard: tuple[dict[str, Any], ...] = ()  # logprobs of text that is held back
    async for chunk in chunks:
        if "error" in chunk:
            raise EngineFailed(str(chunk["error"].get("type", "engine_error")))
        tokens = generated(chunk) or tokens
        if chunk.get("usage"):
            usage = _usage(chunk["usage"])
        for choice in chunk["choices"]:
            finish = _known(choice["finish_reason"] or finish)
            unheard += tuple((choice.get("logprobs") or {}).get("content") or ())
            apart.take(choice["delta"].get("tool_calls") or ())
            text = reader.feed(choice["delta"].get("content") or "")
            heard, unheard = (unheard, ()) if text else ((), unheard)
            if tokens:
                yield Delta(text=text, logprobs=heard, tokens=tokens)
    if finish == "tool_calls" and usage.completion >= most_tokens:
        finish = "length"  # vLLM says so even where the limit cut the call
    text, calls = reader.close(cut_short=finish == "length")
    calls += apart.close(cut_short=finish == "length")
    yield Delta(
        text=text,
        logprobs=() if calls else unheard,
        calls=calls,
        finish="tool_calls" if calls else finish,
        usage=usage,
        tokens=usage.completion,
    )


def _known(reason: str) -> FinishReason:
    """Raises EngineFailed for a reason that is no end of an answer: vLLM gives up a round with `abort`."""
    if reason not in get_args(FinishReason):
        raise EngineFailed(reason)
    return cast(FinishReason, reason)


class _CallsApart:
    """Calls that an engine's own parser sends in pieces: first the name, then the arguments bit by bit."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._arguments: dict[int, str] = {}

    def take(self, pieces: Any) -> None:
        for piece in pieces:
            place, function = piece["index"], piece.get("function") or {}
            self._names[place] = self._names.get(place, "") + (function.get("name") or "")
            self._arguments[place] = self._arguments.get(place, "") + (function.get("arguments") or "")

    def close(self, cut_short: bool) -> tuple[ToolCall, ...]:
        """The calls; one whose arguments are no JSON counts without them. The last one goes where the output limit cut it,
        whatever its arguments: vLLM completes half an object to a whole one."""
        calls = [ToolCall(name, strict(self._arguments[place] or None)) for place, name in sorted(self._names.items())]
        return tuple(calls[:-1] if cut_short else calls)


def _usage(usage: dict[str, Any]) -> Usage:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Usage(usage["prompt_tokens"], usage["completion_tokens"], cached)
