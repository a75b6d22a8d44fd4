"""Agents, tiers and adapters as the models that callers name."""

from __future__ import annotations

from typing import Any

from configs.settings import Settings


def models(settings: Settings) -> list[dict[str, Any]]:
    """OpenAI's model objects with `capabilities` and a `description`, agents first, then tiers and their adapters."""
    agents = [
        _model(agent.name, agent.description, ["chat", "agent", *(["memory"] if agent.remembers else [])])
        for agent in settings.agents.values()
    ]
    chat = [_model(name, f"The {name} tier, without memory or tools.", ["chat"]) for name in settings.tiers.chat]
    adapters = [
        _model(name, f"An adapter of the {tier} tier, without memory or tools.", ["chat"])
        for name, tier in settings.tiers.adapters.items()
    ]
    return [*agents, *chat, *adapters, _model("embed", "The embedding tier.", ["embedding"])]


def _model(name: str, description: str, capabilities: list[str]) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "recall-serve",
        "description": description,
        "capabilities": capabilities,
    }
