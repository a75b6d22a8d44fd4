"""The loop of a turn: recall, then rounds of model and tools until it answers or meets a bound.

Every limit is checked before anything is spent, each ending has a name, and the record is written whatever happens.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from deployments.agent import prompt
from deployments.agent.account import Spending
from deployments.agent.citations import cited
from deployments.agent.errors import ContextLengthExceeded, DeadlineExceeded
from deployments.agent.events import Ended, Event, Stepped, StopReason, Text
from deployments.agent.generation import deltas, recorded
from deployments.agent.tool_phase import ToolPhase
from deployments.agent.world import TurnRequest, World
from deployments.ledger.errors import BudgetExhausted
from deployments.ledger.records import Generation
from deployments.tiers.contract import ChatRequest, Delta, Usage
from deployments.tiers.errors import SchemaUnsupported
from tools.errors import PlatformBroken
from tools.step import Step, StepStatus
from tools.tool import Context, Reading

RECALL_TOKENS = 600  # set aside for the recall block: texts, labels and dates
log = logging.getLogger(__name__)


class Turn:
    """One turn. `emit` takes events as they happen and never blocks."""

    def __init__(self, request: TurnRequest, world: World, record: Generation, emit: Callable[[Event], None]) -> None:
        self._request = request
        self._world = world
        self._record = record
        self._emit_event = emit
        self._began = False
        self._answer: list[str] = []
        self._unheard_tokens = 0  # of rounds that said nothing; max_tokens bounds what is heard
        self._messages = prompt.system(request.agent.brief if request.agent else None, request.wishes)
        self._messages += prompt.on_page(prompt.history(request.messages), request.page)
        self._recall_due = self._wants_recall()
        self._shown: list[dict[str, Any]] | None = [] if self._recall_due else None
        self._labels: dict[str, str] = {}  # m1… of what is shown, to entry ids
        self._texts: dict[str, str] = {}  # and to their texts
        self._reading = Reading()

    async def run(self) -> None:
        """Run to an ending.

        Raises, before the first event only, ContextLengthExceeded, DeadlineExceeded and what ledger and tiers refuse;
        after it whatever broke, so that the edge ends the stream with an error.
        """
        async with recorded(self._world, self._record, self._heard):
            await self._within_deadline(self._world.tier.deadline_seconds)

    async def _within_deadline(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds) as deadline:
                reason = await self._converse()
            self._end(reason)
        except TimeoutError:
            if not deadline.expired():
                raise
            if not self._began:
                raise DeadlineExceeded(seconds) from None
            self._end("deadline")

    async def _converse(self) -> StopReason:
        tools = await self._tool_phase()
        if self._request.schema is not None and (fault := await self._world.tier.schema_fault(self._request.schema)):
            raise SchemaUnsupported(fault)
        while True:
            offered = tools.offered if tools else []
            try:
                last = await self._round(offered)
            except (BudgetExhausted, ContextLengthExceeded) as bound:
                if not self._began:
                    raise
                return "token_budget" if isinstance(bound, BudgetExhausted) else "length"
            if tools and offered and last.calls:
                outcomes = await tools.run(last.calls)
                note = prompt.note(any(one.retry for one in outcomes), tools.open)
                self._messages += prompt.calls(last.calls, [one.result for one in outcomes], note)
            elif tools and offered and (self._request.schema is not None or self._cut_in_a_call(last)):
                tools.closed = True  # a last round without tools answers
            else:
                return _ending(last, tools)

    async def _round(self, offered: list[dict[str, Any]]) -> Delta:
        """One round of the model, reserved before and settled after. Returns its last delta."""
        prompt_tokens = await self._count(offered)
        recall_tokens = RECALL_TOKENS if self._recall_due else 0
        most = self._most_output(prompt_tokens)
        if most < 1:
            return Delta(finish="length")
        async with self._world.account.spending(prompt_tokens + recall_tokens + most) as spending:
            spending.used = 0  # until the model is asked
            if self._recall_due:
                prompt_tokens = await self._recall(offered, prompt_tokens)
            return await self._generate(offered, prompt_tokens, min(most, self._most_output(prompt_tokens)), spending)

    async def _generate(
        self, offered: list[dict[str, Any]], prompt_tokens: int, most: int, spending: Spending
    ) -> Delta:
        quiet = bool(offered) and self._request.schema is not None
        schema = None if offered else self._request.schema
        request = ChatRequest(
            self._messages, most, offered, self._request.sampling, schema, None if quiet else self._request.top_logprobs
        )
        last, said_before = Delta(finish="stop"), len(self._answer)
        completion_before = self._record.completion_tokens
        try:
            round_of = deltas(self._world.tier, request, prompt_tokens, spending, self._record)
            async with aclosing(round_of) as pieces:
                async for last in pieces:
                    if quiet and last.text.strip():
                        break  # it answers; the schema binds the round that follows
                    if last.text or last.logprobs:
                        self._say(last)
        finally:
            if len(self._answer) == said_before:
                self._unheard_tokens += self._record.completion_tokens - completion_before
        return last

    async def _recall(self, offered: list[dict[str, Any]], prompt_tokens: int) -> int:
        """Put what is recalled under the person's turn, as much as fits; returns the prompt's tokens now."""
        self._recall_due = False
        began = time.monotonic()
        try:
            found = await self._world.memory.recall(self._request.messages[-1]["content"])
        except PlatformBroken:
            self._recalled("failed", began, [])
            return prompt_tokens
        bare, shown = self._messages, list(found["shown"])
        while shown:
            self._messages = prompt.with_data(bare, [prompt.recalled(shown)])
            tokens = await self._count(offered, refuse=False)
            if tokens <= prompt_tokens + RECALL_TOKENS and self._most_output(tokens) >= 1:
                break
            shown.pop()
        else:
            self._messages, tokens = bare, prompt_tokens
        self._shown = shown
        self._labels.update(prompt.labels(shown))
        self._texts.update(zip(self._labels, (entry["text"] for entry in shown), strict=True))
        self._recalled("done", began, shown)
        return tokens

    async def _count(self, offered: list[dict[str, Any]], refuse: bool = True) -> int:
        tokens = await self._world.tier.count(self._messages, offered)
        if refuse and tokens >= self._world.tier.window_tokens:
            raise ContextLengthExceeded(tokens, self._world.tier.window_tokens)
        return tokens

    def _most_output(self, prompt_tokens: int) -> int:
        """Tokens this round may write: the caller's wish for the whole answer, the agent's, the tier's, the window."""
        agent, tier = self._request.agent, self._world.tier
        bounds = [tier.max_output_tokens, tier.window_tokens - prompt_tokens]
        if self._request.max_tokens is not None:
            bounds.append(self._request.max_tokens - self._record.completion_tokens + self._unheard_tokens)
        if agent and agent.bounds.max_output_tokens is not None:
            bounds.append(agent.bounds.max_output_tokens)
        return min(bounds)

    async def _tool_phase(self) -> ToolPhase | None:
        agent, world = self._request.agent, self._world
        self._reading.tainted = self._request.page is not None or not await self._heard_only_clean_answers()
        if agent is None:
            return None
        said = self._request.messages[-1]["content"] if self._request.messages[-1]["role"] == "user" else ""
        context = Context(
            world.caller,
            world.memory,
            world.platform,
            agent.name,
            said,
            self._labels,
            self._texts,
            "\n".join(message["content"] for message in self._request.messages if message["role"] == "user"),
            world.sandbox,
            world.web,
            world.allowance,
            self._reading,
            agent.bounds.result_chars,
        )
        limit = min(agent.bounds.tool_calls, world.caller.limits.tool_calls_per_turn)
        return ToolPhase(agent, world.tools, context, world.records, self._record, limit, self._emit_step)

    async def _heard_only_clean_answers(self) -> bool:
        said = {message["content"] for message in self._request.messages if message["role"] == "assistant"}
        return await self._world.records.all_clean(self._world.caller.subject, said - {""})

    def _cut_in_a_call(self, last: Delta) -> bool:
        """Whether the round ended at its limit with nothing said: in the middle of a call, which is dropped."""
        return last.finish == "length" and not last.calls and not self._answer and last.tokens > 0

    def _wants_recall(self) -> bool:
        request = self._request
        asks = (
            bool(request.messages)
            and request.messages[-1]["role"] == "user"
            and request.messages[-1]["content"].strip()
        )
        remembers = request.agent is not None and request.agent.remembers
        return bool(asks) and remembers and request.recall and self._world.caller.may("memory")

    def _say(self, delta: Delta) -> None:
        self._answer.append(delta.text)
        self._emit(Text(delta.text, delta.logprobs))

    def _recalled(self, status: StepStatus, began: float, entries: list[dict[str, Any]]) -> None:
        elapsed_ms = round((time.monotonic() - began) * 1000)
        self._emit_step(Step(self._record.steps, "recall", status, entries=entries, elapsed_ms=elapsed_ms))
        self._record.steps += 1

    def _emit_step(self, step: Step) -> None:
        self._emit(Stepped(step))

    def _emit(self, event: Event) -> None:
        self._began = True
        self._emit_event(event)

    def _end(self, reason: StopReason) -> None:
        self._record.stop_reason, self._record.outcome = reason, "completed"
        usage = Usage(self._record.prompt_tokens, self._record.completion_tokens, self._record.cached_tokens)
        self._emit(Ended(reason, usage, self._shown, cited("".join(self._answer), self._labels)))

    def _heard(self) -> str:
        """The answer so far; by now it is known what the turn read."""
        self._record.tainted = self._reading.tainted
        return "".join(self._answer)


def _ending(last: Delta, tools: ToolPhase | None) -> StopReason:
    if last.finish == "length":
        return "length"
    if tools and tools.repeated:
        return "repeated_call"
    return "tool_limit" if tools and tools.limit_reached else "answered"
