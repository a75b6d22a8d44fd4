"""A long page a window at a time."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

_BACK_SHARE = 3  # a cut is moved back by at most a third of the window
_LINE_END = re.compile(r"\n(?!\n)")
_WORD_END = re.compile(r"\s(?!\s|\[\d+\])")  # not before a link's number
_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_AHEAD_CHARS = 12  # as many as such a number has


def window(text: str, offset: int, chars: int) -> dict[str, Any]:
    """At most `chars` characters of `text` from `offset`: `text`, `offset`, `next_offset` (None at the end), `total`.

    It ends after a line, else after a word, if one ends in its last third; never within a character of several code
    points. Windows one after another give the whole text. Past the end it is empty. Raises ValueError.
    """
    if offset < 0 or chars < 1:
        raise ValueError("an offset is not negative, and a window has a character")
    end = _end(text, offset, offset + chars) if offset < len(text) else offset
    more = end if end < len(text) else None
    return {"text": text[offset:end], "offset": offset, "next_offset": more, "total": len(text)}


def _end(text: str, start: int, limit: int) -> int:
    if limit >= len(text):
        return len(text)
    earliest = limit - (limit - start) // _BACK_SHARE
    for pattern in (_LINE_END, _WORD_END):
        ends = (found.end() for found in pattern.finditer(text, earliest, limit + _AHEAD_CHARS))
        if last := max((end for end in ends if end <= limit), default=0):
            return last
    return _whole_character(text, earliest, limit) or limit


def _whole_character(text: str, earliest: int, limit: int) -> int | None:
    """The last place up to `limit` that does not part a mark or a joined emoji from what it belongs to."""
    places = range(limit, max(earliest, 1) - 1, -1)
    return next((place for place in places if not _belongs_together(text[place - 1], text[place])), None)


def _belongs_together(before: str, after: str) -> bool:
    return before == "\u200d" or after == "\u200d" or unicodedata.category(after)[0] == "M" or after in _SKIN_TONES
