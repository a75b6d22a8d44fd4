"""Small models write tool calls in formats of their own; this reads them out of the stream of a round.

Qwen's native format, `<tool_call>{…}</tool_call>`, counts wherever it stands. Foreign ones, a JSON object with or without
a fence or `<tools>` around it, count only when they are the whole output of the round, since a reviewer answers in
fences too. Text is held back only while it can still become a call, and half a call never reaches the answer.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import regex

from deployments.tiers.contract import ToolCall

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_MOST_HELD_CHARS = 16_000
_WRAPPING = r"(?:\s|,|```(?:json|tool_call|tool)?|</?(?:tools|function_call)>)*"
_HEAD = regex.compile(_WRAPPING + r'[\[{]\s*(?:\{\s*)?"(?:name|function|type|arguments|parameters)"')
_TAIL = regex.compile(_WRAPPING)
_NAME = regex.compile(r'"name"\s*:\s*"([^"]*)"')
_NAME_SO_FAR = regex.compile(r'"name"\s*:\s*"([^"]*)')
_JSON = json.JSONDecoder()


class CallReader:
    """Reads one round: `feed` returns text that is surely answer, `close` the rest and the calls."""

    def __init__(self, offered: Collection[str]) -> None:
        self._offered = offered
        self._held = ""
        self._foreign = bool(offered)  # whether the whole output can still be a foreign call
        self._calls: list[ToolCall] = []

    def feed(self, piece: str) -> str:
        """Take a piece of output; return what can no longer become part of a call."""
        if not self._offered:
            return piece
        self._held += piece
        if self._foreign and self._may_be_foreign():
            return ""
        self._foreign = False
        return self._release_outside_native()

    def close(self, cut_short: bool) -> tuple[str, tuple[ToolCall, ...]]:
        """End the round; `cut_short` says that the model ran into its output limit."""
        if self._foreign and self._held.strip():
            return self._close_foreign(cut_short)
        if self._held.startswith(_OPEN):
            if not cut_short:
                self._take_native(self._held[len(_OPEN) :])
            self._held = ""
        return self._held, tuple(self._calls)

    def _may_be_foreign(self) -> bool:
        if len(self._held) > _MOST_HELD_CHARS:
            return False
        if not _HEAD.match(self._held):
            return _HEAD.fullmatch(self._held, partial=True) is not None
        named = _NAME.search(self._held)
        if named and named[1] not in self._offered:
            return False
        _, rest = _values(self._held)
        return rest is None or _TAIL.fullmatch(rest, partial=True) is not None

    def _close_foreign(self, cut_short: bool) -> tuple[str, tuple[ToolCall, ...]]:
        values, rest = _values(self._held)
        calls = [call for value in values if (call := _call(value)) is not None]
        whole = rest is not None and _TAIL.fullmatch(rest) is not None
        if whole and calls and len(calls) == len(values) and all(call.name in self._offered for call in calls):
            return "", tuple(calls)
        named = _NAME_SO_FAR.search(self._held)
        if rest is None and named and any(name.startswith(named[1]) for name in self._offered):  # half a call
            return "", () if cut_short else (ToolCall(_name(named[1]), None),)
        return self._held, ()

    def _release_outside_native(self) -> str:
        """Emit text up to an opening tag, take the calls that are closed, keep what is open or may be a tag."""
        released = ""
        while _OPEN in self._held:
            text, _, rest = self._held.partition(_OPEN)
            body, closed, after = rest.partition(_CLOSE)
            released += text
            if not closed:
                self._held = _OPEN + body
                return released
            self._take_native(body)
            self._held = after
        keep = _overlap(self._held, _OPEN)
        text, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return released + text

    def _take_native(self, body: str) -> None:
        """A call that is not JSON still counts, without arguments, so that the model is told to try again."""
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            named = _NAME.search(body)
            self._calls.append(ToolCall(_name(named[1]) if named else "", None))
            return
        for one in value if isinstance(value, list) else [value]:
            self._calls.append(_call(one) or ToolCall("", None))


def _values(text: str) -> tuple[list[Any], str | None]:
    """The JSON values that stand in `text` between wrappings, arrays unrolled, and what follows; None: still open."""
    values: list[Any] = []
    end = 0
    while True:
        wrapping = _TAIL.match(text, end)
        place = wrapping.end() if wrapping else end
        if text[place : place + 1] not in ("{", "["):
            return values, text[end:]
        try:
            value, end = _JSON.raw_decode(text, place)
        except (ValueError, RecursionError):
            return values, None
        values.extend(value if isinstance(value, list) else [value])


def _call(value: Any) -> ToolCall | None:
    """A call from any of the shapes in use: flat, under `function`, arguments as an object or as JSON text."""
    inner = value.get("function", value) if isinstance(value, dict) else None
    if isinstance(inner, str):
        inner = {**value, "name": inner}
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        return None
    if "description" in inner:  # the definition of a tool, repeated: meant as a call, but none
        return ToolCall(_name(inner["name"]), None)
    arguments = inner.get("arguments", inner.get("parameters")) or {}
    return ToolCall(_name(inner["name"]), strict(arguments))


def _name(name: str) -> str:
    """The name, or none for one that is no text: it goes back into a prompt."""
    return "" if any("\ud800" <= char <= "\udfff" for char in name) else name


def strict(arguments: Any) -> Any:
    """Arguments, read from JSON text where they are text; None for what could not be sent on as strict JSON."""
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def _overlap(text: str, tag: str) -> int:
    """How many of the last characters of `text` begin `tag`."""
    return next((size for size in range(min(len(text), len(tag)), 0, -1) if text.endswith(tag[:size])), 0)
