"""What a vLLM tier has beyond the engine contract, and that no text of a person lies in any log of it."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import aclosing
from pathlib import Path
from typing import Any

import psutil
import pytest

from configs import folders
from configs.engines import OWN_ARGUMENTS
from configs.settings import ChatTier
from deployments.tiers.contract import ChatRequest, Message
from deployments.tiers.errors import EngineFailed
from tests.chat_engines.conftest import Graph
from tests.chat_engines.test_behaviour import GREEDY, ask, capital, round_of, text_of

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]


async def test_an_adapter_is_a_model_of_its_tier_and_answers_differently(graph: Graph) -> None:
    wish = ChatRequest(ask("Tell me about the sea."), 20, sampling=GREEDY)
    answers = [text_of(await round_of(graph.tier(name), wish)) for name in (None, "loud", "terse", None)]
    assert answers[0] == answers[3] and len(set(answers)) == 3


def test_callers_name_an_adapter_and_an_agent_may_choose_one(graph: Graph) -> None:
    with graph.client() as http:
        offered = {model["id"]: model for model in http.get("/v1/models").json()["data"]}
        assert {"loud", "terse", "deep", "fast", "speaker"} <= offered.keys()
        body: dict[str, Any] = {"messages": ask("Good morning."), "max_tokens": 8, "temperature": 0}
        said = {
            name: http.post("/v1/chat/completions", json={**body, "model": name}).json()["choices"][0]["message"]
            for name in ("deep", "loud", "speaker")
        }
        assert said["deep"]["content"] != said["loud"]["content"] and said["speaker"]["content"]
        records = http.get("/v1/generations").json()["data"]
    told = [(one["tier"], one["model"], one["agent"]) for one in records[:3]]
    adapted = "SmolLM2-135M-Instruct:loud"
    assert told == [("deep", adapted, "speaker"), ("deep", adapted, None), ("deep", "SmolLM2-135M-Instruct", None)]


def test_the_whole_graph_runs_with_a_vllm_and_a_llama_cpp_tier(graph: Graph) -> None:
    with graph.client() as http:
        ready = http.get("/readyz")
        assert ready.status_code == 200, ready.text
        kept = http.post("/v1/memory/entries", json={"kind": "preference", "text": "I like short answers."})
        assert kept.status_code == 201
        for model in ("deep", "fast"):
            body = {"model": model, "messages": capital("France"), "max_tokens": 20, "temperature": 0}
            answer = http.post("/v1/chat/completions", json=body).json()
            assert "Paris" in answer["choices"][0]["message"]["content"]
        body = {"model": "speaker", "messages": ask("How should answers be?"), "max_tokens": 8}
        answer = http.post("/v1/chat/completions", json=body).json()
        assert [entry["text"] for entry in answer["memory"]["shown"]] == ["I like short answers."]


def test_a_stream_over_http_carries_tokens_as_they_come(graph: Graph) -> None:
    body = {"model": "deep", "messages": capital("Italy"), "max_tokens": 20, "temperature": 0, "stream": True}
    with graph.client() as http, http.stream("POST", "/v1/chat/completions", json=body) as response:
        chunks = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: {")]
    texts = [choice["delta"].get("content") for chunk in chunks for choice in chunk["choices"]]
    assert "Rome" in "".join(filter(None, texts)) and len(list(filter(None, texts))) >= 4


async def test_no_word_of_a_request_is_in_a_log(graph: Graph) -> None:
    """Requests that succeed, are cancelled, overflow the window, or carry a schema: vLLM logs none of them."""
    mark = "xylophonist7"
    said: list[Message] = ask(f"Repeat this: {mark}")
    await round_of(graph.tier(), ChatRequest(said, 10, sampling=GREEDY))
    schema = {"type": "object", "properties": {mark: {"type": "integer"}}, "required": [mark]}
    await round_of(graph.tier(), ChatRequest(said, 30, sampling=GREEDY, schema=schema))
    async with aclosing(graph.tier().chat(ChatRequest(said, 200, sampling=GREEDY))) as deltas:
        await anext(deltas)
    for broken in (ChatRequest(ask(f"{mark} " * 2000), 5), ChatRequest(said, 5, sampling={"temperature": mark})):
        with pytest.raises(EngineFailed):
            await round_of(graph.tier(), broken)
    with pytest.raises(EngineFailed):
        await graph.tier().count([{"role": "user", "content": {mark: 1}}], [])
    await asyncio.sleep(1)  # buffers of the replicas' logs
    home = folders.home(graph.settings)
    files = [path for path in home.rglob("*") if path.is_file() and "postgres" not in path.parts]
    assert any("serve" in path.parts for path in files)
    assert [path for path in files if mark.encode() in path.read_bytes()] == []


def test_nothing_of_a_vllm_tier_listens_beyond_this_machine(graph: Graph) -> None:
    """On one node without cards. What vLLM opens between nodes is the cluster's network policy's."""
    ours = [psutil.Process(), *psutil.Process().children(recursive=True)]
    listening = [
        (one.name(), connection.laddr.ip)
        for one in ours
        for connection in one.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert any(name.startswith("VLLM") for name, _ in listening)
    assert {address.removeprefix("::ffff:") for _, address in listening} <= {"127.0.0.1", "::1"}, listening


def test_the_engine_measures_itself(graph: Graph) -> None:
    """vLLM's statistics reach Ray's metrics; whether those are served is `ray.metrics`."""
    from ray.serve.llm import LLMConfig

    from deployments.tiers.vllm_config import llm_config

    config = LLMConfig(**llm_config("deep", graph.settings.tiers.deep, folders.weights(graph.settings)))
    assert config.log_engine_metrics and config.experimental_configs["stream_batching_interval_ms"] == 0
    assert config.engine_kwargs["enable_prefix_caching"] is True


def tier_of(folder: Path, **engine: Any) -> ChatTier:
    base = {"kind": "vllm", "model": "m", "source": f"path:{folder}"}
    return ChatTier.model_validate({"engine": {**base, **engine}})


TRANSFER = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}


def test_a_model_too_large_for_a_node_is_placed_as_a_group(tmp_path: Path, graph: Graph) -> None:
    from serve import vllm_graph

    placement = {"bundle_per_worker": {"GPU": 1, "CPU": 2}, "strategy": "SPREAD"}
    tier = tier_of(tmp_path, tensor_parallel=2, pipeline_parallel=2, placement=placement, accelerator="H100")
    options = vllm_graph.placement("deep", tier, tmp_path)
    assert options["placement_group_strategy"] == "SPREAD"
    assert [bundle["GPU"] for bundle in options["placement_group_bundles"]] == [1, 1, 1, 1]
    assert all("accelerator_type:H100" in bundle for bundle in options["placement_group_bundles"])


def test_prefill_and_decode_apart_build_a_graph_of_both(tmp_path: Path, graph: Graph) -> None:
    from ray.serve._private.build_app import build_app

    from serve import app

    tier = tier_of(
        tmp_path,
        arguments={"kv_transfer_config": TRANSFER},
        prefill={"replicas": {"min": 1, "max": 3}, "arguments": {"max_num_batched_tokens": 16384}},
        adapters={"sql": f"path:{tmp_path}"},
    )
    tiers = graph.settings.tiers.model_copy(update={"deep": tier})
    built = build_app(app.build(graph.settings.model_copy(update={"tiers": tiers})), name="other")
    parts = {one.name: one for one in built.deployments}
    assert {"deep", "prefill:deep", "fast", "gateway"} <= parts.keys()
    prefill = parts["prefill:deep"]
    assert prefill._deployment_config.autoscaling_config.max_replicas == 3
    config = prefill.init_kwargs["llm_config"]
    assert config.engine_kwargs["max_num_batched_tokens"] == 16384
    assert config.engine_kwargs["lora_modules"][0]["name"] == "sql"


@pytest.mark.parametrize(
    ("engine", "named"),
    [
        ({"arguments": {"no_such_argument": 1}}, "no_such_argument"),
        ({"accelerator": "Abacus"}, "Abacus"),
        ({"placement": {"strategy": "SIDEWAYS", "bundles": [{"GPU": 1}]}}, "STRICT_SPREAD"),
    ],
)
def test_a_setting_that_the_library_refuses_is_one_clear_line(
    tmp_path: Path, graph: Graph, engine: dict[str, Any], named: str
) -> None:
    from serve import vllm_graph

    with pytest.raises(EngineFailed) as refused:
        vllm_graph.placement("deep", tier_of(tmp_path, **engine), tmp_path)
    assert named in str(refused.value) and "\n" not in str(refused.value)


def test_the_parsers_that_the_gpu_profile_names_are_vllms(graph: Graph) -> None:
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    text = (Path(__file__).parents[2] / "configs" / "gpu.yaml").read_text()
    calls = set(re.findall(r"call_parser: (\w+)", text))
    reasoning = set(re.findall(r"reasoning_parser: (\w+)", text))
    assert calls >= {"hermes", "qwen3_coder"} and reasoning
    for name in calls:
        ToolParserManager.get_tool_parser(name)
    for name in reasoning:
        ReasoningParserManager.get_reasoning_parser(name)


def test_every_argument_that_has_a_key_of_its_own_is_one_of_vllms() -> None:
    from dataclasses import fields

    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.launchers.cli_args import FrontendArgs

    known = {field.name for kind in (AsyncEngineArgs, FrontendArgs) for field in fields(kind)}
    assert OWN_ARGUMENTS.keys() <= known
