"""The profile a command works on, read at the edge."""

from __future__ import annotations

import os
from pathlib import Path

import click

from configs import folders, loader
from configs.errors import ConfigError
from configs.settings import Settings
from tools.table import TABLE

DEFAULT = Path(__file__).parents[2] / "configs" / "local.yaml"

option = click.option(
    "--profile",
    "path",
    type=click.Path(path_type=Path),
    default=DEFAULT,
    show_default="configs/local.yaml",
    help="YAML profile to run.",
)


def read(path: Path) -> Settings:
    """The profile with its folders resolved. Raises a click error (exit code 2) that lists every mistake."""
    try:
        settings = loader.load(path)
    except ConfigError as error:
        raise Mistake(str(error)) from None
    for agent in settings.agents.values():
        if unknown := [name for name in agent.tools if name not in TABLE]:
            file = settings.agents_dir / f"{agent.name}.yaml"
            raise Mistake(f"{file}: tools: {unknown[0]!r} is not allowed: there are {', '.join(sorted(TABLE))}")
    return folders.resolve(settings, os.environ, os.geteuid() == 0)


class Mistake(click.ClickException):
    """One clear message; exit code 2."""

    exit_code = 2
