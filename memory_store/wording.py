"""Two entries that differ only in their wording say one thing twice; recall shows the newer one alone.

Embeddings cannot tell them from opposites ("prefers tabs" and "prefers spaces" are as near as twins), so words decide: the
same content words in the same order, numbers and negations among them.
"""

from __future__ import annotations

import re
import unicodedata

# Words that carry no content of their own in a note about a person. Prepositions, negations, modal verbs and the third
# person do carry some: "to staging from production" is not "from staging to production", "she" is not "he".
_FUNCTION_WORDS = frozenset(
    """
    a an the i me my mine we us our you your it its this that these those am is are be been being have has do does
    please also just really very person user person's user's
    ja mi moj moja moje moji svoj svoja svoje ti tvoj to ovaj ova ovo taj ta sam si je smo ste su li se
    molim također takoder baš vrlo osoba korisnik korisnica
    ich mein meine wir unser der die das ein eine bin ist sind bitte auch
    je j ma mon mes nous notre le la les un une est sont aussi
    yo mi mis nosotros el los las una es son también
    """.split()  # noqa: SIM905 (a list of words reads better as words)
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?|[^\s\w]+|_+")
_PUNCTUATION = re.compile(r"[.,;:!?\"'’“”„()\[\]…–—-]+")
_CONTRACTED = re.compile(r"['’](?:m|s|re|ve|ll|d)$")


def key(text: str) -> tuple[str, ...]:
    """Equal for texts with the same content words, numbers, symbols and negations in the same order."""
    folded = unicodedata.normalize("NFC", text).casefold()
    words = (_CONTRACTED.sub("", word) for word in _WORD.findall(folded) if not _PUNCTUATION.fullmatch(word))
    return tuple(_singular(word) for word in words if word not in _FUNCTION_WORDS) or (folded,)


def _singular(word: str) -> str:
    """ "tabs" and "tab", "prefers" and "prefer": enough of English to see one wording in another."""
    return word[:-1] if len(word) > 3 and word.isascii() and word.endswith("s") and not word.endswith("ss") else word
