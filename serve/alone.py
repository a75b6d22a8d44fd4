"""A tool called alone, over HTTP or MCP: the reviewed reads, on the same path and into the same log as in a turn."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from deployments.agent import audit
from deployments.agent.account import finished
from deployments.ledger.records import Door
from serve.edge import Edge
from tools import table
from tools.caller import Caller
from tools.tool import Tool

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

    async def ended(outcome: table.Outcome, started_at: datetime, elapsed_ms: int) -> None:
        made = audit.Made(caller.subject, None, door, audit.known(name, edge.tools), started_at, elapsed_ms)
        await finished(audit.write(edge.records, made, arguments, outcome))

    work = table.call(name, arguments, edge.context(caller), offered, edge.tools)
    return Called(*await audit.watched(work, _CUT, ended))
