"""The platform's tools on the real graph: alone, in a turn, an operator's own, and what is written of them."""

from __future__ import annotations

import json
import secrets
from typing import Any

import httpx
import pytest

from tests.serve.chunks import turn
from tests.serve.gateway import Gateway
from tests.serve.running import RunningService
from tests.serve.test_bad_input import error_of
from tests.serve.test_privacy import everything

pytestmark = [pytest.mark.graph, pytest.mark.timeout(240)]
REVIEWED = {"platform_status", "list_models", "radar_latest", "ticket_status"}


def call(http: httpx.Client, tool: str, **arguments: Any) -> httpx.Response:
    return http.post(f"/v1/tools/{tool}/call", json={"arguments": arguments})


def test_the_reviewed_reads_are_listed_with_their_schemas(http: httpx.Client) -> None:
    tools = http.get("/v1/tools").json()
    assert tools["object"] == "list" and {tool["name"] for tool in tools["data"]} == REVIEWED
    assert all(
        set(tool) == {"name", "description", "parameters", "kind"} and tool["kind"] == "read" for tool in tools["data"]
    )


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        ("platform_status", "deep (chat): healthy"),
        ("list_models", "code-reviewer"),
        ("radar_latest", "Serving on two cores"),
    ],
)
def test_a_reviewed_tool_answers_alone(http: httpx.Client, tool: str, says: str) -> None:
    answer = call(http, tool).json()
    assert set(answer) == {"tool", "status", "result", "elapsed_ms"} and answer["status"] == "done"
    assert says in answer["result"] and len(answer["result"]) <= 1500


@pytest.mark.parametrize("tool", ["run_code", "open_page", "remember", "forget", "ticket_close", "nothing", "%2e%2e"])
def test_no_other_tool_is_callable_alone(http: httpx.Client, tool: str) -> None:
    error_of(call(http, tool), 404)


@pytest.mark.parametrize(
    ("tool", "body"),
    [
        ("radar_latest", {"arguments": {"limit": "many"}}), ("radar_latest", {"arguments": {"limit": 0}}),
        ("radar_latest", {"arguments": {"more": 1}}), ("radar_latest", {"arguments": []}), ("radar_latest", {"limit": 3}),
        ("ticket_status", {"arguments": {}}), ("ticket_status", {"arguments": {"number": "7"}}),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_and_nothing_is_asked(
    http: httpx.Client, gateway: Gateway, tool: str, body: dict[str, Any]
) -> None:
    before = len(gateway.asked)
    error_of(http.post(f"/v1/tools/{tool}/call", json=body), 400)
    assert len(gateway.asked) == before


def test_a_tool_needs_its_right(service: RunningService) -> None:
    with service.client(service.key(f"t-{secrets.token_hex(6)}", "--right", "chat")) as chatting:
        assert chatting.get("/v1/tools").json()["data"] == []
        assert error_of(call(chatting, "list_models"), 403)["code"] == "right_missing"
        assert error_of(call(chatting, "run_code"), 404)["code"] == "tool_not_found"


def test_services_and_errors_are_for_admins(service: RunningService, http: httpx.Client) -> None:
    name = f"t-{secrets.token_hex(6)}"
    with service.client(service.key(name, "--admin")) as admin:
        assert "memory (service)" in call(admin, "platform_status").json()["result"]
    assert "memory (service)" not in call(http, "platform_status").json()["result"]


def test_an_operators_tool_is_called_as_the_caller(service: RunningService, gateway: Gateway) -> None:
    name = f"t-{secrets.token_hex(6)}"
    key = service.key(name)
    with service.client(key) as http:
        answer = call(http, "ticket_status", number=7).json()
        assert json.loads(answer["result"]) == {"number": 7, "state": "open", "for": f"key|{name}"}
        asked = gateway.asked[-1]
        assert asked["path"] == "/api/tickets?number=7" and key not in json.dumps(asked)
        refused = call(http, "ticket_status", number=101).json()
        assert refused["status"] == "failed" and "does not allow" in refused["result"]
        gone = call(http, "ticket_status", number=404).json()
        assert gone["status"] == "failed" and "secret-detail" not in json.dumps(gone)
        for broken in (500, 302):
            error = error_of(call(http, "ticket_status", number=broken), 503)
            assert "secret-detail" not in error["message"]
        assert not any("/elsewhere" in one["path"] for one in gateway.asked), "no redirect is followed"
    with service.client(service.key(name, "--admin")) as admin:
        assert call(admin, "ticket_status", number=101).json()["status"] == "done"


def test_a_caller_cannot_add_a_tool(http: httpx.Client) -> None:
    assert http.post("/v1/tools", json={"name": "mine"}).status_code == 405
    body = {"model": "code-reviewer", "messages": [{"role": "user", "content": "hi"}]}
    mine = [{"type": "function", "function": {"name": "mine", "parameters": {}}}]
    assert (
        error_of(http.post("/v1/chat/completions", json={**body, "tools": mine}), 400)["code"] == "caller_tools_refused"
    )


def test_a_program_runs_in_a_turn_and_a_run_is_counted(http: httpx.Client) -> None:
    streamed = turn(http, "Run this program and tell me what it prints: print(sum(range(10)))")
    (step,) = streamed.done("run_code")
    assert "45" in step["result"] and "45" in streamed.answer
    runs = http.get("/v1/usage").json()["runs"]
    assert (runs["used"], runs["reserved"], runs["limit"]) == (1, 0, 200)


def test_an_inner_address_is_not_opened_though_the_person_names_it(http: httpx.Client, service: RunningService) -> None:
    for url in ("http://169.254.169.254/latest/meta-data/", f"{service.root}/v1/models"):
        streamed = turn(http, f"Open {url} and tell me what it says.")
        steps = [step for step in streamed.steps if step.get("tool") == "open_page" and step["status"] != "started"]
        assert steps and all(step["status"] == "failed" for step in steps)


def test_no_word_of_a_call_is_found_anywhere(service: RunningService, http: httpx.Client) -> None:
    """Markers in a program, its output, its error, a URL, its path and an argument; in every file and shared memory."""
    marks = {name: f"{name}{secrets.token_hex(8)}" for name in ("program", "raised", "path", "argument")}
    ran = turn(http, f"Run this program and tell me what it prints: print('{marks['program']}' * 2)")
    assert any(marks["program"] in step["result"] for step in ran.done("run_code")), "it was run, and printed"
    turn(http, f"Run this program and tell me what it prints: raise ValueError('{marks['raised']}')")
    turn(http, f"Open http://127.0.0.1:9/{marks['path']} and tell me what it says.")
    call(http, "radar_latest", limit=marks["argument"])
    call(http, marks["argument"])
    contents = list(everything(service))
    for mark in marks.values():
        assert [place for place, content in contents if mark.encode() in content] == [], mark
