"""The main job on the real graph with the real models."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletion

from tests.serve.chunks import turn
from tests.serve.running import RunningService

pytestmark = [pytest.mark.graph, pytest.mark.timeout(400)]
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "first_turn.py"


def test_the_first_turn_of_the_documentation(service: RunningService, key: str) -> None:
    environment = {**os.environ, "RECALL_URL": f"{service.root}/v1", "RECALL_KEY": key}
    ran = subprocess.run(
        [sys.executable, EXAMPLE], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    remembered, reviewed, asked = re.split(r"^> ", ran.stdout, flags=re.MULTILINE)[1:]
    assert re.search(r"\[step 1: tool remember, done in \d+ ms\]", remembered)
    assert re.search(r"\[shown m_[0-9a-f]{28}: .*tabs.* \(score 0\.\d+\)\]", reviewed)
    assert re.search(r"tool platform_status, done", asked)
    assert all(tier in asked for tier in ("deep (chat)", "fast (chat)", "embed (embedding)"))
    assert '"used": ' in asked
    records = [json.loads(line) for line in ran.stdout.splitlines() if '"object": "generation"' in line]
    assert len(records) == 3 and all(record["outcome"] == "completed" for record in records)
    said = {"tabs", "prefer", "please", "function", "func", "add", "int", "healthy", "right", "now"}
    assert not said & set(re.findall(r"[a-z]+", json.dumps(records).lower()))


def test_what_is_streamed_is_what_the_whole_answer_says(http: httpx.Client) -> None:
    question = "Name three primary colours, comma separated."
    streamed = turn(http, question, "fast", seed=7)
    body = {"model": "fast", "messages": [{"role": "user", "content": question}], "temperature": 0, "seed": 7}
    whole = http.post("/v1/chat/completions", json={**body, "max_tokens": 200}).json()
    ChatCompletion.model_validate(whole, strict=True)
    assert streamed.answer == whole["choices"][0]["message"]["content"]
    assert streamed.last["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"] == "stop"
    assert streamed.last["stop"] == whole["stop"] == {"reason": "answered"}


def test_a_stream_keeps_one_identity_and_begins_with_the_role(http: httpx.Client) -> None:
    streamed = turn(http, "Is the platform healthy right now?", stream_options={"include_usage": True})
    assert len({(chunk["id"], chunk["model"], chunk["created"]) for chunk in streamed.chunks}) == 1
    assert streamed.chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    *others, usage = streamed.chunks
    assert usage["choices"] == [] and usage["usage"]["total_tokens"] > 0
    assert all(len(chunk["choices"]) == 1 for chunk in others)
    assert streamed.done("platform_status")


def test_steps_can_be_left_out(http: httpx.Client) -> None:
    streamed = turn(http, "Is the platform healthy right now?", stream_options={"include_steps": False})
    assert streamed.steps == [] and streamed.answer


def test_the_site_guide_knows_the_status_and_remembers_nothing(http: httpx.Client) -> None:
    streamed = turn(http, "Are all models healthy?", "site-guide")
    assert streamed.done("platform_status")
    assert "memory" not in streamed.last


def test_a_page_is_ground_for_the_site_guide_and_taints_the_turn(http: httpx.Client) -> None:
    page = {
        "url": "https://site.example/help",
        "title": "Help",
        "text": "Opening hours: the desk is open from 9 to 14 o'clock.",
    }
    streamed = turn(http, "When is the desk open, according to this page?", "site-guide", page=page)
    assert "14" in streamed.answer
    assert http.get("/v1/generations").json()["data"][0]["tainted"] is True


def test_a_forgotten_entry_is_shown_no_more(http: httpx.Client) -> None:
    kept = http.post("/v1/memory/entries", json={"kind": "preference", "text": "I prefer tabs in Go code."})
    assert kept.status_code == 201
    question = "Please review this Go function: func add(a int, b int) int { return a + b }"
    assert [entry["id"] for entry in turn(http, question, max_tokens=20).last["memory"]["shown"]] == [kept.json()["id"]]
    assert turn(http, question, max_tokens=20, memory="off").last.get("memory") is None
    assert http.delete(f"/v1/memory/entries/{kept.json()['id']}").status_code == 204
    assert turn(http, question, max_tokens=20).last["memory"]["shown"] == []


def test_parameters_are_honoured(client: openai.OpenAI) -> None:
    ask = [{"role": "user", "content": "Count from 1 to 9, comma separated, nothing else."}]
    stopped = client.chat.completions.create(model="fast", messages=ask, temperature=0, stop=["5"], max_tokens=60)
    assert "4" in stopped.choices[0].message.content and "5" not in stopped.choices[0].message.content
    short = client.chat.completions.create(model="fast", messages=ask, max_completion_tokens=3)
    assert short.choices[0].finish_reason == "length" and short.usage.completion_tokens == 3
    seeded = [
        client.chat.completions.create(model="fast", messages=ask, seed=11, temperature=1, max_tokens=12)
        for _ in range(2)
    ]
    assert seeded[0].choices[0].message.content == seeded[1].choices[0].message.content
    spoken = client.chat.completions.create(model="fast", messages=ask, logprobs=True, top_logprobs=2, max_tokens=4)
    assert len(spoken.choices[0].logprobs.content) == 4
    assert all(len(one.top_logprobs) == 2 and one.logprob <= 0 for one in spoken.choices[0].logprobs.content)


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("model", ["fast", "code-reviewer"])
def test_a_schema_binds_the_answer(client: openai.OpenAI, model: str) -> None:
    answer = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "Invent a person."}],
        temperature=0,
        max_tokens=120,
        response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}},
    )
    person = json.loads(answer.choices[0].message.content)
    assert set(person) == {"name", "age"} and isinstance(person["age"], int)


def test_embeddings_in_both_encodings(client: openai.OpenAI) -> None:
    texts = ["I prefer tabs in Go code.", "Volim tabulatore u kodu.", "The dog sleeps."]
    floats = client.embeddings.create(model="embed", input=texts, encoding_format="float")
    packed = client.embeddings.create(model="embed", input=texts)  # the client asks for base64 by itself
    assert [len(one.embedding) for one in floats.data] == [384] * 3
    for one, other in zip(floats.data, packed.data, strict=True):
        assert one.embedding == pytest.approx(other.embedding, abs=1e-6)
    tabs, tabulatori, dog = (one.embedding for one in floats.data)
    assert sum(map(float.__mul__, tabs, tabulatori)) > sum(map(float.__mul__, tabs, dog))
    assert floats.usage.prompt_tokens > 10


def test_models_are_listed_with_what_they_can_do(client: openai.OpenAI) -> None:
    models = {model.id: model.model_extra["capabilities"] for model in client.models.list()}
    assert models == {
        "code-reviewer": ["chat", "agent", "memory"],
        "site-guide": ["chat", "agent"],
        "deep": ["chat"],
        "fast": ["chat"],
        "embed": ["embedding"],
    }
    assert client.models.retrieve("deep").id == "deep"


SERVICES = {"gateway", "memory", "platform", "sandbox", "web"}


def test_probes_and_the_admin_status(service: RunningService, http: httpx.Client) -> None:
    assert httpx.get(f"{service.root}/healthz").json() == {"status": "alive"}
    assert httpx.get(f"{service.root}/readyz").json() == {"status": "ready", "away": []}
    assert http.get("/v1/admin/status").status_code == 403
    with service.client(service.key("operator", "--admin")) as admin:
        status = admin.get("/v1/admin/status").json()
    assert status["healthy"] and {part["name"] for part in status["services"]} == SERVICES
    assert {tier["name"]: tier["replicas"] for tier in status["tiers"]} == {"deep": 1, "fast": 1, "embed": 1}


def test_both_agents_fit_the_local_prompt_budget(http: httpx.Client) -> None:
    """Brief and tools take at most 700 tokens; the person's turn here is one word."""
    for agent in ("code-reviewer", "site-guide"):
        streamed = turn(http, "Hi", agent, max_tokens=1, memory="off", stream_options={"include_usage": True})
        assert streamed.chunks[-1]["usage"]["prompt_tokens"] <= 700 + 10


def test_the_agents_prefix_was_read_before_ready(http: httpx.Client) -> None:
    """A fresh subject's first turn finds brief and tools in the prompt cache."""
    streamed = turn(http, "Hi", max_tokens=1, memory="off", stream_options={"include_usage": True})
    usage = streamed.chunks[-1]["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] > 0.9 * usage["prompt_tokens"]
