"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("configs", "memory_store", "tools", "deployments", "serve")
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
# Who may read the environment: the edge, the switch of a Ray flag, and pip's child, which inherits an operator's settings.
EDGES = ("serve/cli/", "serve/supervisor/", "deployments/replica.py", "deployments/tiers/weights/")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_nothing_inside_reads_the_environment(path: Path) -> None:
    if not name(path).startswith(EDGES):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [
                getattr(node, "attr", ""),
                getattr(node, "id", ""),
                node.name if isinstance(node, ast.alias) else "",
            ]
            assert not {"environ", "environb", "getenv", "getenvb"} & set(names)


SQL = re.compile(
    r"\b(select\b.*\bfrom|insert\s+into|update\s+\S*\s*set|delete\s+from|truncate|set\s+local"
    r"|(create|alter|drop|grant|revoke)\s+(role|database|schema|table|index|extension|connect|usage|select|all|temporary))\b",
    re.IGNORECASE | re.DOTALL,
)


def put_together(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and constant parts of every text that is made of others: f-strings, `%`, `+`, `.format`, `.join`."""
    for node in ast.walk(tree):
        made = isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod)
        )
        called = (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "join")
        )
        if isinstance(node, ast.expr) and (made or called):
            parts = (
                one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)
            )
            yield node.lineno, " ".join(parts)


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_no_sql_is_put_together(path: Path) -> None:
    """Roles and databases cannot be bound, so bootstrap formats their names, in three statements; nothing else does."""
    found = [line for line, text in put_together(ast.parse(path.read_text())) if SQL.search(text)]
    assert len(found) == (3 if name(path) == "memory_store/bootstrap.py" else 0), found


@pytest.mark.parametrize("path", [one for one in SOURCES if name(one) != "configs/reference.py"], ids=name)
def test_nothing_prints(path: Path) -> None:
    """Output goes through click to a person or through logging to a file; `configs.reference` is a command."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    assert not [
        node.lineno for node in calls if isinstance(node.func, ast.Name) and node.func.id in ("print", "pprint")
    ]


def test_no_function_is_long() -> None:
    long = [
        f"{name(path)}:{node.lineno} {node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno > 50
    ]
    assert long == []
