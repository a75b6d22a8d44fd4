"""`recall-serve config check`."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import click

from configs import folders
from configs.engines import LlamaCpp, Vllm
from deployments.tiers import needs
from deployments.tiers.needs import Files, Part
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
    cache = folders.weights(settings)
    parts = list(needs.parts(settings))
    files = {part.name: needs.files(part.engine, cache) for part in parts}
    click.echo(f"{file}: in order")
    for part in parts:
        for line in _lines(part, files[part.name]):
            click.echo(f"  {line}")
    for agent in settings.agents.values():
        model = f"{agent.tier}, adapter {agent.adapter}" if agent.adapter else agent.tier
        click.echo(f"  agent {agent.name}: tier {model}, tools {', '.join(agent.tools) or 'none'}")
    click.echo(f"  database: {settings.database.url or 'the embedded Postgres'}")
    click.echo(f"  data in {settings.data.home}, weights in {settings.data.cache}")
    once = {id(part.engine): files[part.name] for part in parts}  # prefill replicas load the tier's own files
    click.echo(f"in all: {_gpus(parts)}; {_to_fetch(list(once.values()), cache)}")


def _lines(part: Part, files: Files) -> list[str]:
    replicas = f"{_span(part.replicas.min, part.replicas.max)} replica{'s' if part.replicas.max > 1 else ''}"
    lines = [f"tier {part.name}: {part.engine.kind}, {part.engine.model}, {replicas}"]
    if part.gpus:
        lines.append(f"  GPUs: {part.gpus:g} a replica, {_span(part.least_gpus, part.most_gpus)} in all")
    if files.size_bytes:
        fetch = f"{_gb(files.fetch_bytes)} to fetch" if files.fetch_bytes else "nothing to fetch"
        lines.append(f"  weights: {_gb(files.size_bytes)}, {fetch}")
        lines.extend(f"  memory: {line}" for line in _memory(part, files.size_bytes))
    elif files.fetch_bytes is None:
        lines.append("  weights: their size is known once they are fetched; size_bytes tells it before")
    return lines


def _memory(part: Part, size_bytes: int) -> list[str]:
    match part.engine:
        case LlamaCpp():
            cached = part.engine.prompt_cache_mib * 2**20
            return [f"{_gb(size_bytes + cached)} a replica, and the windows of its slots"]
        case Vllm() if part.gpus:
            each, share = size_bytes / max(round(part.gpus), 1), part.engine.gpu_memory_share
            return [
                f"{_gb(each)} of weights on each GPU; the cache of prompts has the rest of {share:.0%} of it, "
                f"so more than {_gb(each / share)}"
            ]
        case Vllm():
            return [f"{_gb(size_bytes)} a replica as it lies on disk, twice that in float32, and the cache of prompts"]
        case _:
            return []


def _gpus(parts: Sequence[Part]) -> str:
    least, most = sum(part.least_gpus for part in parts), sum(part.most_gpus for part in parts)
    return f"{_span(least, most)} GPU{'s' if most > 1 else ''}" if most else "no GPU"


def _to_fetch(every: Sequence[Files], cache: Path) -> str:
    known = sum(files.fetch_bytes or 0 for files in every)
    unknown = " and what the hub alone knows" if any(files.fetch_bytes is None for files in every) else ""
    if not known and not unknown:
        return "nothing to fetch"
    there = next(folder for folder in (cache, *cache.parents) if folder.exists())
    return f"{_gb(known)} to fetch{unknown}, {_gb(shutil.disk_usage(there).free)} free for it"


def _span(least: float, most: float) -> str:
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"


def _gb(count: float | None) -> str:
    return f"{(count or 0) / 1e9:,.1f} GB"
