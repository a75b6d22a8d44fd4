"""What a vLLM tier adds to the graph, as `ray.serve.llm` works it out: where its replicas go, and those that prefill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ray.serve import Application
from ray.serve.llm import LLMConfig, build_llm_deployment
from ray.serve.llm.deployment import LLMServer

from configs.engines import Vllm
from configs.settings import ChatTier
from deployments.tiers.errors import EngineFailed
from deployments.tiers.vllm_config import llm_config, prefill_config
from deployments.tiers.vllm_prefill import Prefill
from deployments.tiers.weights.sources import one_line

_PLACEMENT = ("ray_actor_options", "placement_group_bundles", "placement_group_strategy")


def placement(name: str, tier: ChatTier, weights: Path) -> dict[str, Any]:
    """Deployment options: the placement group's bundles and strategy, and the actor's own. Raises EngineFailed."""
    with _told_in_a_line(name):
        config = LLMConfig(**llm_config(name, tier, weights))
        options: dict[str, Any] = LLMServer.get_deployment_options(config)
    return {key: options[key] for key in _PLACEMENT if key in options}


def prefill(name: str, tier: ChatTier, weights: Path) -> Application | None:
    """The replicas that read the tier's prompts, where the profile sets them apart. Raises EngineFailed."""
    assert isinstance(tier.engine, Vllm)
    if tier.engine.prefill is None:
        return None
    with _told_in_a_line(name):
        config = LLMConfig(**prefill_config(name, tier, weights))
        application: Application = build_llm_deployment(config, name_prefix="prefill:", deployment_cls=Prefill)
    return application


@contextmanager
def _told_in_a_line(name: str) -> Iterator[None]:
    """What the library says of a wrong setting, as our error."""
    try:
        yield
    except ValidationError as error:
        reasons = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise EngineFailed(f"tiers.{name}.engine: {one_line(reasons)}") from None
    except ValueError as error:
        raise EngineFailed(f"tiers.{name}.engine: {one_line(str(error))}") from None
