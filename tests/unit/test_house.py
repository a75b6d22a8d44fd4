"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
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
        read = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
        assert not [node for node in read if node.attr in ("environ", "getenv")]


@pytest.mark.parametrize("path", [one for one in SOURCES if one.name != "bootstrap.py"], ids=name)
def test_no_sql_is_put_together(path: Path) -> None:
    """Roles and databases cannot be bound, so bootstrap formats their names; nothing else does."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            words = " ".join(str(part.value) for part in node.values if isinstance(part, ast.Constant)).lower()
            assert not words.lstrip().startswith(("select ", "insert ", "update ", "delete ", "alter ", "create "))


def test_no_function_is_long() -> None:
    long = [
        f"{name(path)}:{node.lineno} {node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno > 50
    ]
    assert long == []
