"""When two entries say one thing in other words: rather never than wrongly, since the older one is not shown."""

from __future__ import annotations

import pytest

from memory_store.language import detect
from memory_store.wording import key

SAME = [
    ("I prefer tabs in Go.", "The person prefers tabs in Go"),
    ("Prefers tabs in Go code", "I prefer tabs in Go code!"),
    ("The port is 5432.", "the port is 5432"),
    ("My staging database is called ledger-7.", "The staging database is called ledger-7"),
    ("Volim kratke odgovore bez primjera.", "volim kratke odgovore bez primjera"),
    ("Ich bevorzuge kurze Antworten.", "ich bevorzuge kurze Antworten"),
]
OTHER = [
    ("I prefer tabs in Go.", "I prefer spaces in Go."),
    ("The port is 5432.", "The port is 5433."),
    ("I like tea.", "I don't like tea."),
    ("Volim čaj.", "Ne volim čaj."),
    ("I work in IT.", "I work in the US."),
    ("I work for us.", "I work for US customers."),
    ("Sam likes tea.", "I like tea."),
    ("My UTC offset is -5.", "My UTC offset is 5."),
    ("Use !x in the filter", "Use x in the filter"),
    ("Version 1.5 is used", "Versions 1-5 are used"),
    ("Deploys go from staging to production.", "Deploys go from production to staging."),
    ("Ana reviews Ivo's code.", "Ivo reviews Ana's code."),
    ("She writes Go.", "He writes Go."),
    ("We may deploy on Friday.", "We must deploy on Friday."),
    ("The lunch is at 12:30.", "The lunch is at 1:230."),
    ("a < b", "a > b"),
    ("C is used here", "C++ is used here"),
    ("Will is on leave", "Is on leave"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_another_wording(one: str, other: str) -> None:
    assert key(one, detect(one)) == key(other, detect(other))


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_another_thing(one: str, other: str) -> None:
    for language in (None, "en", "hr", detect(one)):
        assert key(one, language) != key(other, language)


def test_a_text_of_function_words_alone_is_itself() -> None:
    assert key("I am", "en") != key("You are", "en") and key("I am", "en")
