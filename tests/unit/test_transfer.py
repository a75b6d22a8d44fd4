"""A memory as JSON Lines: what is written can be read again, and what cannot be an entry is named by its line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_store.entry import By, Entry, EntryId, Kind, Source
from memory_store.transfer import BadLine, File, Seals, read, told, written

ANA = "key|ana"
SEALS = Seals(b"s" * 32)
THEN = datetime(2026, 11, 1, 12, 30, 15, 123456, tzinfo=UTC)
LATER = datetime.now(UTC) + timedelta(days=30)


def entry(text: str = "Likes tea.", kind: Kind = "fact", expires_at: datetime | None = None) -> Entry:
    source = Source("session" if kind == "episode" else "person", "api")
    return Entry(EntryId("m_" + "a" * 28), kind, text, source, "en", THEN, THEN + timedelta(hours=1), expires_at)


def file(*lines: object, subject: str = ANA, most_lines: int = 100) -> File:
    raw = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return read(raw.encode("utf-8", "surrogatepass"), subject, SEALS, most_lines)


@pytest.mark.parametrize("kind", ["fact", "preference", "episode"])
@pytest.mark.parametrize("expires_at", [None, LATER])
def test_what_is_written_reads_back(kind: Kind, expires_at: datetime | None) -> None:
    one = entry("Živi u Zagrebu.\n\tI like “tea”.", kind, expires_at)
    read_back = file(written(one, ANA, SEALS))
    assert read_back.bad == () and read_back.expired == 0
    (line,) = read_back.lines
    assert (line.id, line.created_at, line.updated_at) == (one.id, one.created_at, one.updated_at)
    assert (line.draft.kind, line.draft.text, line.draft.source) == (one.kind, one.text, one.source)
    assert line.draft.expires_at == expires_at


def test_a_line_needs_a_kind_and_a_text_alone() -> None:
    (line,) = file({"kind": "fact", "text": "Likes tea."}).lines
    assert line.id is None and line.draft.source == Source("person", "import")
    assert line.created_at == line.updated_at


def test_empty_lines_and_windows_line_ends_are_fine() -> None:
    raw = b'\r\n{"kind": "fact", "text": "one"}\r\n\n  \n{"kind": "fact", "text": "two"}'
    found = read(raw, ANA, SEALS, 10)
    assert [line.draft.text for line in found.lines] == ["one", "two"] and not found.bad
    assert read(b"", ANA, SEALS, 10) == File((), (), 0)


FACT = {"kind": "fact", "text": "Likes tea."}
BAD: dict[str, tuple[Any, str]] = {
    "not JSON": ("{", "not valid JSON"),
    "two documents": ('{"kind": "fact", "text": "a"} {}', "not valid JSON"),
    "a key twice": ('{"kind": "fact", "text": "a", "text": "b"}', "not valid JSON"),
    "NaN": ('{"kind": "fact", "text": NaN}', "not valid JSON"),
    "a list": ("[1]", "not a JSON object"),
    "a string": ('"Likes tea."', "not a JSON object"),
    "null": ("null", "not a JSON object"),
    "very deep": ("[" * 100_000, "nested too deeply"),
    "not UTF-8": ("\udce9", "not UTF-8"),
    "no text": ({"kind": "fact"}, "text is missing"),
    "a null text": ({"kind": "fact", "text": None}, "text is missing"),
    "no kind": ({"text": "Likes tea."}, "kind is missing"),
    "a number as text": (FACT | {"text": 7}, "text must be a string"),
    "an unknown kind": (FACT | {"kind": "rumour"}, "kind must be one of"),
    "an unknown key": (FACT | {"txet": "x"}, "unknown key"),
    "an empty text": (FACT | {"text": " .!"}, "text is empty"),
    "a long text": (FACT | {"text": "x" * 501}, "501 characters"),
    "control characters": (FACT | {"text": "a\x00b"}, "control characters"),
    "half a surrogate pair": ('{"kind": "fact", "text": "\\ud800"}', "control characters"),
    "an episode without its seal": (FACT | {"kind": "episode"}, "without its seal"),
    "a made-up seal": (FACT | {"kind": "episode", "seal": "0" * 64}, "without its seal"),
    "a seal in another alphabet": (FACT | {"kind": "episode", "seal": "ž" * 64}, "without its seal"),
    "an id of another kind": (FACT | {"id": "7"}, "not an entry's id"),
    "a source without ref": (FACT | {"source": {"by": "person"}}, "source must be"),
    "an unknown source": (FACT | {"source": {"by": "god", "ref": ""}}, "source must be"),
    "a source of text": (FACT | {"source": "me"}, "source must be"),
    "a long ref": (FACT | {"source": {"by": "person", "ref": "x" * 101}}, "100 characters"),
    "a NUL in the ref": (FACT | {"source": {"by": "person", "ref": "\x00"}}, "100 characters"),
    "a malformed time": (FACT | {"expires_at": "soon"}, "a time must look like"),
    "a time without a zone": (FACT | {"expires_at": "2999-01-01T00:00:00"}, "a time must look like"),
    "a day": (FACT | {"created_at": "yesterday"}, "created_at: a time must look like"),
    "a creation to come": (FACT | {"created_at": "2999-01-01T00:00:00Z"}, "created_at lies in the future"),
    "a year beyond all": (FACT | {"expires_at": "99999-01-01T00:00:00Z"}, "a time must look like"),
    "a time at the end of time": (FACT | {"expires_at": "9999-12-31T23:59:59-23:59"}, "a time must look like"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_named_by_its_number(name: str) -> None:
    line, reason = BAD[name]
    found = file(FACT, line, FACT | {"text": "Likes coffee."})
    assert [one.number for one in found.bad] == [2], "and every other line is looked at"
    assert reason in found.bad[0].reason


@pytest.mark.parametrize("name", BAD)
def test_a_reason_quotes_nothing(name: str) -> None:
    line, _ = BAD[name]
    marked = (
        {key: "Markerword" if value == "Likes tea." else value for key, value in line.items()}
        if isinstance(line, dict)
        else line
    )
    assert "Markerword" not in told(file(marked).bad)


def test_very_many_bad_lines_are_told_in_part() -> None:
    text = told([BadLine(number, "text is empty") for number in range(1, 76)])
    assert "line 50: text is empty" in text and "line 51" not in text and text.endswith("and 25 more")


def test_a_file_with_too_many_lines_is_refused_whole() -> None:
    found = file(*[FACT] * 4, most_lines=3)
    assert found.lines == () and found.bad[0].number == 4 and "3 lines" in found.bad[0].reason


def test_what_has_expired_since_is_left_out_and_counted() -> None:
    found = file(FACT, FACT | {"text": "Over.", "expires_at": "2020-01-01T00:00:00Z"})
    assert len(found.lines) == 1 and found.expired == 1 and not found.bad


EXPIRED = {"expires_at": "2020-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    "wrong", [{"kind": "rumour"}, {"text": ""}, {"source": "me"}, {"id": "7"}, {"created_at": "soon"}]
)
def test_a_line_that_has_expired_is_validated_too(wrong: dict[str, Any]) -> None:
    assert [one.number for one in file(FACT | EXPIRED | wrong).bad] == [1]


@pytest.mark.parametrize("by", ["agent", "session"])
def test_only_a_sealed_line_says_that_someone_else_wrote_it(by: By) -> None:
    made_up = FACT | {"source": {"by": by, "ref": "code-reviewer"}}
    assert file(made_up).lines[0].draft.source == Source("person", "import")
    kept = Entry(EntryId("m_" + "a" * 28), "fact", "Likes tea.", Source(by, "code-reviewer"), "en", THEN, THEN, None)
    assert file(written(kept, ANA, SEALS)).lines[0].draft.source == Source(by, "code-reviewer")
    assert file(written(kept, ANA, SEALS), subject="key|ben").lines[0].draft.source == Source("person", "import")


@pytest.mark.parametrize("subject, text, shift", [("key|ben", "a", 0), (ANA, "b", 0), (ANA, "a", 1)])
def test_a_seal_is_good_for_its_subject_text_and_time_alone(subject: str, text: str, shift: int) -> None:
    seal = SEALS.of(ANA, "a", THEN)
    assert SEALS.holds(seal, ANA, "a", THEN)
    assert not SEALS.holds(seal, subject, text, THEN + timedelta(seconds=shift))
    assert not Seals(b"t" * 32).holds(seal, ANA, "a", THEN)


def test_an_episode_is_not_anothers() -> None:
    line = written(entry(kind="episode"), ANA, SEALS)
    assert not file(line).bad
    assert file(line, subject="key|ben").bad
    assert file(line | {"text": "Likes coffee."}).bad
    assert not file(line | {"kind": "fact"}).bad, "a person may make a fact of it"


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(raw: bytes) -> None:
    found = read(raw, ANA, SEALS, 50)
    assert len(found.lines) + len(found.bad) + found.expired <= raw.count(b"\n") + 1
