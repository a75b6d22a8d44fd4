"""A tier's settings as what `ray.serve.llm` takes. Which cards, groups of them and adapters: passed on, not done here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from configs.engines import Vllm
from configs.settings import ChatTier
from deployments.tiers.weights.folder import fetch_folder

_CPU_ARGUMENTS = {"dtype": "float32", "enforce_eager": True}  # bfloat16 and compiled graphs gain nothing there
_NO_BATCHING = {"stream_batching_interval_ms": 0}  # 50 by default: a token would wait for its fellows
_DECODE_PORTS = {"NIXL_SIDE_CHANNEL_PORT_BASE": 22000}  # off those of prefill replicas on the same node
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",  # the folders are complete; a load that asks the hub is a mistake
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}


def llm_config(name: str, tier: ChatTier, weights: Path) -> dict[str, Any]:
    """The arguments of `LLMConfig` for the tier called `name`; `weights` is the cache folder, where its folders are or are
    brought. Raises WeightsError."""
    engine = _engine(tier)
    return {
        "model_loading_config": {
            "model_id": name,
            "model_source": str(fetch_folder(engine.source, weights, label=name)),
        },
        "accelerator_config": {"kind": engine.device},
        "accelerator_type": engine.accelerator,
        "placement_group_config": engine.placement,
        "engine_kwargs": {**_arguments(engine, tier.slots), **_adapters(name, engine, weights), **engine.arguments},
        "deployment_config": {"ray_actor_options": {"num_cpus": tier.num_cpus}},
        "runtime_env": {"env_vars": _ENVIRONMENT},
        "experimental_configs": _NO_BATCHING | (_DECODE_PORTS if engine.prefill else {}),
        "log_engine_metrics": True,
    }


def prefill_config(name: str, tier: ChatTier, weights: Path) -> dict[str, Any]:
    """The same for the tier's prefill replicas, with what they have of their own."""
    prefill = _engine(tier).prefill
    assert prefill is not None, "asked for a tier that has them"
    config = llm_config(name, tier, weights)
    replicas = {"min_replicas": prefill.replicas.min, "max_replicas": prefill.replicas.max}
    return {
        **config,
        "experimental_configs": _NO_BATCHING,
        "engine_kwargs": {**config["engine_kwargs"], **prefill.arguments},
        "placement_group_config": prefill.placement or config["placement_group_config"],
        "deployment_config": {**config["deployment_config"], "autoscaling_config": replicas},
    }


def _engine(tier: ChatTier) -> Vllm:
    assert isinstance(tier.engine, Vllm)
    return tier.engine


def _arguments(engine: Vllm, slots: int) -> dict[str, Any]:
    """Guidance is llama.cpp's grammar engine too, so that the same schemas bind in the same words."""
    arguments: dict[str, Any] = {
        "max_model_len": engine.context_tokens,
        "max_num_seqs": slots,
        "tensor_parallel_size": engine.tensor_parallel,
        "pipeline_parallel_size": engine.pipeline_parallel,
        "enable_prefix_caching": True,
        "enable_prompt_tokens_details": True,
        "structured_outputs_config": {"backend": "guidance", "disable_any_whitespace": True},
        "default_chat_template_kwargs": engine.template_options or None,
    }
    if engine.call_parser:
        arguments |= {"enable_auto_tool_choice": True, "tool_call_parser": engine.call_parser}
    if engine.reasoning_parser:
        arguments["reasoning_parser"] = engine.reasoning_parser
    on_gpu = {"gpu_memory_utilization": engine.gpu_memory_share}
    return arguments | (on_gpu if engine.device == "gpu" else _CPU_ARGUMENTS)


def _adapters(name: str, engine: Vllm, weights: Path) -> dict[str, Any]:
    if not engine.adapters:
        return {}
    modules = [
        {"name": adapter, "path": str(fetch_folder(source, weights, label=name))}
        for adapter, source in engine.adapters.items()
    ]
    return {
        "enable_lora": True,
        "max_loras": len(modules),
        "max_lora_rank": engine.adapter_rank,
        "lora_modules": modules,
    }
