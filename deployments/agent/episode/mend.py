"""What a small model wrote is often sound in part. The sound part is kept, never a word that the model did not write or
that does not merely turn "I" into "they".
"""

from __future__ import annotations

import re

from deployments.agent.data import clean, neutral
from deployments.agent.episode import check, person, unkept, wording

_FENCE = re.compile(r"```\w*\n?|~~~\w*\n?")
_BULLET = re.compile(r"^\s*(?:[-*•>#]+|\d+[.)])\s+", re.MULTILINE)
_QUOTES = "\"'“”„«»‘’` \n\t"
_MARKED = re.compile(r"\*\*|__")


def mended(text: str, language: str | None, read: check.Read) -> str:
    """The part of `text` that may be kept; empty where there is none. It still has to be checked as a whole."""
    kept: list[str] = []
    for sentence in unkept.sentences(_bare(text)):
        told = person.reported(sentence, language)
        told = told if told[-1:] in ".!?…" else f"{told}."
        if told not in kept and not check.sentence_faults(told, language, read):
            kept.append(told)
    if kept and not person.names_someone(" ".join(kept), language):
        kept[0] = f"{wording.of(language).quoting} {kept[0]}"
    return _cut(kept)


def _bare(text: str) -> str:
    """`text` without fences, bullets, quotes around it and an introduction."""
    text = _MARKED.sub("", _BULLET.sub("", _FENCE.sub("", neutral(clean(text)))))
    return check.PREAMBLE.sub("", text.strip(_QUOTES)).strip(_QUOTES)


def _cut(sentences: list[str]) -> str:
    """As many whole sentences as an episode holds; where the first is too long, as many of its words."""
    kept: list[str] = []
    for sentence in sentences:
        if not _fits(" ".join([*kept, sentence])):
            break
        kept.append(sentence)
    if kept or not sentences:
        return " ".join(kept)
    words = sentences[0].split()[: check.MOST_WORDS]
    while words and not _fits(" ".join(words) + unkept.GAP):
        words.pop()
    return " ".join(words).rstrip(",;:.") + unkept.GAP if words else ""


def _fits(text: str) -> bool:
    return len(text) <= check.MOST_CHARS and len(text.split()) <= check.MOST_WORDS
