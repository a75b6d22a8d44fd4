"""Rubbish in, a clear error out, and the service well afterwards."""

from __future__ import annotations

import json
import socket
from typing import Any

import httpx
import pytest

from tests.serve.conftest import Issuer
from tests.serve.running import RunningService

pytestmark = [pytest.mark.graph, pytest.mark.timeout(120)]
CHAT = "/v1/chat/completions"
HI = [{"role": "user", "content": "hi"}]
JSON = {"Content-Type": "application/json"}


@pytest.fixture(autouse=True)
def the_service_stays_well(service: RunningService):  # type: ignore[no-untyped-def]
    yield
    assert httpx.get(f"{service.root}/readyz", timeout=20).status_code == 200


def error_of(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text[:300]
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["message"]
    return error


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        pytest.param({"model": "nobody", "messages": HI}, 404, "model_not_found", None, id="unknown-model"),
        pytest.param({"model": "fast", "messages": []}, 400, "invalid_request", "messages", id="no-messages"),
        pytest.param({"messages": HI}, 400, "invalid_request", "model", id="no-model"),
        pytest.param({"model": "fast", "messages": HI, "n": 2}, 400, "invalid_request", "n", id="n-2"),
        pytest.param(
            {"model": "fast", "messages": HI, "max_tokens": 0}, 400, "invalid_request", "max_tokens", id="T09-zero"
        ),
        pytest.param(
            {"model": "fast", "messages": HI, "tools": [{"type": "function", "function": {"name": "mine"}}]},
            400,
            "caller_tools_refused",
            "tools",
            id="caller-tools",
        ),
        pytest.param(
            {"model": "fast", "messages": [*HI, {"role": "tool", "content": "45", "tool_call_id": "c"}]},
            400,
            "caller_tools_refused",
            "messages[1]",
            id="tool-message",
        ),
        pytest.param(
            {"model": "fast", "messages": HI, "frequency_penalty": 1, "audio": {}},
            400,
            "unsupported_parameter",
            None,
            id="unsupported",
        ),
        pytest.param(
            {"model": "fast", "messages": [{"role": "user", "content": "a\x00b"}]},
            400,
            "invalid_request",
            "messages[0].content",
            id="T06-nul",
        ),
        pytest.param(
            {
                "model": "fast",
                "messages": HI,
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"type": "string", "pattern": "^a$"}},
                },
            },
            400,
            "schema_unsupported",
            "response_format",
            id="schema-we-cannot-hold",
        ),
        pytest.param(
            {"model": "fast", "messages": [{"role": "user", "content": "word " * 20_000}]},
            400,
            "context_length_exceeded",
            "messages",
            id="too-long",
        ),
        pytest.param(
            {"model": "embed", "messages": HI}, 404, "model_not_found", None, id="an-embedding-model-does-not-chat"
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_bad_chat_request(
    http: httpx.Client, body: dict[str, Any], status: int, code: str, param: str | None, stream: bool
) -> None:
    before = http.get("/v1/usage").json()["tokens"]
    error = error_of(http.post(CHAT, json={**body, "stream": stream}), status)
    assert error["code"] == code
    assert param is None or error["param"] == param
    after = http.get("/v1/usage").json()["tokens"]
    assert (after["used"], after["reserved"]) == (before["used"], 0), "a refused request costs nothing"


def test_a_prompt_over_the_window_is_told_both_numbers(http: httpx.Client) -> None:
    response = http.post(CHAT, json={"model": "fast", "messages": [{"role": "user", "content": "word " * 5000}]})
    message = error_of(response, 400)["message"]
    assert "4096" in message and any(5000 < int(number) < 5100 for number in message.split() if number.isdigit())


@pytest.mark.parametrize(
    ("raw", "headers", "status"),
    [
        pytest.param(
            b'{"model": "fast", "messages": [{"role":"user","content":"' + b"x" * 3_000_000 + b'"}]}',
            JSON,
            413,
            id="3-MB",
        ),
        pytest.param(b"not json", JSON, 400, id="not-json"),
        pytest.param(b"[" * 100_000, JSON, 400, id="T02-deep"),
        pytest.param(b'{"a":' * 50_000 + b"1" + b"}" * 50_000, JSON, 400, id="T02-deep-valid"),
        pytest.param(b'{"model":"fast","model":"deep","messages":[]}', JSON, 400, id="T04-twice"),
        pytest.param(json.dumps({"model": "fast", "messages": HI}).encode("utf-16"), JSON, 400, id="T05-utf-16"),
        pytest.param(
            b'{"model":"fast","messages":[{"role":"user","content":"\\ud800"}]}', JSON, 400, id="T06-surrogate"
        ),
        pytest.param(
            b'{"model":"fast","messages":[{"role":"user","content":"hi"}],"temperature":NaN}', JSON, 400, id="T09-nan"
        ),
        pytest.param(b"[1]", JSON, 400, id="a-list"),
        pytest.param(b"{}", {"Content-Type": "text/plain"}, 415, id="T08-text"),
        pytest.param(b"a=1", {"Content-Type": "application/x-www-form-urlencoded"}, 415, id="T08-form"),
        pytest.param(b"{}", {}, 415, id="T08-none"),
    ],
)
def test_a_bad_body(http: httpx.Client, raw: bytes, headers: dict[str, str], status: int) -> None:
    error_of(http.post(CHAT, content=raw, headers=headers), status)


AUTHORIZATIONS = [
    pytest.param([], id="K01-none"),
    pytest.param([("Authorization", "")], id="K01-empty"),
    pytest.param([("Authorization", "Bearer")], id="K01-bearer-alone"),
    pytest.param([("Authorization", "Basic {key}")], id="K01-basic"),
    pytest.param([("Authorization", "Bearer {key}"), ("Authorization", "Bearer {key}")], id="K01-twice"),
    pytest.param([("x-api-key", "{key}")], id="K01-x-api-key"),
    pytest.param([("Cookie", "key={key}")], id="K01-cookie"),
    pytest.param([("Authorization", "Bearer rs_wrong")], id="wrong"),
    pytest.param([("Authorization", "Bearer {key}x")], id="K03-longer"),
    pytest.param([("Authorization", "Bearer {other-end}")], id="K03-same-prefix"),
    pytest.param([("Authorization", "Bearer rs_' or '1'='1")], id="K02-sql"),
    pytest.param([("Authorization", "Bearer rs_%_;--")], id="K02-like"),
    pytest.param([("Authorization", "Bearer " + "A" * 65_000)], id="K02-64-KB"),
    pytest.param([("Authorization", "Bearer a.b.c")], id="J15-looks-like-a-jwt"),
]


@pytest.mark.parametrize("headers", AUTHORIZATIONS)
@pytest.mark.parametrize("path", ["/v1/models", "/v1/memory/entries", "/v1/usage"])
def test_a_bad_credential(service: RunningService, key: str, headers: list[tuple[str, str]], path: str) -> None:
    other_end = key[:-1] + ("E" if key.endswith("A") else "A")
    filled = [(name, value.replace("{key}", key).replace("{other-end}", other_end)) for name, value in headers]
    response = httpx.get(service.root + path, headers=filled, params={"api_key": key, "key": key})
    if response.status_code == 431 or (response.status_code == 400 and len(str(headers)) > 60_000):
        return  # the HTTP server itself refuses a header of that size
    assert error_of(response, 401)["code"] == "invalid_credential"
    assert response.headers["www-authenticate"] == "Bearer"


def test_a_revoked_key_is_refused_at_once(service: RunningService, key: str) -> None:
    listed = service.run("keys", "list").stdout.splitlines()
    assert key not in "".join(listed)
    key_id = listed[-1].split()[0]
    with service.client(key) as http:
        assert http.get("/v1/models").status_code == 200
        assert service.run("keys", "revoke", key_id).returncode == 0
        assert http.get("/v1/models").status_code == 401
    again = service.run("keys", "revoke", key_id)
    assert again.returncode == 2 and "no valid key" in again.stderr


@pytest.mark.parametrize("header", ["x-user-id", "x-forwarded-user", "x-subject", "openai-organization"])
def test_identity_comes_from_the_credential_alone(service: RunningService, http: httpx.Client, header: str) -> None:
    """K07: another's name in body or header changes nothing."""
    kept = http.post("/v1/memory/entries", json={"text": "The ledger of staging is called Otto."}).json()
    with service.client(service.key("somebody-else")) as other:
        claims = {header: "whoever-kept-it"}
        assert other.get(f"/v1/memory/entries/{kept['id']}", headers=claims).status_code == 404
        body = {"query": "what is the ledger of staging called", "user": "x"}
        assert other.post("/v1/memory/recall", json=body, headers=claims).json()["shown"] == []


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        pytest.param({}, 200, id="good"),
        pytest.param({"exp": 1}, 401, id="J03-expired"),
        pytest.param({"aud": "another"}, 401, id="J05-other-audience"),
        pytest.param({"aud": ["recall-serve-tests", "another"]}, 401, id="J05-list"),
        pytest.param({"iss": "https://issuer.example/"}, 401, id="J06-slash"),
        pytest.param({"sub": ""}, 401, id="J07-empty"),
        pytest.param({"sub": None}, 401, id="J03-no-subject"),
        pytest.param({"recall_rights": ["everything"]}, 401, id="unknown-right"),
        pytest.param({"recall_rights": []}, 403, id="no-rights"),
    ],
)
def test_a_token_of_the_issuer(service: RunningService, issuer: Issuer, claims: dict[str, Any], status: int) -> None:
    with service.client(issuer.token(**claims)) as http:
        assert http.get("/v1/memory/entries").status_code == status


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil", "127.0.0.1", "localhost:evil"])
def test_another_host_is_refused(service: RunningService, key: str, host: str) -> None:
    """P07: a page that points its own name at this address gets nothing."""
    with service.client(key) as http:
        assert http.get("/v1/models", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", CHAT, 405), ("PUT", "/v1/models", 405), ("OPTIONS", "/v1/models", 405), ("GET", "/v1/models/", 404),
        ("GET", "//v1/models", 404), ("GET", "/V1/models", 404), ("GET", "/v1/memory/../models", 200),
        ("GET", "/docs", 404), ("GET", "/openapi.json", 404), ("GET", "/nothing", 404),
    ],
)  # fmt: skip
def test_no_route_answers_with_a_redirect_or_html(http: httpx.Client, method: str, path: str, status: int) -> None:
    response = http.request(method, path)
    assert response.status_code == status
    assert "html" not in response.headers["content-type"] and "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        pytest.param("POST", "/v1/memory/entries", {"text": "x" * 501}, 400, id="too-long"),
        pytest.param("POST", "/v1/memory/entries", {"text": " .,"}, 400, id="nothing-to-read"),
        pytest.param("POST", "/v1/memory/entries", {"text": "a\x1b[31mb"}, 400, id="control"),
        pytest.param("POST", "/v1/memory/entries", {"text": "fine", "kind": "opinion"}, 400, id="unknown-kind"),
        pytest.param("POST", "/v1/memory/entries", {"text": "fine", "kind": "episode"}, 403, id="episode"),
        pytest.param("POST", "/v1/memory/entries", {"text": "fine", "subject": "key|bob"}, 400, id="K08-subject"),
        pytest.param("POST", "/v1/memory/entries", {"text": 5}, 400, id="not-a-text"),
        pytest.param("GET", "/v1/memory/entries?limit=0", None, 400, id="limit"),
        pytest.param("GET", "/v1/memory/entries?cursor=%27;--", None, 400, id="cursor"),
        pytest.param("GET", "/v1/memory/entries?kind=all", None, 400, id="kind"),
        pytest.param("GET", "/v1/generations?limit=many", None, 400, id="generations"),
        pytest.param("POST", "/v1/memory/recall", {"query": ""}, 400, id="no-query"),
        pytest.param("POST", "/v1/embeddings", {"model": "embed", "input": []}, 400, id="nothing-to-embed"),
        pytest.param("POST", "/v1/embeddings", {"model": "embed", "input": "word " * 3000}, 400, id="window"),
        pytest.param("POST", "/v1/embeddings", {"model": "embed", "input": "a", "dimensions": 5}, 400, id="dimensions"),
        pytest.param("POST", "/v1/embeddings", {"model": "deep", "input": "a"}, 404, id="not-an-embedding-model"),
        pytest.param("POST", "/v1/embeddings", {"model": "embed", "input": "a\x00"}, 400, id="T06"),
    ],
)
def test_other_bad_requests(http: httpx.Client, method: str, path: str, body: Any, status: int) -> None:
    error_of(http.request(method, path, json=body), status)


FOREIGN_IDS = [
    "{other}", "{OTHER}", "{{other}}", "m_" + "0" * 28, "m_*", "%25", "1", "null", "%00", "[{other}]", "k_000000000000",
    "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
]  # fmt: skip


@pytest.mark.parametrize("form", FOREIGN_IDS)
def test_someone_elses_entry_is_a_missing_one(service: RunningService, http: httpx.Client, form: str) -> None:
    """M01: the same text for read, correct and forget, whatever the id."""
    with service.client(service.key("owner")) as owner:
        other = owner.post("/v1/memory/entries", json={"text": "My own."}).json()["id"]
        path = "/v1/memory/entries/" + form.replace("{other}", other).replace("{OTHER}", other.upper())
        missing = http.get("/v1/memory/entries/m_" + "f" * 28).json()
        assert http.get(path).json() == missing
        assert http.request("PATCH", path, json={"text": "Mine now."}).json() == missing
        assert http.delete(path).json() == missing
        assert owner.get(f"/v1/memory/entries/{other}").json()["text"] == "My own."


def test_a_body_that_never_comes_ends(service: RunningService, key: str) -> None:
    """T01: announced and not sent. The connection is answered or closed within the documented seconds."""
    host, port = service.root.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=40) as connection:
        connection.sendall(
            f"POST {CHAT} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{{".encode()
        )
        assert connection.recv(200).split(b"\r\n")[0].endswith(b"408 Request Timeout")
