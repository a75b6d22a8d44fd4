"""The audit log of tool calls, the same for every door: who, which tool, how it ended, how much; never what."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from deployments.ledger.records import Door, Records, ToolCallRecord
from tools.table import FAULT, Outcome

_UNKNOWN = "unknown"


@dataclass(frozen=True)
class Made:
    """A call that was made. `generation` is the turn it belongs to, None where it was made alone."""

    subject: str
    generation: str | None
    door: Door
    tool: str
    started_at: datetime
    elapsed_ms: int


def known(name: str, tools: Collection[str]) -> str:
    """The tool's name; one that a model or a caller made up could hold a person's words."""
    return name if name in tools else _UNKNOWN


Ended = Callable[[Outcome, datetime, int], Awaitable[None]]


async def watched(work: Awaitable[Outcome], cut: Outcome, ended: Ended) -> tuple[Outcome, int]:
    """How a call ended and after how many milliseconds. `ended` is told both, and when it began, whatever happens: `cut` is
    the outcome where the deadline or the client's leaving ends it, and a fault of ours is no timeout."""
    began, started_at = time.monotonic(), datetime.now(UTC)
    outcome, elapsed_ms = cut, 0
    try:
        outcome = await work
    except Exception:
        outcome = FAULT
        raise
    finally:
        elapsed_ms = round((time.monotonic() - began) * 1000)
        await ended(outcome, started_at, elapsed_ms)
    return outcome, elapsed_ms


async def write(records: Records, made: Made, arguments: Any, outcome: Outcome) -> None:
    """Add a call to the log. Raises LedgerUnavailable."""
    await records.add_tool_call(
        ToolCallRecord(
            made.subject,
            made.generation,
            made.door,
            made.tool,
            outcome.status,
            made.started_at,
            made.elapsed_ms,
            bytes_in=len(json.dumps(arguments)),
            bytes_out=len(outcome.result.encode("utf-8", "surrogatepass")),
            host=outcome.host,
            page_bytes=outcome.page_bytes,
        )
    )
