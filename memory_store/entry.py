"""One thing remembered, and what makes a text fit to be remembered."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
import unicodedata
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal, NewType, get_args

from memory_store.credentials import kind_of_credential
from memory_store.errors import InvalidEntry
from memory_store.language import detect

Kind = Literal["fact", "preference", "episode"]
By = Literal["person", "agent", "session"]
EntryId = NewType("EntryId", str)
TEXT_CHARS = 500
REF_CHARS = 100
_MINUS = re.compile(r"(?<!\w)-(?=\d)")  # a sign, not a hyphen
_NOT = re.compile(r"!(?=[=\w])")  # an operator, not the end of a sentence
_ID = re.compile(r"m_[0-9a-f]{1,60}")
_MEANINGFUL_MARKS = "#%&@*/\\"  # punctuation to Unicode, part of a name to people: C#, 5 %, a/b


@dataclass(frozen=True)
class Source:
    """Where an entry comes from: who kept it, and a reference of theirs (an agent's or a client's name)."""

    by: By
    ref: str


@dataclass(frozen=True)
class Draft:
    """An entry about to be kept. Raises InvalidEntry when it cannot be."""

    kind: Kind
    text: str
    source: Source
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        check_kind(self.kind)
        check_text(self.text)
        check_expiry(self.expires_at)
        if len(self.source.ref) > REF_CHARS or _has_controls(self.source.ref):
            raise InvalidEntry(f"source.ref may have {REF_CHARS} characters, none of them control characters", "source")

    @cached_property
    def language(self) -> str | None:
        """ISO 639-1 code, None where it cannot be told; found when it is first asked for."""
        return detect(self.text)


@dataclass(frozen=True)
class Entry:
    """An entry as it is stored. Times are UTC."""

    id: EntryId
    kind: Kind
    text: str
    source: Source
    language: str | None
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready, times in ISO 8601; the key `expires_at` only where there is one."""
        values = asdict(self)
        for key in ("created_at", "updated_at", "expires_at"):
            values[key] = values[key].isoformat().replace("+00:00", "Z") if values[key] else None
        return {key: value for key, value in values.items() if not (key == "expires_at" and value is None)}


def new_id() -> EntryId:
    """`m_` and 28 hex digits that sort by time: 12 of milliseconds, 16 random."""
    return EntryId(f"m_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(8)}")


def check_kind(kind: str) -> None:
    """Raises InvalidEntry for a kind that does not exist."""
    if kind not in get_args(Kind):
        raise InvalidEntry(f"kind must be one of {', '.join(get_args(Kind))}", "kind")


def check_text(text: str) -> None:
    """Raises InvalidEntry unless `text` has 1 to 500 characters, something to read, no control characters and nothing
    that looks like a credential: what is recalled is shown to a model."""
    if len(text) > TEXT_CHARS:
        raise InvalidEntry(f"text has {len(text)} characters; at most {TEXT_CHARS} are kept, shorten it")
    if _has_controls(text):
        raise InvalidEntry("text has control characters; remove them")
    if not _folded(text):
        raise InvalidEntry("text is empty; say what to keep")
    if kind := kind_of_credential(text):
        raise InvalidEntry(f"text looks like it holds {kind}, which is not kept; keep where it lies instead")


def check_expiry(expires_at: datetime | None) -> None:
    """Raises InvalidEntry for a time without a zone or in the past."""
    if expires_at is None:
        return
    if expires_at.tzinfo is None:
        raise InvalidEntry("expires_at has no time zone; write it like 2030-01-31T12:00:00Z", "expires_at")
    if expires_at <= datetime.now(UTC):
        raise InvalidEntry("expires_at has passed; give a time to come, or leave it out", "expires_at")


def read_time(text: str) -> datetime:
    """A time as ISO 8601 with its zone. Raises InvalidEntry for anything else, so that none is silently never reached."""
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is not None:
            return time.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidEntry("a time must look like 2030-01-31T12:00:00Z, with its zone", "expires_at")


def folded_sha256(text: str) -> bytes:
    """Equal for texts that differ in case, white space, punctuation and Unicode form alone."""
    return hashlib.sha256(_folded(text).encode()).digest()


def is_id(text: str) -> bool:
    """Whether `text` has the form of an entry's id; what has not is no entry's."""
    return _ID.fullmatch(text) is not None


def _has_controls(text: str) -> bool:
    return any(unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t" for char in text)


def _folded(text: str) -> str:
    """Letters, digits, marks and symbols in lower case, everything between them one space."""
    text = unicodedata.normalize("NFC", text).casefold()
    text = _NOT.sub("\N{NOT SIGN}", _MINUS.sub("\N{MINUS SIGN}", text))
    kept = (char if _means(char) else " " for char in text)
    return " ".join("".join(kept).split())


def _means(char: str) -> bool:
    """Symbols and combining marks tell texts apart (C and C++, < and >, a vowel sign); most punctuation does not."""
    return unicodedata.category(char)[0] in "LMNS" or char in _MEANINGFUL_MARKS
