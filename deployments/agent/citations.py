"""Which of the entries shown an answer cites. A label that was not shown is no citation."""

from __future__ import annotations

import re
from collections.abc import Mapping

_BRACKETS = re.compile(r"\[([^\[\]]{1,200})\]")
_SEPARATOR = re.compile(r"[,;\s]+")


def cited(answer: str, labels: Mapping[str, str]) -> list[str]:
    """Entry ids in the order of their first citation; `[m1]`, `[m1, m3]` and `[m_…]` all count."""
    ids = set(labels.values())
    found: dict[str, None] = {}
    for inside in _BRACKETS.findall(answer):
        for word in _SEPARATOR.split(inside):
            entry = labels.get(word, word)
            if entry in ids:
                found.setdefault(entry)
    return list(found)
