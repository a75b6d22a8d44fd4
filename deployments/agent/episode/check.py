"""Whether a text may be kept as an episode: rules a model was asked to follow, and is not trusted to.

Each fault has a rule that can be told to the model.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from deployments.agent.data import clean, neutral
from deployments.agent.episode import person, unkept, wording
from deployments.agent.episode.errors import Reason
from memory_store.entry import TEXT_CHARS
from memory_store.language import detect

MOST_WORDS, MOST_CHARS = 80, TEXT_CHARS
_LEAST_WORDS = 3
_OWN_SHARE = 0.5  # of a sentence's longer words must stand in what was read
_STEM_CHARS = 5  # inflected forms of one word mostly share so many
_LONG_WORD = 4
_NOUNS_IN_CAPITALS = ("de", "lb")
_NO_SPACES = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff"  # Thai, Kana, Han: a letter counts as a word
_WORD = re.compile(rf"[{_NO_SPACES}]|[^\W_{_NO_SPACES}]+(?:['’.-][^\W_{_NO_SPACES}]+)*")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_NOT = re.compile(
    r"\b(?:not|never|no|cannot|none|nothing|without|\w+n['’]t|ne|nije|nisu|nema|nemaju|nikad\w*|ništa|bez|nicht|nie|kein\w*|ohne"
    r"|pas|jamais|sans|aucune?|sin|nunca|nada|non|mai|senza|não|sem)\b|\bne(?:ma|će|mogu|moj)",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"(?:^|(?<=[.!?…] )|\n)\W{0,3}(?:the )?(?:system|assistant|user|person|human|osoba|pomoćnik|korisnik|assistent|personne|"
    r"persona|asistente|assistente|pessoa|utilisateur|nutzer)\W{0,3}[:：]|\[/?(?:data|end|m\d+|m_)\b|</?[a-z][^>]*>|\*\*|^\s*#",
    re.IGNORECASE,
)
PREAMBLE = re.compile(
    r"^\W*(?:(?:sure|certainly|of course|okay|ok|here(?:'s| is| are)|this is|below is|evo|naravno|ovo je|slijedi"
    r"|hier (?:ist|sind)|natürlich|voici|bien sûr|aquí (?:está|tiene)|claro|ecco|aqui está)\b[^.:!\n]{0,80}[.:!]"
    r"|(?:in )?(?:summary|report|sažetak|izvještaj|izvješće|zusammenfassung|bericht|résumé|rapport|resumen|informe|riassunto|"
    r"resoconto|resumo|relato)\W{0,3}:)\s*",
    re.IGNORECASE,
)
_REPORT_WORDS = frozenset(
    """
    said says told asked wanted wants that they their them person user about with
    rekla rekao kaže pitala pitao htjela osoba korisnik njezin njezina njezino
    sagte sagt dass person nutzer ihre ihrem ihren wollte möchte fragte personne elle voulait demandé
    persona dijo dice preguntó quiere detto chiesto vuole pessoa disse perguntou quer
    """.split()  # noqa: SIM905 (a list of words reads better as words)
)


@dataclass(frozen=True)
class Read:
    """What the tier read: all of it, and the assistant's share."""

    words: str
    answers: str = ""


@dataclass(frozen=True)
class Fault:
    """Why a text may not be kept."""

    reason: Reason
    told: str  # a rule for the model, which breaks it less when it is told


def faults(text: str, language: str | None, read: Read) -> list[Fault]:
    """What is wrong with `text` as the episode of a session in `language` of which that was read; empty when nothing is."""
    if len(_WORD.findall(text)) < _LEAST_WORDS or not _content(text):
        return [Fault("empty", "Say what the person said.")]
    return [
        *_of_language(text, language),
        *_form(text),
        *_echoed(text, language),
        *_unsafe(text),
        *_of_person(text, language),
        *_answers(text, read),
        *_invented(text, language, read),
    ]


def sentence_faults(sentence: str, language: str | None, read: Read) -> list[Fault]:
    """What is wrong with a sentence whatever stands around it."""
    return [
        *_markup(sentence),
        *_echoed(sentence, language),
        *_unsafe(sentence),
        *_spoken(sentence, language),
        *_answers(sentence, read),
        *_invented(sentence, language, read),
    ]


def _form(text: str) -> list[Fault]:
    found = _markup(text)
    words = len(text.split())
    if words > MOST_WORDS or len(text) > MOST_CHARS:
        found.append(Fault("form", f"Write at most {MOST_WORDS} words and {MOST_CHARS} characters."))
    if "\n" in text.strip():
        found.append(Fault("form", "Write one paragraph, without lists."))
    if max(Counter(one.casefold() for one in unkept.sentences(text)).values(), default=1) > 1:
        found.append(Fault("form", "Say each thing once."))
    return found


def _markup(text: str) -> list[Fault]:
    if PREAMBLE.search(text):
        return [Fault("form", "Begin with the report itself, without an introduction.")]
    if _LABEL.search(text) or neutral(text) != text or clean(text) != text:
        return [Fault("form", "Write plain sentences, without labels, tags or markup.")]
    return []


def _echoed(text: str, language: str | None) -> list[Fault]:
    """The request itself, which a small model may hand back."""
    asked = wording.of(language)
    heads = (asked.ask.partition(":")[0], asked.task.partition(":")[0], wording.RULES)
    if not any(head.casefold() in text.casefold() for head in heads):
        return []
    return [Fault("form", "Do not repeat the request.")]


def _unsafe(text: str) -> list[Fault]:
    return [Fault("unsafe", f"Leave out {kind}.") for kind in unkept.found(text)]


def _of_person(text: str, language: str | None) -> list[Fault]:
    found = _spoken(text, language)
    if not person.names_someone(text, language):
        found.append(Fault("person", f"Begin with: {wording.of(language).opening}"))
    return found


def _spoken(text: str, language: str | None) -> list[Fault]:
    words = person.spoken(text, language)[:3]
    if not words:
        return []
    named = ", ".join(f'"{word}"' for word in words)
    return [Fault("person", f"Do not say {named}: speak about the person in the third person.")]


def _answers(text: str, read: Read) -> list[Fault]:
    """An answer repeated is advice to nobody."""
    given = {sentence.casefold() for sentence in unkept.sentences(read.answers)}
    if given.isdisjoint(sentence.casefold() for sentence in unkept.sentences(text)):
        return []
    return [Fault("person", "Do not repeat an answer: say what the person did with it.")]


def _of_language(text: str, language: str | None) -> list[Fault]:
    written = detect(text) if language else None
    if written in (None, language):
        return []
    return [Fault("language", f"Write in {wording.of(language).name}.")]


def _invented(text: str, language: str | None, read: Read) -> list[Fault]:
    known = {word.casefold() for word in _WORD.findall(read.words)}
    if set(_NUMBER.findall(text)) - set(_NUMBER.findall(read.words)):
        return [Fault("invented", "Use no number that was not said.")]
    if not all(_stands_in(name, known) for name in _names(text, language)):
        return [Fault("invented", "Use no name that was not said.")]
    if (denied := _NOT.search(text)) and not _NOT.search(read.words):
        return [Fault("invented", f'Deny nothing: do not say "{denied[0]}".')]
    stems = {word[:_STEM_CHARS] for word in known}
    if _from_examples(text, language, stems):
        return [Fault("invented", "Do not repeat the examples.")]
    if not all(_own(sentence, stems) for sentence in unkept.sentences(text)):
        return [Fault("invented", "Say nothing that was not said.")]
    return []


def _from_examples(text: str, language: str | None, stems: set[str]) -> bool:
    """Whether a word betrays an example of the prompt, of which nothing was said."""
    telling = {word.casefold()[:_STEM_CHARS] for word in wording.of(language).telling.split()} - stems
    return any(word[:_STEM_CHARS] in telling for word in _content(text))


def _names(text: str, language: str | None) -> list[str]:
    """Words written as names are: more than one capital, or one inside a sentence, where not every noun has it."""
    words = list(_WORD.finditer(text))
    named = [found[0] for found in words if any(char.isupper() for char in found[0][1:])]
    if language not in _NOUNS_IN_CAPITALS:
        named += [found[0] for found in words if found[0][0].isupper() and person.inside(text, found.start())]
    return named


def _stands_in(name: str, known: set[str]) -> bool:
    """Whether the name, its ending aside, begins a word that was read."""
    root = name.casefold()[: max(2, len(name) - 2)][: _STEM_CHARS + 1]
    return any(word.startswith(root) for word in known)


def _own(sentence: str, stems: set[str]) -> bool:
    words = _content(sentence)
    own = sum(word[:_STEM_CHARS] in stems for word in words)
    return own >= _OWN_SHARE * len(words)


def _content(text: str) -> list[str]:
    """Longer words that are not those of any report."""
    words = (word.casefold() for word in _WORD.findall(text))
    return [word for word in words if (len(word) >= _LONG_WORD or word > "\u0e00") and word not in _REPORT_WORDS]
