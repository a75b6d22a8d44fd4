"""What a vLLM tier adds to the graph, as `ray.serve.llm` works it out: where its replicas go, and those that prefill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray.serve import Application

from configs.settings import ChatTier, Vllm
from deployments.tiers.errors import EngineFailed
from deployments.tiers.vllm_config import llm_config, prefill_config


def placement(name: str, tier: ChatTier, weights: Path) -> dict[str, Any]:
    """Deployment options: the placement group's bundles and strategy, and the actor's own. Raises EngineFailed."""
    library, servers = _library()
    options: dict[str, Any] = servers.LLMServer.get_deployment_options(
        library.LLMConfig(**llm_config(name, tier, weights))
    )
    return {key: options[key] for key in _PLACEMENT if key in options}


def prefill(name: str, tier: ChatTier, weights: Path) -> Application | None:
    """The replicas that read the tier's prompts, where the profile sets them apart. Raises EngineFailed."""
    assert isinstance(tier.engine, Vllm)
    if tier.engine.prefill is None:
        return None
    library, servers = _library()
    config = library.LLMConfig(**prefill_config(name, tier, weights))
    application: Application = library.build_llm_deployment(
        config, name_prefix="prefill:", deployment_cls=servers.PDPrefillServer
    )
    return application


_PLACEMENT = ("ray_actor_options", "placement_group_bundles", "placement_group_strategy")


def _library() -> tuple[Any, Any]:
    """`ray.serve.llm` needs vLLM, and takes ten seconds to import; a profile without vLLM needs neither."""
    try:
        from ray.serve import llm  # noqa: PLC0415
        from ray.serve.llm import deployment  # noqa: PLC0415
    except ImportError as error:
        extra = "pip install 'recall-serve[gpu]'"
        raise EngineFailed(f"the package {error.name or 'vllm'} is missing: {extra}") from None
    return llm, deployment
