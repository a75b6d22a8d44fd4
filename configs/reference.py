"""The settings as one table in Markdown, so that the README's is never out of date: `python -m configs.reference`."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from configs.settings import Agent, Settings, section_in

_BOTH = {"tiers.deep.": "tiers.{deep,fast}.", "tiers.fast.": "tiers.{deep,fast}."}


def table() -> str:
    """A row a key: dotted name, default, meaning. Agents' files come last."""
    rows = {_named(key): field for key, field in [*_leaves(Settings, ""), *_leaves(Agent, "agent: ")]}
    lines = [f"| `{key}` | {_default(field)} | {field.description} |" for key, field in rows.items()]
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *lines])


def _leaves(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        inner = section_in(field.annotation)
        if model is Settings and name == "agents":
            continue  # files of their own
        if inner is None:
            yield prefix + name, field
        else:
            yield from _leaves(inner, f"{prefix}{name}.")


def _named(key: str) -> str:
    return next((new + key.removeprefix(old) for old, new in _BOTH.items() if key.startswith(old)), key)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return "none" if field.default in (None, []) else f"`{field.default}`"


if __name__ == "__main__":
    print(table())  # noqa: T201 (it is a command)
