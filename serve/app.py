"""How the graph is bound: the only place that knows which deployment talks to which, and with how many replicas."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ray import serve
from ray.serve import Application

from configs import folders
from configs.engines import Vllm
from configs.section import Replicas
from configs.settings import Settings
from deployments.agent import prompt
from deployments.agent.tool_phase import functions
from deployments.embedding import Embedding
from deployments.memory import MemoryService
from deployments.platform import Platform
from deployments.sandbox.service import SandboxService
from deployments.tiers.chat import ChatTier, Prefix
from deployments.tiers.errors import EngineFailed
from deployments.web.service import WebService
from serve.gateway import Gateway
from tools.table import table_of

NAME = "recall-serve"
_SERVICE_SLOTS = 64
_COUNTS = 16  # counting calls a tier answers beside its generations


def build(settings: Settings) -> Application:
    """The graph of a profile whose folders are resolved."""
    tiers = {name: _chat_tier(settings, name) for name in settings.tiers.chat}
    embed = settings.tiers.embed
    cache = folders.weights(settings)
    embedding = _bound(Embedding, "embed", embed.replicas, embed.slots, embed.num_cpus, embed, cache)
    memory = _bound(MemoryService, "memory", settings.memory.replicas, _SERVICE_SLOTS, 0.5, settings, embedding)
    platform = _bound(Platform, "platform", Replicas(), _SERVICE_SLOTS, 0.1, settings, tiers)
    services = [embedding, memory, platform, _sandbox(settings), _web(settings)]
    gateway = serve.ingress()(Gateway)
    return _bound(gateway, "gateway", settings.http.replicas, settings.http.slots, 1, settings, tiers, *services)


def _sandbox(settings: Settings) -> Application | None:
    """Programs over its slots wait in the replica, within their turn's deadline."""
    sandbox = settings.sandbox
    if not sandbox.enabled:
        return None
    return _bound(
        SandboxService, "sandbox", sandbox.replicas, _SERVICE_SLOTS, 1, settings, target=sandbox.slots, drain_seconds=5
    )


def _web(settings: Settings) -> Application | None:
    if not settings.web.enabled:
        return None
    return _bound(WebService, "web", settings.web.replicas, settings.web.slots, 0.5, settings)


def _chat_tier(settings: Settings, name: str) -> Application:
    tier, weights = settings.tiers.chat[name], folders.weights(settings)
    graph = _vllm_graph() if isinstance(tier.engine, Vllm) else None
    return _bound(
        ChatTier,
        name,
        tier.replicas,
        tier.slots + tier.queue + _COUNTS,
        tier.num_cpus,
        name,
        tier,
        weights,
        _prefixes(settings, name),
        graph.prefill(name, tier, weights) if graph else None,
        target=tier.slots,
        drain_seconds=tier.deadline_seconds,
        **(graph.placement(name, tier, weights) if graph else {}),
    )


def _vllm_graph() -> ModuleType:
    """What it imports needs vLLM and takes ten seconds; a profile without vLLM pays for neither. Raises EngineFailed."""
    try:
        from serve import vllm_graph  # noqa: PLC0415
    except ImportError as error:
        extra = "pip install 'recall-serve[gpu]'"
        raise EngineFailed(f"the package {error.name or 'vllm'} is missing: {extra}") from None
    return vllm_graph


def _prefixes(settings: Settings, tier: str) -> list[Prefix]:
    """What every turn of the tier's agents begins with: brief and tools, as for a caller with all rights."""
    agents = (agent for agent in settings.agents.values() if agent.tier == tier)
    tools = table_of(settings)
    return [
        (
            [*prompt.system(agent.brief, []), {"role": "user", "content": "."}],
            functions(agent, tools, lambda right: True),
        )
        for agent in agents
    ]


def _bound(
    what: type,
    name: str,
    replicas: Replicas,
    slots: int,
    num_cpus: float,
    *arguments: Any,
    target: float | None = None,
    drain_seconds: float = 20,
    **placement: Any,
) -> Application:
    """A deployment that takes `slots` calls at once and grows when replicas have more than `target` each.

    `placement` says where a replica goes that needs more than CPUs.
    """
    deployment = serve.deployment(what).options(
        name=name,
        max_ongoing_requests=slots,
        autoscaling_config={
            "min_replicas": replicas.min,
            "max_replicas": replicas.max,
            "target_ongoing_requests": target or slots / 2,
        },
        graceful_shutdown_timeout_s=min(drain_seconds, 30),
        health_check_period_s=10,
        **({"ray_actor_options": {"num_cpus": num_cpus}} | placement),
    )
    return deployment.bind(*arguments)
