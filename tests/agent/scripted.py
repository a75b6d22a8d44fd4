"""A tier whose model says what the test wrote down. Everything around it is real."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any

from deployments.tiers import schemas
from deployments.tiers.contract import ChatRequest, Delta, Message, ToolCall, Usage

_WORD = re.compile(r"\S+\s*")


@dataclass(frozen=True)
class Round:
    """What the model writes in one round: a text, word by word, then calls. A word is a token, a call is one too.

    `error` is raised after the text; `hangs`: after the text nothing more comes until the round is closed; `cached` of
    the prompt's tokens were not read again.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    error: Exception | None = None
    hangs: bool = False
    cached: int = 0


def calling(name: str, arguments: Any = None, text: str = "") -> Round:
    """A round that makes one call."""
    return Round(text, (ToolCall(name, {} if arguments is None else arguments),))


def words(value: object) -> int:
    return len(_WORD.findall(value if isinstance(value, str) else json.dumps(value)))


class ScriptedTier:
    """Meets `deployments.agent.world.TierPort`. The last round of the script is repeated for as long as it is asked."""

    name, model = "deep", "scripted"

    def __init__(
        self, *script: Round, window_tokens: int = 10_000, max_output_tokens: int = 100, deadline_seconds: float = 30
    ) -> None:
        self.window_tokens = window_tokens
        self.max_output_tokens = max_output_tokens
        self.deadline_seconds = deadline_seconds
        self.requests: list[ChatRequest] = []
        self.usages: list[Usage] = []
        self.closed = 0  # rounds that ended, in whichever way
        self.hangs = asyncio.Event()
        self._script = script

    async def schema_fault(self, schema: dict[str, Any]) -> str | None:
        return schemas.fault(schema)

    async def count(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> int:
        said = sum(words(message["content"]) + words(message.get("tool_calls") or "") for message in messages)
        return said + (words(list(tools)) if tools else 0)

    async def chat(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        self.requests.append(copy.deepcopy(request))
        written = self._script[min(len(self.requests), len(self._script)) - 1]
        prompt = await self.count(request.messages, request.tools)
        tokens = 0
        try:
            for piece in _WORD.findall(written.text)[: request.max_tokens]:
                tokens += 1
                yield Delta(piece, tokens=tokens)
            if written.error:
                raise written.error
            if written.hangs:
                self.hangs.set()
                await asyncio.Event().wait()
            yield self._last(written, request.max_tokens, prompt)
        finally:
            self.closed += 1

    def _last(self, written: Round, most: int, prompt: int) -> Delta:
        wanted = words(written.text) + len(written.calls)
        usage = Usage(prompt, min(wanted, most), written.cached)
        self.usages.append(usage)
        if wanted > most:
            return Delta(finish="length", usage=usage, tokens=most)
        finish = "tool_calls" if written.calls else "stop"
        return Delta(calls=written.calls, finish=finish, usage=usage, tokens=wanted)
