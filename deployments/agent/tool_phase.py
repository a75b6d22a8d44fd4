"""The tool calls of a turn under its bounds: how many, which, and how often the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from configs.settings import Agent
from deployments.agent import audit
from deployments.agent.account import finished
from deployments.ledger.records import Generation, Records
from deployments.tiers.contract import ToolCall
from tools import table
from tools.step import Step
from tools.tool import Context, Tool

_OVER_LIMIT = table.Outcome("refused", "The limit of tool calls in this turn is reached.")
_CUT = table.Outcome("timed_out", "The turn ended while the tool ran.")


@dataclass
class ToolPhase:
    """Runs a round's calls at once; `open` ends at the limit or when one call was made a third time."""

    agent: Agent
    tools: Mapping[str, Tool]
    context: Context
    records: Records
    generation: Generation
    limit: int
    emit: Callable[[Step], None]
    calls_made: int = 0
    repeated: bool = False
    closed: bool = False
    _seen: dict[str, tuple[int, asyncio.Task[table.Outcome]]] = field(default_factory=dict)

    @property
    def offered(self) -> list[dict[str, Any]]:
        """The functions to show the model: none when the phase is over."""
        return functions(self.agent, self.tools, self.context.caller.may) if self.open and self.limit else []

    @property
    def open(self) -> bool:
        return not (self.limit_reached or self.repeated or self.closed)

    @property
    def limit_reached(self) -> bool:
        return self.calls_made > 0 and self.calls_made >= self.limit

    async def run(self, calls: Sequence[ToolCall]) -> list[table.Outcome]:
        """How each call ended, in their order. Of the calls, those within the limit run."""
        within = max(0, self.limit - self.calls_made)
        first = self.generation.steps
        self.generation.steps += len(calls)
        self.calls_made += min(len(calls), within)
        running = [self._one(first + place, call, place < within) for place, call in enumerate(calls)]
        outcomes = await asyncio.gather(*running, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):  # all have ended; the first fault is the turn's
                raise outcome
        return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]

    async def _one(self, index: int, call: ToolCall, within_limit: bool) -> table.Outcome:
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        self.emit(Step(index, "tool", "started", call.name, arguments))

        async def ended(outcome: table.Outcome, started_at: datetime, elapsed_ms: int) -> None:
            self.emit(Step(index, "tool", outcome.status, call.name, arguments, outcome.result, elapsed_ms=elapsed_ms))
            await finished(self._record(call, outcome, started_at, elapsed_ms))

        outcome, _ = await audit.watched(self._outcome(call, within_limit), _CUT, ended)
        return outcome

    async def _outcome(self, call: ToolCall, within_limit: bool) -> table.Outcome:
        """The same call again is answered from the first; a third time ends the phase."""
        if not within_limit:
            return _OVER_LIMIT
        call = self._prepared(call)
        key = json.dumps([call.name, call.arguments], sort_keys=True)
        times, running = self._seen.get(key) or (0, asyncio.ensure_future(self._call(call)))
        self._seen[key] = (times + 1, running)
        if times >= 2:
            self.repeated = True
        return await running

    def _prepared(self, call: ToolCall) -> ToolCall:
        """With what its arguments mean now, at the start of its round."""
        tool = self.tools.get(call.name)
        if tool is None or tool.prepare is None or not isinstance(call.arguments, dict):
            return call
        return ToolCall(call.name, tool.prepare(self.context, call.arguments))

    async def _call(self, call: ToolCall) -> table.Outcome:
        offered = {one["function"]["name"] for one in functions(self.agent, self.tools, self.context.caller.may)}
        return await table.call(call.name, call.arguments, self.context, offered, self.tools)

    async def _record(self, call: ToolCall, outcome: table.Outcome, started_at: datetime, elapsed_ms: int) -> None:
        known = audit.known(call.name, self.tools)
        self.generation.tools.append(known)
        made = audit.Made(self.context.caller.subject, self.generation.id, "loop", known, started_at, elapsed_ms)
        await audit.write(self.records, made, call.arguments, outcome)


def functions(agent: Agent, tools: Mapping[str, Tool], may: Callable[[Any], bool]) -> list[dict[str, Any]]:
    """The agent's tools that there are and that the caller has the right to, in the form chat templates take."""
    offered = (tools[name] for name in agent.tools if name in tools)
    return [tool.as_function() for tool in offered if may(tool.right)]
