"""A step of a turn as the caller sees it: a recall or one tool call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

StepKind = Literal["recall", "tool"]
StepStatus = Literal["started", "done", "failed", "refused", "timed_out"]


@dataclass(frozen=True)
class Step:
    """`index` counts from 0 within the turn; a recall carries `entries`, a tool call its name, arguments and result."""

    index: int
    kind: StepKind
    status: StepStatus
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    result: str | None = None
    entries: list[dict[str, Any]] | None = None
    elapsed_ms: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready, without the keys that do not apply."""
        return {key: value for key, value in vars(self).items() if value is not None}
