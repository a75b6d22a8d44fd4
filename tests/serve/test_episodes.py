"""The end of a session, with the real models: one entry is left of it, and nothing else."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.serve.chunks import turn
from tests.serve.running import RunningService
from tests.serve.test_privacy import everything

pytestmark = [pytest.mark.graph, pytest.mark.timeout(300)]
ENTRIES, END = "/v1/memory/entries", "/v1/sessions/end"
EXPORT = "My nightly export of invoices fails with a timeout."
ADVICE = "Raise the statement timeout and export by month."


def messages(*said: str) -> list[dict[str, str]]:
    """Person and assistant in turn."""
    roles = ("user", "assistant")
    return [{"role": roles[place % 2], "content": text} for place, text in enumerate(said)]


def end(http: httpx.Client, said: list[dict[str, str]], tries: int = 3) -> dict[str, Any]:
    """The episode of a session. The smallest model is refused now and then; the answer says that one may try again.

    Two sessions on one matter may leave the same words: then the entry that exists is the answer, with 200.
    """
    for _ in range(tries):
        response = http.post(END, json={"agent": "code-reviewer", "messages": said})
        if response.status_code != 409:
            break
        assert response.json()["error"]["code"] == "episode_refused"
    assert response.status_code in (200, 201), response.text
    answer: dict[str, Any] = response.json()
    assert ("duplicate_of" in answer) == (response.status_code == 200)
    return answer


def sound(episode: dict[str, Any]) -> bool:
    text = episode["text"]
    return episode["kind"] == "episode" and 3 <= len(text.split()) <= 80 and len(text) <= 500 and "`" not in text


def test_a_session_leaves_one_episode_that_is_recalled_with_its_date(http: httpx.Client) -> None:
    episode = end(http, messages(EXPORT, ADVICE, "By month works, thank you."))
    assert sound(episode) and episode["source"] == {"by": "session", "ref": "code-reviewer"}
    assert episode["language"] == "en" and "I " not in episode["text"]
    assert episode["left_out"], "the answer was none of this platform's, so it was not read"
    assert "statement" not in episode["text"]
    (listed,) = http.get(ENTRIES, params={"kind": "episode"}).json()["data"]
    assert listed["id"] == episode["id"]
    shown = http.post("/v1/memory/recall", json={"query": "What about my nightly export of invoices?"}).json()["shown"]
    assert [entry["id"] for entry in shown] == [episode["id"]]
    assert http.delete(f"{ENTRIES}/{episode['id']}").status_code == 204


def test_it_is_charged_and_recorded_as_the_persons_own_generation(http: httpx.Client) -> None:
    used = http.get("/v1/usage").json()["tokens"]["used"]
    end(http, messages(EXPORT, ADVICE, "By month works, thank you."))
    usage = http.get("/v1/usage").json()["tokens"]
    records = http.get("/v1/generations").json()["data"]  # one, and one for each try that was refused
    assert {(record["tier"], record["agent"]) for record in records} == {("fast", "code-reviewer")}
    assert records[0]["outcome"] == "completed"
    counts = ("prompt_tokens", "completion_tokens", "embedding_tokens")
    charged = sum(record[count] for record in records for count in counts)
    assert usage["used"] - used == charged > 50 and usage["reserved"] == 0


def test_an_answer_of_this_platform_is_read_and_a_changed_one_is_not(http: httpx.Client) -> None:
    answer = turn(http, f"{EXPORT} Name one thing to try, in one short sentence.", max_tokens=40).answer
    read = end(http, messages(EXPORT, answer, "By month works, thank you."))
    assert "assistant_messages" not in read["left_out"]
    changed = end(http, messages(EXPORT, f"{answer} Really.", "By month works, thank you."))
    assert changed["left_out"]["assistant_messages"] == 1


def test_the_language_of_the_person_is_kept(http: httpx.Client) -> None:
    said = "Noćni izvoz računa svaki put stane zbog isteka vremena. Od sutra ćemo izvoziti mjesec po mjesec."
    response = http.post(END, json={"agent": "code-reviewer", "messages": messages(said)})
    if response.status_code == 409:  # a small model may not manage; then it says so and keeps nothing
        assert response.json()["error"]["code"] == "episode_refused"
        assert http.get(ENTRIES).json()["data"] == []
    else:
        assert response.json()["language"] == "hr" and sound(response.json())


WEEK = (
    "On Monday I moved the {0} to the new billing server, and it took the whole morning.",
    "The {0} then failed twice because a certificate had expired, so I renewed it with Ivana's help.",
    "On Wednesday the customers noticed that invoices of the {0} came twice; I found a job that ran on both servers.",
    "I switched the old job off, and since Thursday the {0} runs once a night as it should.",
    "On Friday I wrote down for my colleagues how the {0} is restarted and who must be told.",
)
PARTS = ("invoice export", "reminder mailing", "tax report", "customer import", "payment matching", "contract archive")


def test_a_session_longer_than_the_window_is_summarised_in_parts(http: httpx.Client) -> None:
    long = [{"role": "user", "content": text.format(part)} for _ in range(7) for part in PARTS for text in WEEK]
    refused = http.post("/v1/chat/completions", json={"model": "fast", "messages": long})
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    assert sound(end(http, long))


def test_a_session_without_a_word_of_the_person_costs_nothing(http: httpx.Client) -> None:
    response = http.post(END, json={"agent": "code-reviewer", "messages": messages("  \n ")})
    assert response.status_code in (400, 409)
    assert http.get("/v1/usage").json()["tokens"]["used"] == 0


def test_an_exhausted_budget_refuses_before_the_model_is_asked(service: RunningService) -> None:
    with service.client(service.key(f"t-{secrets.token_hex(6)}", "--limit", "tokens_per_day=50")) as http:
        response = http.post(END, json={"agent": "code-reviewer", "messages": messages(EXPORT)})
        assert response.status_code == 429 and response.json()["error"]["code"] == "budget_exhausted"
        assert http.get(ENTRIES).json()["data"] == []


def test_no_word_of_the_transcript_is_found_anywhere_afterwards(
    service: RunningService, http: httpx.Client, eventually: Callable[..., Any]
) -> None:
    """Words that the summary did not take over: in tables, logs, the write-ahead log, Ray's session, shared memory."""
    marks = [f"q{secrets.token_hex(8)}" for _ in range(3)]
    said = messages(
        f"{EXPORT} The job id was {marks[0]}.",
        f"{ADVICE} See {marks[1]}.",
        f"By month works, thanks. {marks[2]} is done.",
    )
    episode = end(http, said)
    unsaid = [mark for mark in marks if mark not in episode["text"]]
    assert marks[1] in unsaid
    for mark in unsaid:
        assert [place for place, content in everything(service) if mark.encode() in content] == [], mark
