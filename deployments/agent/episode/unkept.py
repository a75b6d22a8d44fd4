"""An episode outlives its session, so code, commands, addresses and secrets have no place in it.

The same patterns take them out of what the tier reads and find them in what it wrote: what was not read is not repeated.
They run over all that a client sends, so each begins at the start of a run of characters, never inside one: linear time.
"""

from __future__ import annotations

import re

from memory_store.credentials import kind_of_credential

GAP = "…"  # stands where something was taken out; a model that repeats it does no harm
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”»)\]]*\s+|(?<=[。！？])|\n+")
_TLD = r"(?:com|org|net|io|dev|app|info|edu|gov|eu|hr|de|fr|uk|test|local|internal|example)"
_HOST = r"[\w-]+(?:\.[\w-]+)*"
_STREET_AFTER = r"(?:Street|St\.|Road|Rd\.?|Avenue|Ave\.?|Lane|Drive|Boulevard|Blvd\.?|Square)"
_STREET_BEFORE = r"(?:[Uu]lica|[Uu]l\.|[Tt]rg|[Aa]venija|[Rr]ue|[Cc]alle|[Aa]venida|[Vv]ia|[Vv]iale|[Pp]iazza|[Rr]ua)"
_COMMANDS = {
    "git": "add|commit|push|pull|reset|rebase|checkout|switch|clone|stash|merge|revert|cherry-pick",
    "docker": "run|exec|build|compose|pull|push|rm",
    "kubectl": "get|apply|delete|describe|exec|logs|rollout",
    "(?:pip3?|npm|yarn|brew|apt|apt-get|dnf|yum|cargo|gem)": "install|add|run|update|upgrade|remove",
    "systemctl": "start|stop|restart|reload|status|enable|disable",
    "sudo": r"[\w-]+",
    "(?:rm|cp|mv|mkdir|cat|chmod|chown|ssh|scp|curl|wget|python3?)": r"-{1,2}\w+|\S+\.\w{1,4}",
}
_CODE = (
    r"```[\s\S]*?(?:```|\Z)|~~~[\s\S]*?(?:~~~|\Z)",
    r"`+[^`\n]*`+",
    r"\b(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE (?:TABLE|INDEX)|ALTER TABLE|DROP TABLE) [^.!?\n]*",
    r"\bselect [\w*., ()]{1,200} from [^.!?\n]*",
    r"^[ \t]*(?:import [\w.]+(?: as \w+)?;?|from [\w.]+ import .*|return\b.*;|#include.*)[ \t]*$",
    r"^[ \t]*(?:(?:async )?(?:def|class|func|fn|function) \w+\s*[(:{].*|(?:const|let|var) \w+\s*=.*)$",
    r"^[^\n]*[{};][ \t]*$",
    r"\b\w+\(\)|\b\w+[._]\w+\([^)\n]*\)|\b[a-z]\w*\([\w.]*[,\"'\[=][^)\n]*\)",
    r"(?<!\S)\S*?(?:=>|==|!=|&&|\|\||::|\+=|-=|:=|->)\S*",
    r"(?<![\w.])\w[\w.]*\s?=\s?[\w\"'\[({-]\S*",
    r"[{}|\\]+",
)
_COMMAND = (
    r"^[ \t]*(?:\$|#|>|PS>)[ \t]+\S[^\n]*$",
    r"(?<![\w.-])[a-z][\w.]*(?: [\w./-]{1,80})?(?: --?[A-Za-z][\w-]*(?:[= ][\w./:~-]+)?)+",
    *(rf"\b{tool} (?:{verbs})(?:\s+[\w./:@~-]+)" for tool, verbs in _COMMANDS.items()),
    r"(?<![\w/])(?:~|\.{1,2})?/[\w.-]+(?:/[\w.-]*)+|\b[A-Za-z]:\\\S*",
)
_LINK = (
    r"(?:(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://|\b[Ww]{3}\.)\S+",
    rf"(?<![\w.@-]){_HOST}\.[A-Za-z]{{2,12}}/\S*",
    rf"(?<![\w.@-])(?:[a-z0-9-]+\.)+{_TLD}\b",
)
_ADDRESS = (
    r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)*",
    r"\b\d{1,3}(?:\.\d{1,3}){3}(?:/\d+)?(?::\d+)?\b",
    r"(?<![\w:])(?:[0-9a-f]{1,4}:){2,7}:?[0-9a-f]{1,4}(?![\w:])|(?<![\w:])(?:[0-9a-f]{0,4}:){0,6}:[0-9a-f]{1,4}(?![\w:])(?<=::\w)",
    rf"(?<![\w.-])(?=[\w.-]*[a-z]){_HOST}:\d{{2,5}}\b|\blocalhost\b",
    r"(?<![\w.])(?:\+|00)\d[\d ()/-]{7,}\d",
    rf"\b\d{{1,5}}[a-z]? (?:[A-Z][\w'’-]* ){{1,3}}{_STREET_AFTER}(?!\w)",
    r"\b[A-ZÄÖÜ][\wäöüß-]*(?:straße|strasse|str\.|gasse|weg|platz|allee) \d+\w?",
    rf"\b{_STREET_BEFORE} (?:[\w'’.-]+ ){{1,4}}?\d+\w?\b|\b\d+\w?,? rue(?: [\w'’-]+){{1,4}}",
)
_PATTERNS = {
    "a link": re.compile("|".join(_LINK)),
    "an address": re.compile("|".join(_ADDRESS)),
    "a command": re.compile("|".join(_COMMAND), re.MULTILINE),
    "code": re.compile("|".join(_CODE), re.MULTILINE),
}
_FENCE = re.compile(_CODE[0])
_SPACED = re.compile(rf"(?:{GAP}[ \t]*)*{GAP}(?:[ \t]+(?=[.,;:!?)]))?")


def found(text: str) -> list[str]:
    """What in `text` cannot be kept, as words: "a link", "an address", "a command", "code", or the kind of credential."""
    kinds = [kind for kind, pattern in _PATTERNS.items() if pattern.search(text)]
    credential = kind_of_credential(text)
    return kinds + ([credential] if credential else [])


def taken_out(text: str) -> str:
    """`text` with a gap for each thing that cannot be kept; a sentence that still holds a credential goes whole.

    Lines stay lines.
    """
    text = _FENCE.sub(f" {GAP} ", text)
    text = "\n".join(_without_credentials(line) for line in text.split("\n"))
    for pattern in _PATTERNS.values():
        text = pattern.sub(f" {GAP} ", text)
    return _SPACED.sub(GAP, text)


def _without_credentials(line: str) -> str:
    if not kind_of_credential(line):
        return line
    kept = " ".join(GAP if kind_of_credential(word) else word for word in line.split())
    return " ".join(GAP if kind_of_credential(sentence) else sentence for sentence in sentences(kept))


def sentences(text: str) -> list[str]:
    """The sentences of `text` as written, without the white space between them. A line's end ends one."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part and part.strip()]
