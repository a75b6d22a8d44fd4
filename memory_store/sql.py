"""SQL lives in .sql files: blocks that begin with `-- name: NAME`, loaded once, values always bound."""

from __future__ import annotations

import re
from pathlib import Path

_BLOCK = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.DOTALL | re.MULTILINE)


def load(path: Path) -> dict[str, str]:
    """The named blocks of a file. Raises ValueError when two share a name."""
    blocks = _BLOCK.findall(path.read_text(encoding="utf-8"))
    queries = {name: text.strip() for name, text in blocks}
    if len(queries) != len(blocks):
        raise ValueError(f"{path.name}: two blocks share a name")
    return queries
