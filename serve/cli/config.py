"""`recall-serve config check`."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from configs import folders
from configs.settings import ChatTier, Settings
from deployments.tiers import needs
from deployments.tiers.needs import Need
from serve.cli import profile


@click.group()
def config() -> None:
    """Look at a profile without starting anything."""


@config.command()
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Say whether the profile FILE and its agents are in order, and what it needs: GPUs, memory, weights to fetch.

    Every mistake is named with file, key and value. Nothing is fetched and nothing started.
    """
    settings = profile.read(file)
    every = needs.of(settings, folders.weights(settings))
    click.echo(f"{file}: in order")
    for need in every:
        for line in _lines(need, settings):
            click.echo(f"  {line}")
    for agent in settings.agents.values():
        model = f"{agent.tier}, adapter {agent.adapter}" if agent.adapter else agent.tier
        click.echo(f"  agent {agent.name}: tier {model}, tools {', '.join(agent.tools) or 'none'}")
    click.echo(f"  database: {settings.database.url or 'the embedded Postgres'}")
    click.echo(f"  data in {settings.data.home}, weights in {settings.data.cache}")
    click.echo(f"in all: {_gpus(every)}; {_to_fetch(every, folders.weights(settings))}")


def _lines(need: Need, settings: Settings) -> list[str]:
    tier = settings.tiers.chat.get(need.name)
    engine = tier.engine if tier else settings.tiers.embed.engine
    kind = "" if "," in need.name else f"{engine.kind}, "
    lines = [f"tier {need.name}: {kind}{need.model}, {_of(need)}"]
    if need.gpus:
        lines.append(f"  GPUs: {need.gpus:g} a replica, {_span(need.least_gpus, need.most_gpus)} in all")
    if need.weights_bytes:
        fetch = f"{_gb(need.fetch_bytes)} to fetch" if need.fetch_bytes else "nothing to fetch"
        lines.append(f"  weights: {_gb(need.weights_bytes)}, {fetch}")
    elif need.fetch_bytes is None:
        lines.append("  weights: their size is known once they are fetched; size_bytes tells it before")
    if memory := _memory(need, tier):
        lines.append(f"  memory: {memory}")
    return lines


def _of(need: Need) -> str:
    return f"{_span(need.replicas.min, need.replicas.max)} replica{'s' if need.replicas.max > 1 else ''}"


def _memory(need: Need, tier: ChatTier | None) -> str | None:
    if tier is None or need.weights_bytes is None:
        return None
    if tier.engine.kind == "llama_cpp":
        cache_bytes = tier.engine.prompt_cache_mib * 2**20
        return f"{_gb(need.weights_bytes + cache_bytes)} a replica, and the window of {tier.slots} slots"
    if need.bytes_a_gpu is None:
        return (
            f"{_gb(need.weights_bytes)} a replica as it lies on disk, twice that in float32, and the cache of prompts"
        )
    share = tier.engine.gpu_memory_share
    least = need.bytes_a_gpu / share
    return (
        f"{_gb(need.bytes_a_gpu)} of weights on each GPU; the cache of prompts has the rest of {share:.0%} of it, "
        f"so more than {_gb(least)}"
    )


def _gpus(every: list[Need]) -> str:
    least, most = sum(need.least_gpus for need in every), sum(need.most_gpus for need in every)
    return f"{_span(least, most)} GPU{'s' if most > 1 else ''}" if most else "no GPU"


def _to_fetch(every: list[Need], cache: Path) -> str:
    known = sum(need.fetch_bytes or 0 for need in every)
    unknown = " and what the hub alone knows" if any(need.fetch_bytes is None for need in every) else ""
    if not known and not unknown:
        return "nothing to fetch"
    there = next(folder for folder in (cache, *cache.parents) if folder.exists())
    return f"{_gb(known)} to fetch{unknown}, {_gb(shutil.disk_usage(there).free)} free for it"


def _span(least: float, most: float) -> str:
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def _gb(count: float | None) -> str:
    return f"{(count or 0) / 1e9:,.1f} GB"
