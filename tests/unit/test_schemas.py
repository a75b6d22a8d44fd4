"""A schema binds or is refused by the keyword that does not."""

from __future__ import annotations

from typing import Any

import pytest

from deployments.tiers.schemas import fault

PERSON = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}}, "required": ["age"]}
LIST = {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}}}


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize("schema", [{}, PERSON, LIST, deep(10), {"anyOf": [PERSON, {"type": "null"}]}, {"const": 5}])
def test_what_binds_passes(schema: dict[str, Any]) -> None:
    assert fault(schema) is None


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"not": {}}, "'not'"), ({"type": "string", "pattern": "^a$"}, "'pattern'"), ({"oneOf": []}, "'oneOf'"),
        ({"properties": {"a": {"items": {"if": {}}}}}, "'if'"), ({"uniqueItems": True}, "'uniqueItems'"),
        ({"minLength": 10**9}, "minLength"), ({"maxItems": True}, "maxItems"), ({"format": "email"}, "format"),
        ({"$ref": "#/nope"}, "$ref"), ({"$ref": "http://evil.example/x"}, "$ref"), (deep(40), "too large"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "another $ref"),
        ({"properties": {str(n): {} for n in range(600)}}, "too large"), ({"properties": {"a": 5}}, "object"),
    ],
)  # fmt: skip
def test_what_does_not_bind_is_named(schema: dict[str, Any], says: str) -> None:
    assert says in str(fault(schema))
