"""A person's memory over HTTP: keep, find, correct, forget, out and in again, and the end of a session."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from configs import folders, loader
from memory_store import connect, upkeep
from serve.supervisor.state import running_settings
from tests.serve.chunks import turn
from tests.serve.running import RunningService
from tests.serve.test_bad_input import error_of

pytestmark = [pytest.mark.graph, pytest.mark.timeout(180)]
ENTRIES = "/v1/memory/entries"
END = "/v1/sessions/end"
LINES = {"Content-Type": "application/x-ndjson"}


def said(role: str) -> dict[str, str]:
    return {"role": role, "content": "a"}


@pytest.fixture
def other(service: RunningService) -> Iterator[httpx.Client]:
    """Another subject's client."""
    with service.client(service.key(f"t-{secrets.token_hex(6)}")) as client:
        yield client


def keep(http: httpx.Client, text: str, **more: Any) -> dict[str, Any]:
    response = http.post(ENTRIES, json={"text": text, **more})
    assert response.status_code in (200, 201), response.text
    entry: dict[str, Any] = response.json()
    return entry


def texts(http: httpx.Client) -> set[str]:
    return {entry["text"] for entry in http.get(ENTRIES, params={"limit": 200}).json()["data"]}


def ingest(http: httpx.Client, raw: str | bytes) -> httpx.Response:
    return http.post("/v1/memory/import", content=raw, headers=LINES)


def test_a_duplicate_is_the_entry_that_exists_and_a_similar_one_is_named(http: httpx.Client) -> None:
    first = http.post(ENTRIES, json={"kind": "preference", "text": "I prefer tabs in Go code."})
    assert first.status_code == 201 and "similar" not in first.json()
    again = http.post(ENTRIES, json={"kind": "preference", "text": "i prefer TABS in Go code"})
    assert again.status_code == 200 and again.json()["duplicate_of"] == first.json()["id"]
    spaces = http.post(ENTRIES, json={"kind": "preference", "text": "I prefer spaces in Go code."})
    assert spaces.status_code == 201 and spaces.json()["similar"] == [first.json()["id"]]
    assert spaces.json()["language"] == "en"


def test_replaces_corrects_the_entry_and_keeps_its_id(http: httpx.Client) -> None:
    old = keep(http, "The staging database listens on port 5432.")
    new = http.post(ENTRIES, json={"text": "The staging database listens on port 5433.", "replaces": old["id"]})
    assert new.status_code == 200 and new.json()["id"] == old["id"]
    assert texts(http) == {"The staging database listens on port 5433."}
    shown = http.post("/v1/memory/recall", json={"query": "Which port has the staging database?"}).json()["shown"]
    assert [entry["text"] for entry in shown] == ["The staging database listens on port 5433."]
    missing = http.post(ENTRIES, json={"text": "x y z", "replaces": "m_" + "0" * 28})
    assert error_of(missing, 404)["code"] == "entry_not_found"


def test_replaces_changes_what_is_said_and_nothing_else(http: httpx.Client) -> None:
    expires = "2999-01-01T00:00:00Z"
    old = keep(http, "I prefer tabs in Go code.", kind="preference", expires_at=expires)
    new = keep(http, "I prefer tabs in C code.", replaces=old["id"])
    assert (new["kind"], new["expires_at"]) == ("preference", expires)


def test_a_recall_answers_in_a_form_that_explains_itself(http: httpx.Client) -> None:
    for place in range(7):
        keep(http, f"The {place}. database server is called db{place}.example.")
    keep(http, "The cat sleeps on the sofa all day long.")
    answer = http.post("/v1/memory/recall", json={"query": "What are the database servers called?"}).json()
    assert set(answer) == {"shown", "left_out", "not_embedded"} and answer["not_embedded"] == 0
    assert len(answer["shown"]) == 5 and all("database" in entry["text"] for entry in answer["shown"])
    scores = [entry["score"] for entry in answer["shown"]]
    assert scores == sorted(scores, reverse=True) and min(scores) >= 0.83
    reasons = {one["reason"] for one in answer["left_out"]}
    assert reasons == {"over_entry_cap", "below_floor"}
    assert {one["id"] for one in answer["left_out"]}.isdisjoint(entry["id"] for entry in answer["shown"])
    assert http.post("/v1/memory/recall", json={"query": "hello"}).json()["shown"] == []


def test_search_is_by_words_and_only_mine(http: httpx.Client, other: httpx.Client) -> None:
    mine = keep(http, "Živi u Đakovu, 100% sigurno.")
    keep(other, "Živi u Đakovu, 100% sigurno.")
    for query in ("zivi", "dakovu ŽIVI", "100%"):
        found = http.post("/v1/memory/search", json={"query": query}).json()
        assert [entry["id"] for entry in found["data"]] == [mine["id"]], query
    assert http.post("/v1/memory/search", json={"query": "z_vi"}).json() == {"object": "list", "data": []}


def test_search_comes_in_pages(http: httpx.Client) -> None:
    ids = [keep(http, f"Server number {place} is old.")["id"] for place in range(5)]
    seen, body = [], {"query": "server", "limit": 2}
    while True:
        page = http.post("/v1/memory/search", json=body).json()
        seen += [entry["id"] for entry in page["data"]]
        if "next_cursor" not in page:
            break
        body["cursor"] = page["next_cursor"]
    assert seen == ids[::-1]


def test_an_entry_expires_and_its_expiry_can_be_changed(http: httpx.Client, eventually: Callable[..., Any]) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=3)).isoformat()
    short = keep(http, "The build is frozen this minute.", expires_at=soon)
    stays = keep(http, "The build server is called forge.", expires_at=soon)
    assert http.patch(f"{ENTRIES}/{stays['id']}", json={"expires_at": None}).json().get("expires_at") is None
    assert eventually(lambda: http.get(f"{ENTRIES}/{short['id']}").status_code == 404)
    assert texts(http) == {"The build server is called forge."}
    late = http.patch(f"{ENTRIES}/{stays['id']}", json={"expires_at": "2999-01-01T01:00:00+01:00"}).json()
    assert late["expires_at"] == "2999-01-01T00:00:00Z" and late["text"] == stays["text"]


def test_forgetting_all_is_tried_first_and_counts(http: httpx.Client, other: httpx.Client) -> None:
    for place in range(3):
        keep(http, f"Fact number {place}.")
    keep(other, "Fact number 1.")
    for wrong in ({"dryrun": "true"}, {"dry_run": "yes"}, {"dry_run": ""}, {"kind": "fact"}):
        error_of(http.delete(ENTRIES, params=wrong), 400)
    error_of(http.delete(f"{ENTRIES}?dry_run=true&dry_run=false"), 400)
    assert http.delete(ENTRIES, params={"dry_run": "true"}).json()["count"] == 3
    assert len(texts(http)) == 3
    assert http.delete(ENTRIES).json() == {"object": "memory.forgotten", "count": 3, "dry_run": False}
    assert http.delete(ENTRIES).json()["count"] == 0 and texts(http) == set()
    assert texts(other) == {"Fact number 1."}


def test_an_export_comes_back_whole_to_an_emptied_memory(http: httpx.Client, other: httpx.Client) -> None:
    expires = "2999-01-01T00:00:00Z"
    keep(http, "I prefer tabs.\nIn Go, that is.", kind="preference")
    keep(http, "Živi u Zagrebu s dvije mačke 🐈.", expires_at=expires)
    dump = http.get("/v1/memory/export")
    assert dump.headers["content-type"].startswith("application/x-ndjson")
    before = http.get(ENTRIES).json()["data"]
    assert [json.loads(line) for line in dump.text.splitlines()] == before
    assert ingest(http, dump.content).json() == {"object": "memory.imported", "imported": 0, "existed": 2, "expired": 0}
    http.delete(ENTRIES)
    assert ingest(http, dump.content).json()["imported"] == 2
    assert http.get(ENTRIES).json()["data"] == before
    assert ingest(other, dump.content).json()["imported"] == 2, "one may move one's memory to another name"
    shown = http.post("/v1/memory/recall", json={"query": "U kojem gradu živi?"}).json()
    assert shown["shown"][0]["text"].startswith("Živi u Zagrebu") and shown["not_embedded"] == 0


def test_one_bad_line_and_nothing_is_imported(http: httpx.Client) -> None:
    lines = [{"kind": "fact", "text": "one"}, {"kind": "fact", "text": ""}, {"kind": "rumour", "text": "three"}]
    raw = "\n".join(json.dumps(line) for line in lines) + "\n{\n"
    error = error_of(ingest(http, raw), 400)
    assert error["code"] == "invalid_lines"
    assert all(part in error["message"] for part in ("Nothing was imported", "line 2:", "line 3:", "line 4:"))
    assert "line 1:" not in error["message"] and texts(http) == set()


def test_an_import_is_charged_for_what_it_embeds(http: httpx.Client) -> None:
    raw = "\n".join(json.dumps({"kind": "fact", "text": f"Fact number {place}."}) for place in range(20))
    used = http.get("/v1/usage").json()["tokens"]["used"]
    ingest(http, raw)
    first = http.get("/v1/usage").json()["tokens"]
    ingest(http, raw)
    second = http.get("/v1/usage").json()["tokens"]
    assert first["used"] - used > 20 * 5 and first["reserved"] == 0
    assert second["used"] == first["used"], "what exists is not embedded again"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "param"),
    [
        ("POST", ENTRIES, {"text": "x" * 501}, 400, "text"),
        ("POST", ENTRIES, {"text": " .,! "}, 400, "text"),
        ("POST", ENTRIES, {"text": "bell \x07"}, 400, "text"),
        ("POST", ENTRIES, {"text": "The password is: hunter2-XK9"}, 400, "text"),
        ("POST", ENTRIES, {"text": "My key is AKIAIOSFODNN7EXAMPLE"}, 400, "text"),
        ("POST", ENTRIES, {"text": "a b", "expires_at": "2020-01-01T00:00:00Z"}, 400, "expires_at"),
        ("POST", ENTRIES, {"text": "a b", "expires_at": "tomorrow"}, 400, "expires_at"),
        ("POST", ENTRIES, {"text": "a b", "expires_at": "2999-01-01"}, 400, "expires_at"),
        ("POST", ENTRIES, {"text": "a b", "expires_at": 5}, 400, "expires_at"),
        ("POST", ENTRIES, {"text": "a b", "kind": "episode"}, 403, "kind"),
        ("POST", ENTRIES, {"text": "a b", "replaces": "7"}, 404, None),
        ("POST", ENTRIES, {"text": "a b", "replaces": 7}, 400, "replaces"),
        ("POST", ENTRIES, {"text": "a b", "language": "hr"}, 400, "language"),
        ("POST", ENTRIES, {"text": "a b", "source": {"by": "session"}}, 400, "source"),
        ("POST", "/v1/memory/search", {"query": "  "}, 400, "query"),
        ("POST", "/v1/memory/search", {"query": "a " * 21}, 400, "query"),
        ("POST", "/v1/memory/search", {"query": "a" * 501}, 400, "query"),
        ("POST", "/v1/memory/search", {"query": "a", "limit": 0}, 400, "limit"),
        ("POST", "/v1/memory/search", {"query": "a", "cursor": "'"}, 400, "cursor"),
        ("POST", "/v1/memory/search", {}, 400, "query"),
        ("GET", f"{ENTRIES}?kind=rumour", None, 400, "kind"),
        ("GET", f"{ENTRIES}?kund=fact", None, 400, "kund"),
        ("GET", f"{ENTRIES}?cursor=7", None, 400, "cursor"),
        ("POST", "/v1/memory/recall", {"query": ""}, 400, "query"),
        ("POST", END, {"agent": "nobody", "messages": [said("user")]}, 404, None),
        ("POST", END, {"agent": "site-guide", "messages": [said("user")]}, 400, "agent"),
        ("POST", END, {"agent": "code-reviewer", "messages": []}, 400, "messages"),
        ("POST", END, {"agent": "code-reviewer"}, 400, "messages"),
        ("POST", END, {"agent": "code-reviewer", "messages": [said("assistant")]}, 400, "messages"),
        ("POST", END, {"agent": "code-reviewer", "messages": [said("tool")]}, 400, "messages[0]"),
    ],
)  # fmt: skip
def test_bad_input_has_a_clear_error_and_changes_nothing(
    http: httpx.Client, method: str, path: str, body: Any, status: int, param: str | None
) -> None:
    kept = keep(http, "The build server is called forge.")
    error = error_of(http.request(method, path, json=body), status)
    assert error["param"] == param
    assert http.get(ENTRIES).json()["data"] == [kept]


@pytest.mark.parametrize("body", [{}, {"kind": "episode"}, {"text": ""}, {"txt": "a"}, {"expires_at": "soon"}])
def test_a_bad_correction_changes_nothing(http: httpx.Client, body: dict[str, Any]) -> None:
    kept = keep(http, "The build server is called forge.")
    error_of(http.patch(f"{ENTRIES}/{kept['id']}", json=body), 400)
    assert http.get(f"{ENTRIES}/{kept['id']}").json() == kept


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", ""])
def test_an_import_says_what_it_takes(http: httpx.Client, content_type: str) -> None:
    response = http.post("/v1/memory/import", content=b"{}", headers={"Content-Type": content_type})
    assert "application/x-ndjson" in error_of(response, 415)["message"]


def test_every_route_of_the_memory_needs_its_right(service: RunningService) -> None:
    entry = f"{ENTRIES}/m_{'0' * 28}"
    routes = [("GET", ENTRIES), ("POST", ENTRIES), ("DELETE", ENTRIES), ("GET", entry), ("PATCH", entry)]
    routes += [("DELETE", entry), ("POST", "/v1/memory/search"), ("POST", "/v1/memory/recall")]
    routes += [("GET", "/v1/memory/export"), ("POST", "/v1/memory/import"), ("POST", "/v1/sessions/end")]
    with service.client(service.key(f"t-{secrets.token_hex(6)}", "--right", "chat")) as chatting:
        for method, path in routes:
            assert error_of(chatting.request(method, path, json={}), 403)["code"] == "right_missing", path


def test_two_subjects_hammering_at_once_never_see_each_other(service: RunningService) -> None:
    """Twin texts, every route, two people at once."""
    failures: list[str] = []

    def hammer(name: str) -> None:
        with service.client(service.key(f"t-{name}-{secrets.token_hex(4)}")) as http:
            for place in range(12):
                entry = keep(http, f"The {place}. secret of the vault is called {name}.")
                http.patch(f"{ENTRIES}/{entry['id']}", json={"kind": "preference"})
                bodies = [
                    http.get(ENTRIES).text,
                    http.post("/v1/memory/recall", json={"query": "What is the secret of the vault called?"}).text,
                    http.post("/v1/memory/search", json={"query": "secret vault"}).text,
                    http.get("/v1/memory/export").text,
                ]
                twin = "anaword" if name == "benword" else "benword"
                failures.extend(body for body in bodies if twin in body or name not in body)
                if place % 4 == 3:
                    count = http.delete(ENTRIES).json()["count"]
                    failures.extend([f"{count} deleted"] if count != 4 else [])

    threads = [threading.Thread(target=hammer, args=(name,)) for name in ("anaword", "benword")]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failures == []


def test_a_database_restart_loses_and_doubles_nothing(service: RunningService, key: str) -> None:
    """Requests wait, or get 503 with Retry-After and are sent again by the client."""
    (postmaster,) = [one for one in service.processes() if "postgres" in one.name() and "-D" in one.cmdline()]
    answers: list[int] = []
    sent: list[str] = []
    stop = threading.Event()

    def keep_on(name: str) -> None:
        with service.client(key) as http:
            while not stop.is_set():
                text = f"Fact {name} number {len(sent)} {secrets.token_hex(3)}."
                sent.append(text)
                response = http.post(ENTRIES, json={"text": text})
                while response.status_code == 503:
                    assert int(response.headers["retry-after"]) >= 1
                    answers.append(503)
                    stop.wait(0.3)
                    response = http.post(ENTRIES, json={"text": text})
                answers.append(response.status_code)

    threads = [threading.Thread(target=keep_on, args=(name,)) for name in ("a", "b", "c")]
    for one in threads:
        one.start()
    while len(answers) < 10:
        stop.wait(0.1)
    postmaster.kill()
    before = len(answers)
    while answers[before:].count(201) < 10:
        stop.wait(0.1)
    stop.set()
    for one in threads:
        one.join()
    assert set(answers) <= {200, 201, 503}
    with service.client(key) as http:
        found: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = http.get(ENTRIES, params={"limit": 200, **cursor}).json()
            found += [entry["text"] for entry in page["data"]]
            if "next_cursor" not in page:
                break
            cursor = {"cursor": page["next_cursor"]}
    assert sorted(found) == sorted(sent)


def test_the_commands_forget_what_a_revoked_key_leaves(service: RunningService, http: httpx.Client) -> None:
    name = f"t-{secrets.token_hex(6)}"
    with service.client(service.key(name)) as leaving:
        keep(leaving, "The build server is called forge.")
        keep(http, "The build server is called forge.")
        (line,) = [one for one in service.run("keys", "list").stdout.splitlines() if name in one]
        revoked = service.run("keys", "revoke", line.split()[0])
        assert revoked.returncode == 0 and f"memory forget 'key|{name}'" in revoked.stdout
        assert leaving.get(ENTRIES).status_code == 401
    asked = service.run("memory", "forget", f"key|{name}")
    assert asked.returncode == 1 and "1 entries" in asked.stdout, "nothing is forgotten without a yes"
    assert "1 entries of" in service.run("memory", "forget", f"key|{name}", "--yes").stdout
    assert "no entries" in service.run("memory", "forget", f"key|{name}", "--yes").stdout
    assert len(texts(http)) == 1


def test_a_key_can_be_revoked_with_its_memory(service: RunningService) -> None:
    name = f"t-{secrets.token_hex(6)}"
    with service.client(service.key(name)) as leaving:
        keep(leaving, "The build server is called forge.")
    (line,) = [one for one in service.run("keys", "list").stdout.splitlines() if name in one]
    revoked = service.run("keys", "revoke", line.split()[0], "--forget")
    assert "1 entries of" in revoked.stdout
    with service.client(service.key(name)) as again:
        assert texts(again) == set()


def test_scrub_and_reembed_run_beside_the_service(service: RunningService, http: httpx.Client) -> None:
    keep(http, "The build server is called forge.")
    assert "scrubbed:" in service.run("memory", "scrub").stdout
    done = service.run("memory", "reembed")
    assert done.returncode == 0 and "0 entries were embedded" in done.stdout, done.stderr
    asyncio.run(_of_another_model(service))
    query = {"query": "What is the build server called?"}
    unseen = http.post("/v1/memory/recall", json=query).json()
    assert unseen["shown"] == [] and unseen["not_embedded"] == 1
    done = service.run("memory", "reembed", "--prune")
    assert "every entry has a vector" in done.stdout and "embedding with" in done.stderr, done.stderr
    shown = http.post("/v1/memory/recall", json={"query": "What is the build server called?"}).json()["shown"]
    assert len(shown) == 1


async def _of_another_model(service: RunningService) -> None:
    """As after a change of the profile: every vector is another model's."""
    settings = running_settings(folders.resolve(loader.load(service.profile), {}, True))
    async with upkeep.connected(
        connect.arguments(settings.database, folders.secrets(settings), "recall_maintenance")
    ) as connection:
        await connection.execute("update memory.entry_vectors set model = 'older'")


def test_a_turn_with_memory_off_recalls_nothing(http: httpx.Client) -> None:
    keep(http, "I prefer tabs in Go code.", kind="preference")
    asked = "Do I prefer tabs or spaces in Go code?"
    assert [step["kind"] for step in turn(http, asked, max_tokens=20, memory="off").steps] == []
    assert [step["kind"] for step in turn(http, asked, max_tokens=20).steps][:1] == ["recall"]
