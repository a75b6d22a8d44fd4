"""What recall shows, as a rule over scores; what makes two texts the same."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_store.entry import Draft, Entry, EntryId, Source, check_kind, check_text, folded_sha256, is_id, new_id
from memory_store.errors import InvalidEntry
from memory_store.recall import Caps, Scored, choose, tokens_of

NOW = datetime(2026, 12, 1, tzinfo=UTC)
CAPS = Caps(floor=0.4, entries=2, tokens=10)


def scored(name: str, score: float, chars: int = 8) -> Scored:
    entry = Entry(EntryId(name), "fact", (name * chars)[:chars], Source("person", "t"), None, NOW, NOW, None)
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


def test_equal_scores_keep_the_order_of_the_store() -> None:
    assert ids(choose([scored("b", 0.9), scored("a", 0.9), scored("c", 0.9)], CAPS).shown) == ["b", "a"]


def test_a_token_cap_counts_what_is_shown_alone() -> None:
    caps = Caps(floor=0.4, entries=5, tokens=4)
    nearest = [scored("a", 0.9, 8), scored("b", 0.8, 9), scored("c", 0.7, 8), scored("d", 0.6, 1)]
    assert ids(choose(nearest, caps).shown) == ["a", "c"]
    assert (tokens_of(""), tokens_of("x"), tokens_of("xxxx"), tokens_of("xxxxx")) == (0, 1, 1, 2)


@given(
    st.lists(st.tuples(st.floats(-1, 1), st.integers(1, 500)), max_size=12),
    st.builds(Caps, floor=st.floats(-1, 1), entries=st.integers(1, 5), tokens=st.integers(1, 300)),
)
def test_whatever_is_stored_the_caps_hold_and_each_entry_is_accounted_for(
    found: list[tuple[float, int]], caps: Caps
) -> None:
    """Behaviour 6."""
    nearest = [scored(str(place), score, chars) for place, (score, chars) in enumerate(sorted(found, reverse=True))]
    recall = choose(nearest, caps)
    shown = list(recall.shown)
    assert len(shown) <= caps.entries and sum(tokens_of(one.entry.text) for one in shown) <= caps.tokens
    assert all(one.score >= caps.floor for one in shown)
    assert sorted(shown + [one for one, _ in recall.left_out], key=lambda one: int(one.entry.id)) == nearest
    assert shown == [one for one in nearest if one in shown]


def test_an_entry_in_json_has_its_times_and_no_empty_expiry() -> None:
    one = scored("a", 0.123456).as_dict()
    assert (one["score"], one["created_at"], one["source"]) == (
        0.1235,
        "2026-12-01T00:00:00Z",
        {"by": "person", "ref": "t"},
    )
    assert "expires_at" not in one


@pytest.mark.parametrize("text", ["e\u0301t\u00e9", "ÉTÉ", "  été!  ", "«été»", "été\u00a0"])
def test_spelling_that_people_vary_is_one_text(text: str) -> None:
    assert folded_sha256(text) == folded_sha256("été")


def test_what_is_wrong_with_a_text_is_said_without_repeating_it() -> None:
    """T13: errors are logged."""
    for text in ("secret" * 100, "secret\x00"):
        with pytest.raises(InvalidEntry) as error:
            check_text(text)
        assert "secret" not in str(error.value)


def test_a_draft_is_checked_whole() -> None:
    for kind, text, ref in (("note", "x", "r"), ("fact", "", "r"), ("fact", "x", "r" * 101)):
        with pytest.raises(InvalidEntry):
            Draft(kind, text, Source("person", ref))  # type: ignore[arg-type]
    Draft("preference", "x", Source("agent", "r" * 100))
    with pytest.raises(InvalidEntry, match="fact, preference, episode"):
        check_kind("note")


@pytest.mark.parametrize(
    "text", ["", "m_", "M_0a", "m_0A", "m_x", "0a", "m_0a ", "m_0a\n", "m_" + "0" * 61, "m_%", "m_*"]
)
def test_what_has_not_the_form_of_an_id_is_none(text: str) -> None:
    """M01."""
    assert not is_id(text) and is_id(new_id())
