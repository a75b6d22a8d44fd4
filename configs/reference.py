"""The settings as one table in Markdown, so that the README's is never out of date: `python -m configs.reference`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from configs.section import kind_of, sections_in
from configs.settings import Agent, Settings

_BOTH = {"tiers.deep.": "tiers.{deep,fast}.", "tiers.fast.": "tiers.{deep,fast}."}


class _Row(NamedTuple):
    key: str
    default: str
    meaning: str | None


def table() -> str:
    """A row a key: dotted name, default, meaning. Where `kind` chooses a section, `[KIND]` stands behind it in the keys
    of one kind, and `kind` itself has one row. Agents' files come last."""
    rows = {_named(row.key): row for row in [*_leaves(Settings, ""), *_leaves(Agent, "agent: ")]}
    lines = [f"| `{key}` | {row.default} | {row.meaning} |" for key, row in rows.items()]
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *lines])


def _leaves(model: type[BaseModel], prefix: str) -> Iterator[_Row]:
    for name, field in model.model_fields.items():
        if model is Settings and name == "agents":
            continue  # files of their own
        sections = sections_in(field.annotation)
        if len(sections) > 1:
            yield from _kinds(sections, prefix + name)
        elif sections:
            yield from _leaves(sections[0], f"{prefix}{name}.")
        else:
            yield _Row(prefix + name, _default(field), field.description)


def _kinds(sections: list[type[BaseModel]], key: str) -> Iterator[_Row]:
    """The row of `kind`, then each kind's own."""
    meanings = [section.model_fields["kind"].description or "" for section in sections]
    yield _Row(f"{key}.kind", "required", " ".join(meanings))
    for section in sections:
        rows = _leaves(section, f"{key}[{kind_of(section)}].")
        yield from (row for row in rows if not row.key.endswith("].kind"))


def _named(key: str) -> str:
    return next((new + key.removeprefix(old) for old, new in _BOTH.items() if key.startswith(old)), key)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default in (None, [], {}):
        return "none"
    return f"`{field.default}`".replace("\n", r"\n") if field.default != "" else "empty"


if __name__ == "__main__":
    print(table())  # noqa: T201 (it is a command)
