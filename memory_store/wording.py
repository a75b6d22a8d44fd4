"""Two entries that differ only in their wording say one thing twice; recall shows the newer one alone.

Embeddings cannot tell them from opposites ("prefers tabs" and "prefers spaces" are as near as twins), so words decide: the
same content words in the same order, numbers, symbols and negations among them. To show one entry too many costs little and
to hide one costs a fact, so where it is doubtful two entries differ.
"""

from __future__ import annotations

import re
import unicodedata

# Words that carry no content of their own in a note about a person. Prepositions, negations, modal verbs and the third
# person do carry some: "to staging from production" is not "from staging to production", "she" is not "he".
_FUNCTION_WORDS = {
    "en": "a an the i i'm i've my mine we our you your this that these those am is are be been has have do does please also"
    " person person's user user's",
    "hr": "ja moj moja moje moji svoj svoja svoje ovaj ova ovo taj ta sam si je smo ste su se osoba korisnik korisnica",
    "de": "ich mein meine wir unser der die das ein eine bin ist sind bitte auch",
    "fr": "je j' mon ma mes nous notre le la les un une est sont aussi",
    "es": "yo mi mis nosotros el los las una es son también",
}
_BY_LANGUAGE = {language: frozenset(words.split()) for language, words in _FUNCTION_WORDS.items()}
_WORD = re.compile(r"[-\N{MINUS SIGN}+]?\d+(?:[.,:/-]\d+)*|[^\W_]+(?:['’][^\W_]+)*['’]?|[^\s\w]|_+")
_PUNCTUATION = frozenset('.,;:?"“”„()[]…–—')
_END = re.compile(r"[.!?…\s]+\Z")
_PLURAL_CHARS = 4


def key(text: str, language: str | None) -> tuple[str, ...]:
    """Equal for texts that say the same in other words, of which the function words of `language` are the ones that do not
    count; None: every word counts."""
    function_words = _BY_LANGUAGE.get(language or "", frozenset())
    words = [word for word in _words(text) if word not in function_words and word not in _PUNCTUATION]
    return tuple(_singular(word, language) for word in words) or (text,)


def _words(text: str) -> list[str]:
    """In lower case, but for names and abbreviations inside the sentence, which may look like small words: IT, US, Sam."""
    found = _WORD.findall(_END.sub("", unicodedata.normalize("NFC", text)))
    return [word if _is_a_name(word, place) else word.casefold() for place, word in enumerate(found)]


def _is_a_name(word: str, place: int) -> bool:
    abbreviated = len(word) > 1 and word.isupper()
    return abbreviated or (place > 0 and word[:1].isupper() and len(word) > 1)


def _singular(word: str, language: str | None) -> str:
    """ "tabs" and "tab", "prefers" and "prefer": enough of English to see one wording in another."""
    plural = language == "en" and len(word) >= _PLURAL_CHARS and word.isascii() and word.endswith("s")
    return word[:-1] if plural and not word.endswith("ss") else word
