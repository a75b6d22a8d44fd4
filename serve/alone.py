"""A tool called alone, over HTTP or MCP: the reviewed reads, on the same path and into the same log as in a turn."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from deployments.agent import audit
from deployments.agent.account import finished
from deployments.ledger.records import Door
from serve.edge import Edge
from tools import table
from tools.caller import Caller
from tools.tool import Tool

_RESULT_CHARS = 20_000
_CUT = table.Outcome("timed_out", "The call ended while the tool ran.")


@dataclass(frozen=True)
class Called:
    """How a call ended, and how long it took."""

    outcome: table.Outcome
    elapsed_ms: int


def callable_alone(edge: Edge, caller: Caller) -> list[Tool]:
    """The tools this caller may call alone, in the table's order."""
    return [tool for tool in edge.tools.values() if tool.reviewed and caller.may(tool.right)]


async def call(edge: Edge, caller: Caller, door: Door, name: str, arguments: Any) -> Called:
    """Call a tool as the caller and write it into the audit log. A name that is not callable alone is refused."""
    offered = [tool.name for tool in callable_alone(edge, caller)]
    began, started_at = time.monotonic(), datetime.now(UTC)
    outcome, elapsed_ms = _CUT, 0
    try:
        outcome = await table.call(name, arguments, edge.context(caller), offered, _RESULT_CHARS, edge.tools)
    except Exception:  # a fault of ours: the border answers it, and the log must not call it a timeout
        outcome = table.FAULT
        raise
    finally:  # a call that the client's leaving cuts is recorded too
        elapsed_ms = round((time.monotonic() - began) * 1000)
        made = audit.Made(caller.subject, None, door, audit.known(name, edge.tools), started_at, elapsed_ms)
        await finished(audit.write(edge.records, made, arguments, outcome))
    return Called(outcome, elapsed_ms)
