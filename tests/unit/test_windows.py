"""Windows over a page (W)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.windows import window

TEXT = "First line of words [1] and more\n\nSecond line that is longer than the first [2]\nthird čćžšđ line\n" * 20


def walk(text: str, chars: int) -> list[str]:
    parts, offset = [], 0
    while offset is not None:
        one = window(text, offset, chars)
        assert one["offset"] == offset and one["total"] == len(text) and len(one["text"]) <= chars
        parts.append(one["text"])
        offset = one["next_offset"]
    return parts


@given(st.text(max_size=300), st.integers(1, 50))
def test_windows_one_after_another_are_the_whole_text(text: str, chars: int) -> None:
    parts = walk(text, chars)
    assert "".join(parts) == text and all(parts[:-1])


def test_a_window_ends_at_a_line_or_a_word_and_never_before_a_links_number() -> None:
    for chars in range(40, 200):
        parts = walk(TEXT, chars)
        assert all(part[-1].isspace() for part in parts[:-1])
        assert not any(re.match(r"\s*\[\d", part) for part in parts)


@pytest.mark.parametrize("character", ["e\u0301", "👩\u200d💻", "👍\U0001f3fd", "क\u093f", "🏳\ufe0f\u200d🌈"])
def test_a_character_of_several_code_points_stays_whole(character: str) -> None:
    """W01."""
    for chars in range(8, 24):
        for part in walk(character * 20, chars):
            assert len(part) % len(character) == 0


def test_marks_without_end_still_move_on() -> None:
    assert "".join(walk("e" + "\u0301" * 500, 10)) == "e" + "\u0301" * 500


@pytest.mark.parametrize(("offset", "chars"), [(-1, 10), (0, 0), (0, -5), (-(10**30), 1)])
def test_a_window_that_cannot_be(offset: int, chars: int) -> None:
    with pytest.raises(ValueError):
        window(TEXT, offset, chars)


@pytest.mark.parametrize("offset", [len(TEXT), len(TEXT) + 1, 10**30])
def test_past_the_end_there_is_nothing(offset: int) -> None:
    assert window(TEXT, offset, 100) == {"text": "", "offset": offset, "next_offset": None, "total": len(TEXT)}


def test_a_huge_window_is_the_rest() -> None:
    assert window(TEXT, 5, 10**30)["text"] == TEXT[5:]
    assert window("", 0, 1) == {"text": "", "offset": 0, "next_offset": None, "total": 0}
