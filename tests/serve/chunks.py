"""Reading streams as the strictest client does: every line must be a chat chunk of the `openai` package's own types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from openai.types.chat import ChatCompletionChunk


@dataclass
class Streamed:
    """A whole stream: the joined answer, the steps, the chunk that ended it, all chunks."""

    answer: str = ""
    steps: list[dict[str, Any]] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)
    chunks: list[dict[str, Any]] = field(default_factory=list)

    def done(self, tool: str) -> list[dict[str, Any]]:
        return [step for step in self.steps if step.get("tool") == tool and step["status"] == "done"]


def lines(response: httpx.Response) -> Iterator[dict[str, Any]]:
    """The data lines as JSON; the last must be [DONE] and nothing but comments may stand beside them."""
    ended = False
    for line in response.iter_lines():
        if not line or line.startswith(":"):
            continue
        assert line.startswith("data: ") and not ended, line
        if line == "data: [DONE]":
            ended = True
        else:
            yield json.loads(line.removeprefix("data: "))
    assert ended, "the stream ends with [DONE]"


def turn(http: httpx.Client, text: str, model: str = "code-reviewer", **more: Any) -> Streamed:
    """One streamed turn at temperature 0."""
    body = {"model": model, "messages": [{"role": "user", "content": text}], "stream": True, "temperature": 0}
    streamed = Streamed()
    with http.stream("POST", "/v1/chat/completions", json={**body, "max_tokens": 200, **more}) as response:
        if response.status_code != 200:
            raise AssertionError(f"{response.status_code}: {response.read()!r}")
        for chunk in lines(response):
            ChatCompletionChunk.model_validate(chunk, strict=True)
            streamed.chunks.append(chunk)
    for chunk in streamed.chunks:
        if not chunk["choices"]:
            continue
        choice = chunk["choices"][0]
        streamed.answer += choice["delta"].get("content") or ""
        if "step" in chunk:
            streamed.steps.append(chunk["step"])
        if choice["finish_reason"]:
            streamed.last = chunk
    return streamed
