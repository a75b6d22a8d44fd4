"""Keep an entry because the person asked to.

A model may call this unasked, or keep a sentence of its own. So what is kept must be in the person's own words: most of
its words stand in their turn. That also keeps it in the language it was said in.
"""

from __future__ import annotations

import unicodedata
from typing import Any

from tools.errors import ModelShouldRetry
from tools.tool import Context, Tool

_STEM_CHARS = 5  # inflected forms of one word mostly share so many
_OWN_WORDS_SHARE = 0.5


def in_own_words(text: str, said: str) -> bool:
    """Whether most words of `text` stand in what the person said, in any script, inflection aside."""
    theirs = _words(said)
    stems, run = {word[:_STEM_CHARS] for word in theirs}, " ".join(theirs)
    own = [word[:_STEM_CHARS] in stems or (not word.isascii() and word in run) for word in _words(text)]
    return bool(own) and sum(own) >= _OWN_WORDS_SHARE * len(own)


def _words(text: str) -> list[str]:
    folded = unicodedata.normalize("NFC", text).casefold()
    return "".join(char if unicodedata.category(char)[0] in "LMN" else " " for char in folded).split()


async def _run(context: Context, arguments: dict[str, Any]) -> str:
    if not in_own_words(arguments["text"], context.said):
        raise ModelShouldRetry(
            "Keep only what the person asked to keep, in their own words. If they did not ask, answer without this tool."
        )
    kind = arguments.get("kind", "fact")
    entry = await context.memory.keep(kind, arguments["text"], {"by": "agent", "ref": context.agent})
    return "Already known; nothing new was kept." if "duplicate_of" in entry else f"Kept: {entry['text']}"


TOOL = Tool(
    name="remember",
    description="Keep one short fact or preference about the person, only when they ask you to remember or note it.",
    parameters={
        "type": "object",
        "properties": {
            "text": {
                "type": "string",
                "minLength": 1,
                "maxLength": 500,
                "description": "One sentence in the person's language.",
            },
            "kind": {"type": "string", "enum": ["fact", "preference"]},
        },
        "required": ["text"],
        "additionalProperties": False,
    },
    right="memory",
    kind="memory",
    run=_run,
)
