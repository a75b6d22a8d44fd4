"""Entries as JSON Lines, out and in again: text and metadata, no vectors.

A person may write facts and preferences into such a file. Episodes are written by the platform alone, so each carries a
seal, and one without its seal is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NoReturn, get_args

from memory_store.entry import By, Draft, Entry, EntryId, Source, folded_sha256, is_id, read_time
from memory_store.errors import InvalidEntry

_KEYS = {"id", "kind", "text", "source", "language", "created_at", "updated_at", "expires_at", "seal"}
_REQUIRED = {"kind", "text"}
_SEAL_CHARS = 64
_TOLD_LINES = 50
_IMPORTED = Source("person", "import")  # of a line that says nothing, or says without a seal that someone else wrote it


@dataclass(frozen=True)
class Line:
    """An entry that a line tells. `id` is None where the line has none."""

    draft: Draft
    id: EntryId | None
    created_at: datetime
    updated_at: datetime

    @cached_property
    def folded(self) -> bytes:
        return folded_sha256(self.draft.text)


@dataclass(frozen=True)
class BadLine:
    """A line that cannot be an entry: its number, from 1, and why. The reason quotes nothing."""

    number: int
    reason: str


@dataclass(frozen=True)
class File:
    """What a file holds. Lines whose entry has expired since are counted in `expired` and left out."""

    lines: tuple[Line, ...]
    bad: tuple[BadLine, ...]
    expired: int


class Seals:
    """Tells the episodes that this platform wrote for a subject from those a person made up."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, subject: str, text: str, created_at: datetime) -> str:
        """64 hex digits: an HMAC-SHA256 of subject, text and time."""
        said = json.dumps([subject, text, created_at.astimezone(UTC).isoformat()])
        return hmac.new(self._key, said.encode(), hashlib.sha256).hexdigest()

    def holds(self, seal: object, subject: str, text: str, created_at: datetime) -> bool:
        fits = isinstance(seal, str) and len(seal) == _SEAL_CHARS and seal.isascii()
        return fits and hmac.compare_digest(str(seal), self.of(subject, text, created_at))


def written(entry: Entry, subject: str, seals: Seals) -> dict[str, Any]:
    """The entry as a line's JSON object, sealed where it was not the person who wrote it."""
    theirs = entry.kind != "episode" and entry.source.by == "person"
    seal = {} if theirs else {"seal": seals.of(subject, entry.text, entry.created_at)}
    return entry.as_dict() | seal


def read(raw: bytes, subject: str, seals: Seals, most_lines: int) -> File:
    """Every line of a file; empty lines are passed over."""
    lines: list[Line] = []
    bad: list[BadLine] = []
    expired = 0
    now = datetime.now(UTC)
    numbered = [(number, line) for number, line in enumerate(raw.split(b"\n"), 1) if line.strip()]
    if len(numbered) > most_lines:
        reason = f"a file may have {most_lines} lines; import it in parts"
        return File((), (BadLine(numbered[most_lines][0], reason),), 0)
    for number, one in numbered:
        try:
            values = _object(one)
            has_expired = _has_expired(values, now)
            line = _line({**values, "expires_at": None} if has_expired else values, subject, seals, now)
            expired += has_expired
            lines += [] if has_expired else [line]
        except InvalidEntry as error:
            bad.append(BadLine(number, str(error)))
    return File(tuple(lines), tuple(bad), expired)


def told(bad: Sequence[BadLine]) -> str:
    """Bad lines in words, the first of very many."""
    first = "; ".join(f"line {one.number}: {one.reason}" for one in bad[:_TOLD_LINES])
    return first + (f"; and {len(bad) - _TOLD_LINES} more" if len(bad) > _TOLD_LINES else "")


def _object(line: bytes) -> dict[str, Any]:
    try:
        values = json.loads(line.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refused)
    except UnicodeDecodeError:
        raise InvalidEntry("the line is not UTF-8", "line") from None
    except RecursionError:
        raise InvalidEntry("the line is nested too deeply", "line") from None
    except ValueError:
        raise InvalidEntry("the line is not valid JSON", "line") from None
    if not isinstance(values, dict):
        raise InvalidEntry("the line is not a JSON object", "line")
    values = {key: value for key, value in values.items() if value is not None}
    if missing := sorted(_REQUIRED - values.keys()):
        raise InvalidEntry(f"{missing[0]} is missing", missing[0])
    if values.keys() - _KEYS:
        raise InvalidEntry(f"the line has an unknown key; allowed: {', '.join(sorted(_KEYS))}", "line")
    for key, value in values.items():
        if key != "source" and not isinstance(value, str):
            raise InvalidEntry(f"{key} must be a string", key)
    return values


def _line(values: dict[str, Any], subject: str, seals: Seals, now: datetime) -> Line:
    created_at = _past(values, "created_at", now) or now
    updated_at = max(created_at, _past(values, "updated_at", now) or created_at)
    expires_at = read_time(values["expires_at"]) if values.get("expires_at") else None
    source = _source(values)
    is_sealed = seals.holds(values.get("seal"), subject, values["text"], created_at)
    draft = Draft(
        values["kind"], values["text"], source if is_sealed or source.by == "person" else _IMPORTED, expires_at
    )
    if draft.kind == "episode" and not is_sealed:
        raise InvalidEntry("an episode without its seal cannot be imported; make it a fact", "kind")
    entry = values.get("id")
    if entry is not None and not is_id(entry):
        raise InvalidEntry("id is not an entry's id; leave it out", "id")
    return Line(draft, EntryId(entry) if entry else None, created_at, updated_at)


def _source(values: dict[str, Any]) -> Source:
    """Where the entry came from, as the line says; a line that says nothing was written by the person."""
    if "source" not in values:
        return _IMPORTED
    source = values["source"]
    fits = isinstance(source, dict) and source.keys() == {"by", "ref"} and isinstance(source["ref"], str)
    if not fits or source["by"] not in get_args(By):
        raise InvalidEntry(f'source must be {{"by": {" or ".join(get_args(By))}, "ref": a string}}', "source")
    return Source(source["by"], source["ref"])


def _past(values: dict[str, Any], key: str, now: datetime) -> datetime | None:
    if key not in values:
        return None
    try:
        time = read_time(values[key])
    except InvalidEntry as error:
        raise InvalidEntry(f"{key}: {error}", key) from None
    if time > now:
        raise InvalidEntry(f"{key} lies in the future", key)
    return time


def _has_expired(values: dict[str, Any], now: datetime) -> bool:
    return "expires_at" in values and read_time(values["expires_at"]) <= now


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError
    return values


def _refused(name: str) -> NoReturn:
    raise ValueError
