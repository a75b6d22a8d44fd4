"""What recall shows, as a rule over scores; what makes two texts the same."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memory_store.entry import Entry, EntryId, Source, check_text, folded_sha256, new_id
from memory_store.errors import InvalidEntry
from memory_store.recall import Caps, Scored, choose

NOW = datetime(2026, 12, 1, tzinfo=UTC)
CAPS = Caps(floor=0.4, entries=2, tokens=10)


def scored(name: str, score: float, chars: int = 8) -> Scored:
    entry = Entry(EntryId(name), "fact", "x" * chars, Source("person", "t"), None, NOW, NOW, None)
    return Scored(entry, score)


def ids(found: object) -> list[str]:
    return [one.entry.id for one in found]  # type: ignore[attr-defined]


def test_the_nearest_above_the_floor_are_shown_and_the_rest_explained() -> None:
    found = choose([scored("a", 0.9), scored("b", 0.6), scored("c", 0.5), scored("d", 0.3)], CAPS)
    assert ids(found.shown) == ["a", "b"]
    assert [(one.entry.id, why) for one, why in found.left_out] == [("c", "over_entry_cap"), ("d", "below_floor")]
    assert found.as_dict()["left_out"][1] == {"id": "d", "score": 0.3, "reason": "below_floor"}


def test_an_entry_too_long_for_what_is_left_is_passed_over() -> None:
    found = choose([scored("a", 0.9), scored("long", 0.8, 60), scored("c", 0.7)], CAPS)
    assert ids(found.shown) == ["a", "c"] and found.left_out[0][1] == "over_token_cap"


def test_the_floor_itself_is_enough_and_nothing_is_a_normal_answer() -> None:
    assert ids(choose([scored("a", 0.4)], CAPS).shown) == ["a"]
    assert choose([], CAPS).shown == () and choose([scored("a", 0.39)], CAPS).shown == ()


def test_a_preference_restated_a_hundred_times_is_one_text() -> None:
    """Behaviour 1: case, spacing and punctuation aside."""
    variants = {
        form(f"{before}I prefer tabs{comma}in Go code{after}")
        for form in (str, str.upper, str.lower, str.title)
        for before in ("", " ", "- ", '"')
        for comma in (" ", "  ", ", ", "\n")
        for after in ("", ".", "!", " …", '"')
    }
    assert len(variants) >= 100 and len({folded_sha256(text) for text in variants}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I prefer tabs.", "I prefer spaces."), ("Port 5432.", "Port 5433."), ("I like C.", "I like C++."), ("C", "C#"),
        ("Version 1.5", "Version 15"), ("a/b", "a b"), ("x < 3", "x > 3"), ("I do", "I do not"), ("€5", "$5"),
    ],
)  # fmt: skip
def test_texts_that_differ_in_meaning_are_two(one: str, other: str) -> None:
    assert folded_sha256(one) != folded_sha256(other)


def test_unicode_forms_are_one_text() -> None:
    assert folded_sha256("čaj") == folded_sha256("c\u030caj") == folded_sha256("ČAJ")


@pytest.mark.parametrize("text", ["", "  \n", "...", "x" * 501, "a\x00", "a\x1b[0m", "\ud800"])
def test_what_cannot_be_kept(text: str) -> None:
    with pytest.raises(InvalidEntry):
        check_text(text)


def test_what_can_be_kept() -> None:
    for text in ("x" * 500, "two\nlines\tand a tab", "čaj 👩‍💻", "5"):
        check_text(text)


def test_ids_sort_by_time_and_do_not_repeat() -> None:
    made = [new_id() for _ in range(1000)]
    assert len(set(made)) == 1000 and [one[:14] for one in made] == sorted(one[:14] for one in made)
