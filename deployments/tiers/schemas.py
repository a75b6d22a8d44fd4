"""A JSON Schema that the engine cannot hold an answer to is refused, never ignored.

llama.cpp's grammar engine answers a schema it does not understand with an unbound answer and no error. So only keywords
that were seen to bind are let through, and sizes are bounded, since `minLength: 1e9` makes a grammar of that size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema

MOST_DEPTH = 16
MOST_NODES = 500
MOST_REPEATS = 1000
_ANNOTATIONS = {"title", "description", "default", "examples", "$schema", "$id", "$comment"}
_VALUES = {"enum", "const"}
_LISTS_OF_SCHEMAS = {"anyOf"}
_MAPS_OF_SCHEMAS = {"properties", "$defs", "definitions"}
_SCHEMAS = {"items", "additionalProperties"}
_REPEATS = {"minLength", "maxLength", "minItems", "maxItems"}
_NUMBERS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
_PLAIN = {"type", "required", "$ref", "format"}
_FORMATS = {"date", "time", "date-time", "uuid"}
_KNOWN = _ANNOTATIONS | _VALUES | _LISTS_OF_SCHEMAS | _MAPS_OF_SCHEMAS | _SCHEMAS | _REPEATS | _NUMBERS | _PLAIN


class _Fault(Exception):
    """Found while walking; becomes the answer of `fault`."""


def fault(schema: Any) -> str | None:
    """Names the first keyword that cannot be held to; None when the whole schema binds."""
    try:
        for count, (depth, node) in enumerate(_walk(schema, 0)):
            if depth > MOST_DEPTH or count > MOST_NODES:
                return f"the schema is too large (at most {MOST_DEPTH} levels and {MOST_NODES} parts)"
            _check_node(node)
        jsonschema.Draft202012Validator.check_schema(schema)
        _check_references(schema)
    except jsonschema.SchemaError as error:
        return f"the schema is malformed at {'.'.join(map(str, error.absolute_path))[:60] or 'its top'}"
    except _Fault as found:
        return str(found)
    return None


def _check_node(node: Any) -> None:
    if isinstance(node, bool):
        return
    if not isinstance(node, dict):
        raise _Fault("a schema must be an object")
    if unknown := sorted(node.keys() - _KNOWN):
        raise _Fault(f"the keyword {unknown[0][:60]!r} is not supported in response_format")
    for key in _REPEATS & node.keys():
        if type(node[key]) is not int or not 0 <= node[key] <= MOST_REPEATS:
            raise _Fault(f"{key} must be a whole number from 0 to {MOST_REPEATS}")
    if "format" in node and node["format"] not in (*_FORMATS,):
        raise _Fault(f"format must be one of {', '.join(sorted(_FORMATS))}")


def _check_references(schema: Any) -> None:
    """A `$ref` must point into the schema's own `$defs`, and none may lead back to itself without an object between."""
    definitions = schema.get("$defs") or schema.get("definitions") or {} if isinstance(schema, dict) else {}
    for _, node in _walk(schema, 0):
        reference = node.get("$ref") if isinstance(node, dict) else None
        if reference is None:
            continue
        name = str(reference).rpartition("/")[2]
        if reference not in (f"#/$defs/{name}", f"#/definitions/{name}") or name not in definitions:
            raise _Fault("$ref must name a schema in $defs")
        if _refers_at_once(definitions[name]):
            raise _Fault("$ref may not name another $ref")


def _refers_at_once(node: Any) -> bool:
    """Whether resolving `node` needs another `$ref` before any property or item: such a chain may never end."""
    if not isinstance(node, dict):
        return False
    return "$ref" in node or any(_refers_at_once(one) for one in node.get("anyOf", ()))


def _walk(node: Any, depth: int) -> Iterator[tuple[int, Any]]:
    """Every schema inside `node`, itself first; stops going down below the depth allowed."""
    yield depth, node
    if not isinstance(node, dict) or depth > MOST_DEPTH:
        return
    for key, value in node.items():
        if key in _SCHEMAS:
            yield from _walk(value, depth + 1)
        elif key in _LISTS_OF_SCHEMAS and isinstance(value, list):
            for one in value:
                yield from _walk(one, depth + 1)
        elif key in _MAPS_OF_SCHEMAS and isinstance(value, dict):
            for one in value.values():
                yield from _walk(one, depth + 1)
