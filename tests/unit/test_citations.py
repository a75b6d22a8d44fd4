"""What an answer cites: labels of entries that were shown, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.agent.citations import cited

LABELS = {"m1": "m_a", "m2": "m_b", "m10": "m_j"}


@pytest.mark.parametrize(
    ("answer", "ids"),
    [
        pytest.param("Use tabs [m1].", ["m_a"], id="one"),
        pytest.param("As you like [m2], with tabs [m1].", ["m_b", "m_a"], id="in-the-order-of-the-answer"),
        pytest.param("[m1][m1] and [m1]", ["m_a"], id="each-once"),
        pytest.param("[m1, m2]", ["m_a", "m_b"], id="comma"),
        pytest.param("[m2;m1]", ["m_b", "m_a"], id="semicolon"),
        pytest.param("[ m1 ]", ["m_a"], id="spaces"),
        pytest.param("[m10]", ["m_j"], id="two-digits"),
        pytest.param("[m_b]", ["m_b"], id="by-id"),
        pytest.param("[m1](https://example.org)", ["m_a"], id="before-a-link"),
        pytest.param("[[m1]]", ["m_a"], id="doubled"),
        pytest.param("", [], id="empty"),
        pytest.param("m1 and (m2)", [], id="no-brackets"),
        pytest.param("[m1", [], id="not-closed"),
        pytest.param("[m3] [m99] [m_z]", [], id="not-shown"),
        pytest.param("[m11] [xm1] [m1x] [M1]", [], id="only-alike"),
    ],
)
def test_what_is_cited(answer: str, ids: list[str]) -> None:
    assert cited(answer, LABELS) == ids


def test_where_nothing_was_shown_nothing_is_cited() -> None:
    assert cited("[m1] [m_a]", {}) == []


@given(st.text(alphabet="[]m_12ab,; ", max_size=60))
def test_a_citation_is_always_of_an_entry_that_was_shown(answer: str) -> None:
    found = cited(answer, LABELS)
    assert set(found) <= set(LABELS.values()) and len(found) == len(set(found))
