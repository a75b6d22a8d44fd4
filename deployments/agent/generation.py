"""What every generation of a person owes the ledger, whether a turn or the end of a session asked for it: it is admitted,
each round is charged for what it was, and it is recorded however it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from deployments.agent.account import Spending, finished
from deployments.agent.world import TierPort, World
from deployments.ledger.errors import LedgerError
from deployments.ledger.records import Generation
from deployments.tiers.contract import ChatRequest, Delta, Usage
from deployments.tiers.errors import Overloaded, TierUnavailable

log = logging.getLogger(__name__)


@asynccontextmanager
async def recorded(world: World, record: Generation, answer: Callable[[], str | None]) -> AsyncIterator[None]:
    """Admit a generation for the block; then it stops counting and its record is written, with a digest of the answer.

    Raises TooManyTurns, LedgerUnavailable before the block.
    """
    try:
        await world.turns.open(record.id, world.caller.subject, world.caller.limits.turns_parallel, world.lasts)
        yield
    except asyncio.CancelledError:
        record.outcome = "cancelled"
        raise
    finally:
        await finished(_close(world, record, answer()))


async def _close(world: World, record: Generation, answer: str | None) -> None:
    try:
        await world.turns.close(record.id)
        await world.records.add_generation(record, answer)
    except LedgerError:
        log.warning("the record of a generation could not be written")


async def deltas(
    tier: TierPort, request: ChatRequest, prompt_tokens: int, spending: Spending, record: Generation
) -> AsyncGenerator[Delta, None]:
    """One round of the model; what it cost stands in `spending` and `record` however it ends, also when this is closed.

    Raises the errors of tiers.
    """
    last = Delta()
    spending.used = prompt_tokens
    try:
        async with aclosing(tier.chat(request)) as pieces:
            async for last in pieces:
                spending.used = prompt_tokens + last.tokens
                yield last
    except (Overloaded, TierUnavailable):
        spending.used = spending.used if last.tokens else 0  # a round the tier did not take costs nothing
        raise
    finally:
        if spending.used:
            _charge(last.usage or Usage(prompt_tokens, last.tokens), spending, record)


def _charge(usage: Usage, spending: Spending, record: Generation) -> None:
    spending.used = usage.prompt + usage.completion
    record.prompt_tokens += usage.prompt
    record.completion_tokens += usage.completion
    record.cached_tokens += usage.cached
