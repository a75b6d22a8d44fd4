"""Which of the nearest entries a turn is shown: those above the floor, at most so many, within so many tokens, and of
entries that differ only in wording the newest.

Pure functions over scores, so that the rule can be tested and studied apart from the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from memory_store import wording
from memory_store.entry import Entry

Reason = Literal["below_floor", "older_wording", "over_entry_cap", "over_token_cap"]
CHARS_PER_TOKEN = 4  # the rule of thumb for English text; a cap, not an account


@dataclass(frozen=True)
class Scored:
    """An entry and its cosine similarity to the query, higher is nearer."""

    entry: Entry
    score: float

    def as_dict(self) -> dict[str, Any]:
        return {**self.entry.as_dict(), "score": round(self.score, 4)}


@dataclass(frozen=True)
class Caps:
    """The bounds of one recall: a cosine floor, a number of entries, a number of tokens."""

    floor: float
    entries: int
    tokens: int


@dataclass(frozen=True)
class Recall:
    """What is shown, nearest first, what is not, with the reason, and how many entries could not be looked at, since the
    model in use made no vectors of them yet."""

    shown: tuple[Scored, ...]
    left_out: tuple[tuple[Scored, Reason], ...]
    not_embedded: int = 0

    def as_dict(self) -> dict[str, Any]:
        left_out = [{"id": one.entry.id, "score": round(one.score, 4), "reason": why} for one, why in self.left_out]
        return {
            "shown": [one.as_dict() for one in self.shown],
            "left_out": left_out,
            "not_embedded": self.not_embedded,
        }


def choose(nearest: Sequence[Scored], caps: Caps, not_embedded: int = 0) -> Recall:
    """Walk the entries from the nearest on. An entry too long for what is left of the tokens is passed over."""
    newest = _newest_wordings([one.entry for one in nearest if one.score >= caps.floor])
    shown: list[Scored] = []
    left_out: list[tuple[Scored, Reason]] = []
    tokens_left = caps.tokens
    for candidate in nearest:
        tokens = tokens_of(candidate.entry.text)
        if candidate.score < caps.floor:
            left_out.append((candidate, "below_floor"))
        elif candidate.entry.id not in newest:
            left_out.append((candidate, "older_wording"))
        elif len(shown) == caps.entries:
            left_out.append((candidate, "over_entry_cap"))
        elif tokens > tokens_left:
            left_out.append((candidate, "over_token_cap"))
        else:
            shown.append(candidate)
            tokens_left -= tokens
    return Recall(tuple(shown), tuple(left_out), not_embedded)


def _newest_wordings(entries: Sequence[Entry]) -> set[str]:
    """Ids of the entries that no newer one says again in other words. Of one kind: an episode is no twin of a fact."""
    newest: dict[tuple[Any, ...], Entry] = {}
    for entry in entries:
        wording_of = (entry.kind == "episode", wording.key(entry.text, entry.language))
        twin = newest.get(wording_of)
        if twin is None or (twin.updated_at, twin.id) < (entry.updated_at, entry.id):
            newest[wording_of] = entry
    return {entry.id for entry in newest.values()}


def tokens_of(text: str) -> int:
    """Tokens `text` may take in a prompt, at least one."""
    return -(-len(text) // CHARS_PER_TOKEN)
