"""What listens, and where a person's words are found afterwards."""

from __future__ import annotations

import json
import mmap
import secrets
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import psutil
import pytest

from tests.serve.chunks import turn
from tests.serve.running import RunningService

pytestmark = [pytest.mark.graph, pytest.mark.timeout(240)]

# Calls that would read or change something, one for each of Ray's services; health alone may answer anyone.
RPCS = [
    "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo",
    "/ray.rpc.InternalKVGcsService/InternalKVGet",
    "/ray.rpc.JobInfoGcsService/GetAllJobInfo",
    "/ray.rpc.ActorInfoGcsService/GetAllActorInfo",
    "/ray.rpc.CoreWorkerService/NumPendingTasks",
    "/ray.rpc.NodeManagerService/GetNodeStats",
    "/ray.rpc.ObjectManagerService/Push",
    "/ray.rpc.ReporterService/GetTraceback",
    "/ray.rpc.LogService/ListLogs",
    "/opencensus.proto.agent.metrics.v1.MetricsService/Export",
    "/ray.serve.ASGIService/HandleRequest",
    "/ray.serve.RayServeAPIService/ListApplications",
]
HTTP_PATHS = ["/api/version", "/api/jobs/", "/api/serve/applications/", "/nodes", "/metrics", "/api/v0/logs", "/logs"]


def listening(service: RunningService) -> list[tuple[str, int]]:
    found = []
    for process in service.processes():
        connections = process.net_connections(kind="inet")
        found += [(one.laddr.ip, one.laddr.port) for one in connections if one.status == psutil.CONN_LISTEN]
    return found


def test_every_socket_is_on_loopback(service: RunningService) -> None:
    sockets = listening(service)
    assert len(sockets) > 8, "the list is not empty by mistake"
    assert {address for address, _ in sockets} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_every_socket_refuses_a_caller_without_a_credential(service: RunningService) -> None:
    for _, port in listening(service):
        answered = [path for path in HTTP_PATHS if _http_status(port, path) == 200]
        assert answered == [], f"port {port}"
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            for rpc in RPCS:
                assert not _grpc_answers(channel, rpc), f"port {port}: {rpc}"


def _http_status(port: int, path: str) -> int | None:
    try:
        return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=5, trust_env=False).status_code
    except httpx.HTTPError:
        return None


def _grpc_answers(channel: grpc.Channel, rpc: str) -> bool:
    try:
        channel.unary_unary(rpc)(b"", timeout=5)
    except grpc.RpcError:
        return False
    return True


def test_unix_sockets_lie_in_closed_folders(service: RunningService) -> None:
    paths = {
        Path(one.laddr)
        for process in service.processes()
        for one in process.net_connections(kind="unix")
        if one.laddr and one.laddr.startswith("/") and Path(one.laddr).exists()
    }
    ours = [path for path in paths if "llama" in str(path) or ".s.PGSQL" in str(path)]
    assert len(ours) >= 3
    for path in ours:
        assert path.parent.stat().st_mode & 0o077 == 0, path


def test_llama_cpps_own_server_asks_for_its_key(service: RunningService) -> None:
    sockets = {
        one.laddr
        for process in service.processes()
        for one in process.net_connections(kind="unix")
        if "llama-" in one.laddr
    }
    assert len(sockets) == 2
    for socket in sockets:
        with httpx.Client(transport=httpx.HTTPTransport(uds=socket), base_url="http://llama") as http:
            assert http.post("/tokenize", json={"content": "a"}).status_code == 401
            assert http.get("/props").status_code == 401
            assert http.get("/slots").status_code in (401, 501)


def test_no_word_of_a_conversation_is_found_anywhere_but_in_its_entry(
    service: RunningService, http: httpx.Client
) -> None:
    said, kept, failed, large = (f"{name}{secrets.token_hex(8)}" for name in ("said", "kept", "failed", "large"))
    turn(http, f"Repeat this word: {said}", "fast", max_tokens=30)
    turn(http, f"Please review this function: func {said}() {{ return }}", max_tokens=30)
    assert http.post("/v1/memory/entries", json={"text": f"The staging ledger is called {kept}."}).status_code == 201
    assert http.post("/v1/memory/recall", json={"query": f"{said} {kept}"}).status_code == 200
    _fail_with(http, failed)
    body = {"model": "fast", "messages": [{"role": "user", "content": f"{large} " * 30_000}]}
    assert http.post("/v1/chat/completions", json=body).status_code == 400
    places = {
        word: [place for place, content in everything(service) if word.encode() in content]
        for word in (said, kept, failed, large)
    }
    assert places[said] == places[failed] == places[large] == []
    database = str(service.home / "postgres")
    assert places[kept] and all(place.startswith(database) for place in places[kept])


def _fail_with(http: httpx.Client, word: str) -> None:
    """The word in every place where an error message, an access log or a database log could quote it."""
    http.get(f"/v1/memory/entries/{word}", params={"kind": word, word: word})
    http.get("/v1/memory/entries", params={"cursor": word, "kind": word})
    http.post("/v1/memory/entries", json={"text": word * 50, word: word})
    http.post("/v1/memory/entries", json={"text": f"{word}\x1b"})
    http.post("/v1/memory/entries", json={"text": word, "replaces": word, "expires_at": word})
    http.post("/v1/memory/search", json={"query": word, "kind": word})
    http.post("/v1/memory/search", json={"query": word})
    lines = f'{{"kind": "{word}", "text": "{word}"}}\n{{"kind": "fact", "text": "password: {word}", "{word}": 1}}'
    http.post("/v1/memory/import", content=lines, headers={"Content-Type": "application/x-ndjson"})
    http.delete("/v1/memory/entries", params={word: word, "dry_run": word})
    http.post("/v1/sessions/end", json={"agent": word, "messages": [{"role": word, "content": word}]})
    http.post("/v1/chat/completions", content=f'{{"model": "{word}", "messages": [{word}')
    http.post("/v1/chat/completions", json={"model": word, "messages": [{"role": "user", "content": word}]})
    schema = {"type": "json_schema", "json_schema": {"name": word, "schema": {"type": "object", word: word}}}
    asked = [{"role": "user", "content": word}]
    http.post("/v1/chat/completions", json={"model": "fast", "messages": asked, "response_format": schema})
    http.get("/v1/models", headers={"Authorization": f"Bearer rs_{word}", "User-Agent": word, "Referer": word})


def everything(service: RunningService) -> Iterator[tuple[str, bytes]]:
    """Every file of the service and every shared memory of its processes, deleted files included."""
    session = Path("/tmp")
    folders = [service.home, *session.glob("recall-serve-[0-9]*"), Path("/dev/shm")]
    files = {path for folder in folders for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}
    files.add(service.log)
    for path in files:
        try:
            yield str(path), path.read_bytes()
        except OSError:
            continue
    for process in service.processes():
        for link in Path(f"/proc/{process.pid}/fd").glob("*"):
            yield from _deleted(link)


def _deleted(link: Path) -> Iterator[tuple[str, bytes]]:
    """Files that are open and unlinked: Ray's object store keeps its memory in one."""
    try:
        target = str(link.readlink())
        if not target.endswith("(deleted)") or link.stat().st_size == 0:
            return
        with link.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
            yield target, memory[:]
    except (OSError, ValueError):
        return


def test_the_records_hold_no_word(http: httpx.Client) -> None:
    word = f"word{secrets.token_hex(6)}"
    turn(http, f"What does {word} mean?", "fast", max_tokens=10)
    assert word not in json.dumps(http.get("/v1/generations").json())
