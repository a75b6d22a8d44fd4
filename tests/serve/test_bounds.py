"""Budgets, limits and endings on the real graph: parallel requests, clients that leave, a replica that is killed."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import asyncpg
import httpx
import psutil
import pytest

from memory_store.bootstrap import DATABASE
from tests.serve.chunks import lines, turn
from tests.serve.running import RunningService

pytestmark = [pytest.mark.graph, pytest.mark.timeout(240)]
CHAT = "/v1/chat/completions"


def asking(text: str, max_tokens: int, **more: Any) -> dict[str, Any]:
    return {"model": "fast", "messages": [{"role": "user", "content": text}], "max_tokens": max_tokens, **more}


def tokens(http: httpx.Client) -> dict[str, Any]:
    used: dict[str, Any] = http.get("/v1/usage").json()["tokens"]
    return used


def readiness(service: RunningService) -> int | None:
    """The status of /readyz; None while no ingress replica is there to answer."""
    try:
        return httpx.get(f"{service.root}/readyz", timeout=5).status_code
    except httpx.HTTPError:
        return None


async def sql(service: RunningService, statement: str, *values: Any) -> list[asyncpg.Record]:
    """As the owner of the tables, over the service's own socket."""
    password = (service.home / "secrets" / "recall_owner.password").read_text().strip()
    connection = await asyncpg.connect(
        host=str(service.home / "run"), user="recall_owner", password=password, database=DATABASE
    )
    try:
        return await connection.fetch(statement, *values)
    finally:
        await connection.close()


async def test_fifty_parallel_requests_never_pass_the_budget(service: RunningService) -> None:
    """G01, G02: a subject nobody used before, room for a few requests, fifty at once."""
    key = service.key(f"racer-{secrets.token_hex(4)}", "--limit", "tokens_per_day=300", "--limit", "turns_parallel=50")
    limits = httpx.Limits(max_connections=60)
    async with httpx.AsyncClient(
        base_url=service.root, headers={"Authorization": f"Bearer {key}"}, timeout=120, limits=limits
    ) as http:
        answers = await asyncio.gather(*(http.post(CHAT, json=asking("Say hi.", 5)) for _ in range(50)))
        usage = (await http.get("/v1/usage")).json()["tokens"]
    statuses = Counter(answer.status_code for answer in answers)
    assert set(statuses) == {200, 429} and statuses[200] >= 3
    for answer in answers:
        if answer.status_code == 429:
            assert answer.json()["error"]["code"] == "budget_exhausted"
            assert 0 < int(answer.headers["retry-after"]) <= 86_400
    spent = sum(answer.json()["usage"]["total_tokens"] for answer in answers if answer.status_code == 200)
    assert usage["used"] == spent <= 300 and usage["reserved"] == 0
    assert usage["left"] == 300 - spent


@pytest.mark.parametrize("limit", ["tokens_per_day", "turns_parallel", "requests_per_minute"])
def test_a_limit_of_zero_allows_nothing(service: RunningService, limit: str) -> None:
    """G06."""
    with service.client(service.key("nothing-at-all", "--limit", f"{limit}=0")) as http:
        refused = http.post(CHAT, json=asking("hi", 5))
        assert refused.status_code == 429 and "retry-after" in refused.headers


def test_two_keys_of_one_name_share_a_budget(service: RunningService) -> None:
    """G12."""
    name = f"pair-{secrets.token_hex(4)}"
    with service.client(service.key(name)) as one, service.client(service.key(name)) as other:
        turn(one, "hi", "fast", max_tokens=5)
        assert tokens(other)["used"] == tokens(one)["used"] > 0


def test_requests_in_a_minute_are_limited(service: RunningService) -> None:
    with service.client(service.key("hasty", "--limit", "requests_per_minute=3")) as http:
        statuses = [http.get("/v1/models").status_code for _ in range(10)]
    assert 200 in statuses and statuses[-1] == 429
    assert statuses.count(200) in (3, 4, 5, 6), "three a minute; a minute may turn meanwhile"


async def test_parallel_turns_are_limited(service: RunningService) -> None:
    key = service.key(f"busy-{secrets.token_hex(4)}", "--limit", "turns_parallel=1")
    async with httpx.AsyncClient(
        base_url=service.root, headers={"Authorization": f"Bearer {key}"}, timeout=120
    ) as http:
        answers = await asyncio.gather(*(http.post(CHAT, json=asking("Count to 20.", 40)) for _ in range(4)))
        assert Counter(answer.status_code for answer in answers) == {200: 1, 429: 3}
        assert {answer.json()["error"]["code"] for answer in answers if answer.status_code == 429} == {"too_many_turns"}
        assert (await http.post(CHAT, json=asking("hi", 2))).status_code == 200, "and free again afterwards"


@pytest.mark.parametrize("after_chunks", [0, 3], ids=["before-the-first-token", "in-the-stream"])
def test_a_client_that_leaves_stops_the_engine(
    service: RunningService, http: httpx.Client, eventually: Callable[..., Any], after_chunks: int
) -> None:
    """S02, G03: within two seconds the slot is free, and what was spent is settled."""
    body = asking("Write a very long story about a dragon and a village. " * 40, 500, stream=True)
    with service.client(service.key("operator", "--admin")) as admin:

        def fast() -> dict[str, Any]:
            tiers = admin.get("/v1/admin/status").json()["tiers"]
            return next(tier for tier in tiers if tier["name"] == "fast")

        if after_chunks:
            with http.stream("POST", CHAT, json=body) as response:
                for count, _ in enumerate(response.iter_lines()):
                    if count > 2 * after_chunks:
                        break
        else:
            with pytest.raises(httpx.ReadTimeout):
                http.post(CHAT, json=body, timeout=1.5)
        left_at = time.monotonic()
        assert eventually(lambda: fast()["ongoing"] == 0, 5)
        assert time.monotonic() - left_at < 4
    assert eventually(lambda: http.get("/v1/generations").json()["data"], 5)
    record = http.get("/v1/generations").json()["data"][0]
    assert record["outcome"] == "cancelled" and record["completion_tokens"] < 400
    usage = tokens(http)
    assert usage["reserved"] == 0
    assert usage["used"] == record["prompt_tokens"] + record["completion_tokens"] > 0


async def test_a_killed_ingress_replica_leaves_a_reservation_that_expires(
    service: RunningService, http: httpx.Client, eventually: Callable[..., Any]
) -> None:
    """G03: charged in full, once; and the service is back by itself."""
    body = asking("Write a very long story about a dragon.", 500, stream=True, temperature=0)
    killed = 0
    # The proxy may end the answer as cut or as complete; what counts is what the ledger holds afterwards.
    with contextlib.suppress(httpx.HTTPError), http.stream("POST", CHAT, json=body) as response:
        for count, _ in enumerate(response.iter_lines()):
            if count == 4:
                for replica in service.replicas("gateway"):
                    replica.kill()
                    killed += 1
    assert killed == 1
    ready = eventually(lambda: readiness(service) == 200, 60)
    assert ready, "Serve replaces the replica"
    left = tokens(http)
    assert left["reserved"] > 500 and left["used"] == 0
    await sql(service, "update ledger.reservations set expires_at = now() where amount = $1", left["reserved"])
    assert eventually(lambda: tokens(http)["reserved"] == 0, 40), "the sweeper finds it"
    assert tokens(http)["used"] == left["reserved"]
    assert turn(http, "hi", "fast", max_tokens=3).last["stop"]["reason"] in ("answered", "length")


def test_a_database_that_dies_is_started_again(
    service: RunningService, http: httpx.Client, eventually: Callable[..., Any]
) -> None:
    """G13: meanwhile nothing is allowed without an account; afterwards nothing is lost."""
    kept = http.post("/v1/memory/entries", json={"text": "The spare fuse lies in the second drawer."}).json()
    postmaster = int((service.home / "postgres" / "postmaster.pid").read_text().split()[0])
    psutil.Process(postmaster).kill()
    statuses = {http.post(CHAT, json=asking("hi", 2)).status_code for _ in range(3)}
    assert statuses <= {200, 503}
    assert eventually(lambda: http.get("/v1/usage").status_code == 200, 30)
    assert http.get(f"/v1/memory/entries/{kept['id']}").json()["text"] == kept["text"]
    assert turn(http, "hi", "fast", max_tokens=3).answer


def test_a_killed_tier_ends_the_stream_with_an_error(
    service: RunningService, http: httpx.Client, eventually: Callable[..., Any]
) -> None:
    """S05, S06: after the first byte the error is a valid chunk, then [DONE]; what was generated is charged."""
    seen: list[dict[str, Any]] = []
    body = asking("Write a very long story about a dragon.", 500, stream=True)
    with http.stream("POST", CHAT, json=body) as response:
        for chunk in lines(response):
            seen.append(chunk)
            if len(seen) == 4:
                for replica in service.replicas("fast"):
                    replica.kill()
    assert seen[-1]["error"]["code"] == "tier_unavailable"
    assert seen[-1]["choices"] == [{"index": 0, "delta": {}, "finish_reason": None}]
    record = http.get("/v1/generations").json()["data"][0]
    assert record["outcome"] == "failed" and tokens(http)["reserved"] == 0
    assert tokens(http)["used"] == record["prompt_tokens"] + record["completion_tokens"] > 0
    assert eventually(lambda: readiness(service) == 503, 30), "Serve notices"
    assert eventually(lambda: readiness(service) == 200, 90), "and replaces it"
