"""What a summary may rest on: the person's own words and answers known to be clean, without what must never be kept.

Anything else could write into memory for good: a page, a forged answer, a recalled entry that comes back as new. So it
is left out before a model reads it, and what is left stands one message a line, where no text can open a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from deployments.agent.data import clean, neutral
from deployments.agent.episode.unkept import GAP, sentences, taken_out
from deployments.tiers.contract import Message

_CITES = re.compile(r"\[[^\[\]]{0,200}?\bm(?:\d{1,3}|_[0-9a-f]+)\b[^\[\]]{0,200}\]", re.IGNORECASE)
_POLITE = (
    r"thank you(?: (?:so|very) much)?(?: for (?:your|the) help)?|many thanks|thanks(?: a lot| again)?|please|hi|hey"
    r"|hello(?: there)?|good (?:morning|evening|day)|bye|goodbye|ok|okay|great|cool"
    r"|hvala(?: (?:vam|ti|lijepa|puno))?|molim(?: (?:vas|te))?|bok|dobar dan|dobro jutro|dobra večer|pozdrav|u redu|super"
    r"|danke(?: schön| sehr)?|vielen dank|bitte|hallo|guten (?:tag|morgen|abend)"
    r"|merci(?: beaucoup)?|s'il vous plaît|bonjour|salut|gracias|muchas gracias|por favor|hola|buenos días|grazie(?: mille)?"
    r"|per favore|ciao|buongiorno|obrigad[oa]|olá|bom dia"
)
_ONLY_POLITE = re.compile(rf"(?:(?:{_POLITE}|{GAP})[\s,.!?:)(-]*)+", re.IGNORECASE)
_POLITE_END = re.compile(rf",\s*(?:{_POLITE})(?=[.!?…]*$)", re.IGNORECASE)
# Nobody speaks of themselves as "the person", of the conversation as a tag, or to the tier that will summarise.
_TO_THE_TIER = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:above|previous|prior|earlier|instructions?|rules|conversation)\b"
    r"|\b(?:zanemari\w*|ignoriraj\w*)\b.{0,40}\b(?:gore|prethodn\w+|ranij\w+|upute?|iznad)\b"
    r"|\b(?:ignorier\w*|vergiss)\b.{0,40}\b(?:oben|obige\w*|vorherige\w*|anweisung\w*)\b"
    r"|\b(?:ignore[rz]?|oublie[rz]?)\b.{0,40}\b(?:ci-dessus|précédent\w*|instructions?)\b"
    r"|\b(?:ignora\w*|olvida)\b.{0,40}\b(?:anterior\w*|instruc\w+|precedent\w+|sopra|istruzioni|acima)\b"
    r"|\b(?:write|say|note|add|state|remember|summari[sz]e|report|napiši|zapiši|reci|zapamti|schreibe?|écris|note[rz]?|escribe|scrivi|escreve)\b"
    r"\W+(?:(?:down|only|also|just|that|da|je|kako|dass|que|che)\W+){0,3}"
    r"(?:the (?:person|user)|(?:osoba|korisnik)|die person|der nutzer|la personne|la persona|l'utente|a pessoa)\b"
    r"|</?\s*(?:conversation|transcript|session|messages?|user|assistant|system|person|data|summary|instructions?)\b[^>]*>"
    r"|\[/?(?:data|end|system|user|assistant|inst)\b[^\]]*\]"
    rf"|<\s?[|{GAP}]",
    re.IGNORECASE,
)
_ROLE = re.compile(
    r"^[\s>*#_-]*(?:the )?(?:system|assistant|user|person|human|ai|tool|developer|osoba|pomoćnik|korisnik|assistent|personne|"
    r"persona|assistente|asistente|pessoa|utilisateur|nutzer)\s*[*_]*\s*[:：]",
    re.IGNORECASE,
)
_WORDS_A_GAP = 5  # "My address is …" says nothing without what was taken out
_LETTERS = re.compile(r"[^\W\d_]{2,}")


class KnowsAnswers(Protocol):
    """The part of the ledger's records that is needed here."""

    async def clean(self, subject: str, answers: Collection[str]) -> set[str]:
        """Those of the answers that were given to this subject in a turn that read nothing from outside."""


@dataclass(frozen=True)
class Line:
    """One message as the tier reads it; `role` None: a report of earlier ones."""

    role: str | None
    text: str


@dataclass(frozen=True)
class Transcript:
    """The lines in order, and how many messages and sentences were left out, by reason."""

    lines: tuple[Line, ...]
    left_out: dict[str, int] = field(default_factory=dict)


def words_of(lines: Sequence[Line], role: str | None = None) -> str:
    """What the lines say, one a line; those of `role` alone where one is given."""
    return "\n".join(line.text for line in lines if role in (None, line.role))


async def read(messages: Sequence[Message], subject: str, records: KnowsAnswers) -> Transcript:
    """What of `messages` may be summarised. `left_out` counts `assistant_messages` (not known to be clean),
    `cited_sentences` and `sentences_to_the_tier`."""
    answers = {message["content"] for message in messages if message["role"] == "assistant"} - {""}
    known = await records.clean(subject, answers)
    left_out = {"assistant_messages": 0, "cited_sentences": 0, "sentences_to_the_tier": 0}
    lines = []
    for message in messages:
        if message["role"] not in ("user", "assistant"):
            continue
        if message["role"] == "assistant" and message["content"] not in known:
            left_out["assistant_messages"] += bool(message["content"])
            continue
        if text := _readable(message["content"], message["role"], left_out):
            lines.append(Line(message["role"], text))
    return Transcript(tuple(lines), left_out)


def _readable(content: str, role: str, left_out: dict[str, int]) -> str:
    """What is read of a message, on one line; empty where nothing says anything."""
    said = sentences(taken_out(clean("\n".join(content.splitlines()))))
    if role == "assistant":
        uncited = _uncited(said)
        left_out["cited_sentences"] += len(said) - len(uncited)
        said = uncited
    own = [sentence for sentence in said if not (_TO_THE_TIER.search(sentence) or _ROLE.match(sentence))]
    left_out["sentences_to_the_tier"] += len(said) - len(own)
    kept = [_POLITE_END.sub("", sentence) for sentence in own if _says_something(sentence)]
    return neutral(" ".join(" ".join(kept).split()))


def _uncited(said: Sequence[str]) -> list[str]:
    """Sentences that cite no entry. A label that opens a sentence belongs to the one before as well."""
    cites = [bool(_CITES.search(sentence)) for sentence in said]
    opens = [*(bool(_CITES.match(sentence)) for sentence in said), False][1:]
    return [sentence for sentence, one, next_one in zip(said, cites, opens, strict=True) if not (one or next_one)]


def _says_something(sentence: str) -> bool:
    words = len(_LETTERS.findall(sentence))
    full_of_gaps = sentence.count(GAP) * _WORDS_A_GAP > words
    return words > 0 and not full_of_gaps and not _ONLY_POLITE.fullmatch(sentence)
