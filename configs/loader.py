"""Reading a profile and its agents. Each mistake is named with its file, key, value and what is allowed."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from configs.errors import ConfigError
from configs.section import kind_of, sections_in
from configs.settings import Agent, Radar, Settings

Model = TypeVar("Model", bound=BaseModel)


class _UniqueKeys(yaml.SafeLoader):
    """YAML lets a key stand twice and keeps the last; here that is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key!r} stands twice", problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def load(path: Path) -> Settings:
    """The profile at `path` with its agents.

    Raises ConfigError: a file that is missing, not YAML, or holds a wrong key or value; every mistake is listed.
    """
    values = _mapping(path)
    if "agents" in values:
        raise ConfigError(f"{path}: agents: agents are files in the folder `agents_dir`, not part of a profile")
    settings = _validated(path, Settings, values)
    folder = (path.parent / settings.agents_dir).resolve()
    agents = {agent.name: agent for agent in map(load_agent, sorted(folder.glob("*.yaml")))}
    if not agents:
        raise ConfigError(f"{path}: agents_dir: no agent file (*.yaml) in {folder}")
    if clash := sorted(agents.keys() & {*settings.tiers.chat, *settings.tiers.adapters, "embed"}):
        raise ConfigError(f"{folder}: the names {clash} belong to tiers or adapters; rename the agent")
    for agent in agents.values():
        _check_adapter(folder, agent, settings)
    return settings.model_copy(update={"agents": agents, "agents_dir": folder, "radar": _radar(path, settings.radar)})


def _check_adapter(folder: Path, agent: Agent, settings: Settings) -> None:
    """Raises ConfigError where the agent's tier has no such adapter."""
    known = sorted(settings.tiers.chat[agent.tier].engine.adapters)
    if agent.adapter and agent.adapter not in known:
        there = f"it has {', '.join(known)}" if known else "it has none"
        raise ConfigError(
            f"{folder / agent.name}.yaml: adapter: the tier {agent.tier} has no {agent.adapter!r}; {there}"
        )


def _radar(path: Path, radar: Radar) -> Radar:
    """The Radar with its file found from the profile. Raises ConfigError where there is none."""
    if radar.file is None:
        return radar
    file = (path.parent / radar.file).resolve()
    if not file.is_file():
        raise ConfigError(f"{path}: radar.file: there is no file {file}")
    return radar.model_copy(update={"file": file})


def load_agent(path: Path) -> Agent:
    """The agent in one file. Raises ConfigError."""
    agent = _validated(path, Agent, _mapping(path))
    if agent.name != path.stem:
        raise ConfigError(f"{path}: name: {agent.name!r} differs from the file's name; make both the same")
    return agent


def _mapping(path: Path) -> dict[str, Any]:
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeys)  # noqa: S506 (a SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read ({reason}); give the path of a YAML profile") from None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ConfigError(f"{path}: not valid YAML: a key, a number or a date in it cannot be read") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {_yaml_reason(error)}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: a mapping of keys to values is expected at the top")
    return values


def _yaml_reason(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
    return f"{getattr(error, 'problem', None) or 'unreadable'}{place}"


def _validated(path: Path, model: type[Model], values: dict[str, Any]) -> Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(_mistake(path, model, one) for one in error.errors())) from None


def _mistake(path: Path, model: type[BaseModel], error: Any) -> str:
    keys, sections = _place(model, error["loc"])
    place = f"{path}: {'.'.join(keys)}"
    match error["type"]:
        case "extra_forbidden":
            return f"{place}: unknown key; allowed here: {', '.join(sorted(sections[0].model_fields))}"
        case "missing":
            return f"{place}: missing; this key has no default"
        case "union_tag_not_found":
            return f"{place}.kind: missing; there are {_kinds(sections)}"
        case "union_tag_invalid":
            return f"{place}.kind: {error['input']['kind']!r} is not allowed: there are {_kinds(sections)}"
        case _:
            return f"{place}: {error['input']!r} is not allowed: {error['msg'].removeprefix('Value error, ')}"


def _place(model: type[BaseModel], loc: tuple[str | int, ...]) -> tuple[list[str], list[type[BaseModel]]]:
    """The keys that lead to `loc`, as they stand in the file, and the sections there: an unknown key's own, or those that
    its `kind` chooses from. pydantic puts the chosen kind between the keys."""
    keys: list[str] = []
    sections = [model]
    for part in loc:
        if len(sections) > 1 and (chosen := [section for section in sections if kind_of(section) == part]):
            sections = chosen
            continue
        keys.append(str(part))
        if field := sections[0].model_fields.get(str(part)) if sections else None:
            sections = sections_in(field.annotation)
    return keys, sections


def _kinds(sections: list[type[BaseModel]]) -> str:
    return ", ".join(sorted(map(kind_of, sections)))
