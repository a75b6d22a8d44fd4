"""A turn in OpenAI's chat format: chunks that every client can read, or one answer that says the same.

Each line is a valid `chat.completion.chunk` with one choice; what is ours rides in extension keys.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from deployments.agent.events import Ended, Event, Stepped, StopReason, Text
from deployments.tiers.contract import Usage
from serve.errors import as_api_error
from serve.wire.chat_request import ChatWish

DONE = b"data: [DONE]\n\n"
FinishReason = Literal["stop", "length"]


def line(value: dict[str, Any]) -> bytes:
    """One server-sent event. JSON escaped to ASCII holds no line break of any kind, so a text can forge no event."""
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def finish_reason(reason: StopReason) -> FinishReason:
    """OpenAI's word for an ending."""
    match reason:
        case "answered" | "tool_limit" | "repeated_call":
            return "stop"
        case "length" | "token_budget" | "deadline":
            return "length"
    assert_never(reason)


@dataclass
class ChunkWriter:
    """Writes a turn's events as lines; `id`, `model` and `created` never change within it."""

    wish: ChatWish
    id: str
    created: int = field(default_factory=lambda: int(time.time()))
    _first: bool = True

    def lines(self, events: Sequence[Event]) -> bytes:
        """All events that are ready, in one piece."""
        return b"".join(map(self._line, events))

    def error(self, error: BaseException) -> bytes:
        """What failed after the headers were sent: a valid chunk that carries `error`."""
        return line(self._chunk({}) | as_api_error(error).body())

    def _line(self, event: Event) -> bytes:
        match event:
            case Text():
                logprobs = {"logprobs": {"content": list(event.logprobs)}} if event.logprobs else {}
                return line(self._chunk({"content": event.text}, **logprobs))
            case Stepped():
                return line(self._chunk({}) | {"step": event.step.as_dict()}) if self.wish.include_steps else b""
            case Ended():
                return self._last(event)
        assert_never(event)

    def _last(self, event: Ended) -> bytes:
        last = line(self._chunk({}, finish_reason=finish_reason(event.reason)) | extensions(event))
        if not self.wish.include_usage:
            return last
        return last + line({**self._chunk({}), "choices": [], "usage": usage(event.usage)})

    def _chunk(self, delta: dict[str, Any], **choice: Any) -> dict[str, Any]:
        if self._first:
            delta, self._first = {"role": "assistant", **delta}, False
        return {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.wish.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": None} | choice],
        }


def whole(wish: ChatWish, answer_id: str, events: Sequence[Event]) -> dict[str, Any]:
    """The unstreamed answer: the joined deltas, and beside `choices` the steps, memory and stop."""
    texts = [event for event in events if isinstance(event, Text)]
    ended = next(event for event in events if isinstance(event, Ended))
    message = {"role": "assistant", "content": "".join(event.text for event in texts), "refusal": None}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish_reason(ended.reason)}
    logprobs = [one for event in texts for one in event.logprobs]
    choice["logprobs"] = {"content": logprobs} if logprobs else None
    answer = {
        "id": answer_id,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": wish.model,
        "choices": [choice],
        "usage": usage(ended.usage),
    }
    steps = [event.step.as_dict() for event in events if isinstance(event, Stepped) and event.step.status != "started"]
    return answer | ({"steps": steps} if wish.include_steps else {}) | extensions(ended)


def extensions(event: Ended) -> dict[str, Any]:
    """What is ours in the last chunk."""
    memory = {} if event.shown is None else {"memory": {"shown": event.shown, "cited": event.cited}}
    return memory | {"stop": {"reason": event.reason}}


def usage(one: Usage) -> dict[str, Any]:
    """Summed over all rounds."""
    return {
        "prompt_tokens": one.prompt,
        "completion_tokens": one.completion,
        "total_tokens": one.prompt + one.completion,
        "prompt_tokens_details": {"cached_tokens": one.cached},
    }
