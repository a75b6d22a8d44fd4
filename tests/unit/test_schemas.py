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


@pytest.mark.parametrize(
    "keyword",
    [
        "allOf", "oneOf", "not", "if", "then", "else", "pattern", "patternProperties", "propertyNames", "minProperties",
        "maxProperties", "dependentSchemas", "dependentRequired", "dependencies", "prefixItems", "contains", "minContains",
        "maxContains", "uniqueItems", "additionalItems", "multipleOf", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef",
        "$anchor", "$vocabulary", "contentEncoding", "nullable", "x-guidance", "minimun",
    ],
)  # fmt: skip
def test_every_keyword_that_does_not_bind_is_named_wherever_it_stands(keyword: str) -> None:
    inner = {"type": "string", keyword: 1}
    for schema in (
        inner,
        {"properties": {"a": inner}},
        {"items": inner},
        {"anyOf": [{"type": "null"}, inner]},
        {"additionalProperties": inner},
        {"$ref": "#/$defs/a", "$defs": {"a": inner}},
    ):
        assert f"'{keyword}'" in str(fault(schema))


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "nonsense"}, id="no-such-type"),
        pytest.param({"type": 5}, id="type-no-text"),
        pytest.param({"required": 5}, id="required-no-list"),
        pytest.param({"properties": []}, id="properties-no-object"),
        pytest.param({"anyOf": {}}, id="anyOf-no-list"),
        pytest.param({"anyOf": []}, id="anyOf-empty"),
        pytest.param({"enum": 5}, id="enum-no-list"),
        pytest.param({"type": "integer", "minimum": "x"}, id="minimum-no-number"),
        pytest.param({"type": "integer", "exclusiveMinimum": True}, id="draft-4"),
        pytest.param({"format": []}, id="format-no-text"),
        pytest.param({"$ref": None}, id="ref-no-text"),
        pytest.param({"$ref": "#/$defs/a", "$defs": ["a"]}, id="defs-a-list"),
        pytest.param({"$ref": "#/$defs/a", "$defs": "a"}, id="defs-a-text"),
        pytest.param({"$ref": "#/$defs/a", "$defs": 5}, id="defs-a-number"),
        pytest.param(
            {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}, id="T09-ref-loop-in-anyOf"
        ),
    ],
)
def test_a_malformed_schema_is_refused(schema: dict[str, Any]) -> None:
    assert isinstance(fault(schema), str)


def test_what_is_refused_is_not_repeated_at_length() -> None:
    assert len(str(fault({"x" * 100_000: 1}))) < 500
