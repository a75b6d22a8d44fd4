"""The profile a command works on, read at the edge."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema

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
    _check_tools(path, settings)
    return folders.resolve(settings, os.environ, os.geteuid() == 0)


def _check_tools(path: Path, settings: Settings) -> None:
    """An operator's tools have names and schemas of their own, and agents name tools that there are."""
    for entry in settings.remote_tools:
        if entry.name in TABLE:
            raise Mistake(f"{path}: remote_tools: the name {entry.name!r} is a tool of the project; choose another")
        try:
            jsonschema.Draft202012Validator.check_schema(entry.parameters)
        except jsonschema.SchemaError as error:
            raise Mistake(f"{path}: remote_tools: {entry.name}: parameters: {error.message}") from None
        if keyword := next((word for word in _keywords(entry.parameters) if word in _UNBOUNDED), None):
            raise Mistake(f"{path}: remote_tools: {entry.name}: parameters: {keyword!r} is not allowed; write it out")
    known = {*TABLE, *(entry.name for entry in settings.remote_tools)}
    for agent in settings.agents.values():
        if unknown := [name for name in agent.tools if name not in known]:
            file = settings.agents_dir / f"{agent.name}.yaml"
            raise Mistake(f"{file}: tools: {unknown[0]!r} is not allowed: there are {', '.join(sorted(known))}")


_UNBOUNDED = {
    "$ref",
    "$dynamicRef",
    "$id",
    "pattern",
    "patternProperties",
}  # what a call could fetch, miss or never end


def _keywords(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema
        yield from (word for value in schema.values() for word in _keywords(value))
    elif isinstance(schema, list):
        yield from (word for value in schema for word in _keywords(value))


class Mistake(click.ClickException):
    """One clear message; exit code 2."""

    exit_code = 2
