"""`recall-serve config check`."""

from __future__ import annotations

from pathlib import Path

import click

from serve.cli import profile


@click.group()
def config() -> None:
    """Look at a profile without starting anything."""


@config.command()
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Say whether the profile FILE and its agents are in order; name every mistake with file, key and value."""
    settings = profile.read(file)
    click.echo(f"{file}: in order")
    for name, tier in settings.tiers.chat.items():
        weights = tier.engine.weights
        click.echo(f"  tier {name}: {tier.engine.kind}, {weights.file}, {weights.size_bytes / 1e6:,.0f} MB of weights")
    click.echo(f"  tier embed: {settings.tiers.embed.engine.kind}, floor {settings.tiers.embed.floor}")
    for agent in settings.agents.values():
        click.echo(f"  agent {agent.name}: tier {agent.tier}, tools {', '.join(agent.tools) or 'none'}")
    click.echo(f"  data in {settings.data.home}, weights in {settings.data.cache}")
