"""When a person ends a session, a tier writes one entry about it: what they said, in the third person and their language.

The model is asked twice at most and never believed: what it wrote is checked, its sound part kept, or nothing. A session
longer than the window is reported part by part, then the reports are. Every round is reserved before and settled after.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal

from configs.settings import Episodes
from deployments.agent.account import Account, Spending
from deployments.agent.episode import check, fitting, wording
from deployments.agent.episode.errors import EpisodeRefused
from deployments.agent.episode.mend import mended
from deployments.agent.episode.transcript import KnowsAnswers, Line, read, words_of
from deployments.agent.errors import ContextLengthExceeded
from deployments.agent.generation import deltas
from deployments.agent.world import TierPort
from deployments.ledger.records import Generation
from deployments.tiers.contract import ChatRequest, Delta, Message
from memory_store.language import detect

MOST_OUTPUT_TOKENS = 160
_NOTE_TOKENS = 80  # the report of a part
# A 0.5B that reads 3,500 tokens at once repeats the prompt's examples; of 1,500 it reports what was said.
_READ_AT_ONCE_TOKENS, _READ_AT_ONCE_SHARE = 1536, 0.25
_FAULTS_TOKENS = 200  # set aside in the window for telling what was wrong
_FIRST: dict[str, Any] = {"temperature": 0}
_AGAIN: dict[str, Any] = {"temperature": 0.6, "top_p": 0.9, "seed": 7}
_UNFINISHED = re.compile(r"(?<=[.!?…])[^.!?…]*\Z")

Written = Literal["at_once", "again", "mended"]


@dataclass(frozen=True)
class Summary:
    """An episode. `left_out` counts what was not read, by reason, where there was any: `messages` over the limit (the
    oldest), `cut_messages`, `assistant_messages` not known to be clean, `cited_sentences`, `sentences_to_the_tier`,
    `parts` of which nothing sound was reported."""

    text: str
    language: str | None
    written: Written
    rounds: int
    left_out: dict[str, int] = field(default_factory=dict)


async def summarise(
    messages: Sequence[Message],
    subject: str,
    tier: TierPort,
    account: Account,
    records: KnowsAnswers,
    record: Generation,
    settings: Episodes,
) -> Summary:
    """One episode of a session.

    Raises EpisodeRefused, BudgetExhausted, ContextLengthExceeded (a window too small for the request itself), and the
    errors of ledger and tiers. Nothing is spent on a session in which the person says nothing. No time limit of its own.
    """
    transcript = await read(messages, subject, records)
    if not words_of(transcript.lines, "user"):
        raise EpisodeRefused("empty")
    limit = settings.max_input_tokens + await _tokens(tier, [])

    async def within_limit(lines: Sequence[Line]) -> bool:
        return await _tokens(tier, lines) <= limit

    lines, over = await fitting.newest(transcript.lines, within_limit)
    if not words_of(lines, "user"):
        raise EpisodeRefused("empty")
    reporter = _Reporter(tier, account, record, lines)
    text, written = await reporter.report()
    left_out = {**over, **transcript.left_out, "parts": reporter.parts_left_out}
    left_out = {reason: count for reason, count in left_out.items() if count}
    return Summary(text, reporter.language, written, reporter.rounds, left_out)


class _Reporter:
    """Reports one session in as many rounds as it takes."""

    def __init__(self, tier: TierPort, account: Account, record: Generation, lines: Sequence[Line]) -> None:
        self._tier = tier
        self._account = account
        self._record = record
        self._lines = lines
        self._read = check.Read(words_of(lines), words_of(lines, "assistant"))
        self.language = detect(words_of(lines, "user"))
        self.rounds = 0
        self.parts_left_out = 0

    async def report(self) -> tuple[str, Written]:
        lines = await self._in_one_part()
        asked = wording.prompt(lines, self.language)
        first = await self._round(asked, _FIRST)
        faults = self._faults(first)
        if not faults:
            return first, "at_once"
        told = list(dict.fromkeys(fault.told for fault in faults))
        second = await self._round(wording.again(asked, told, self.language), _AGAIN)
        faults = self._faults(second)
        if not faults:
            return second, "again"
        parts = [mended(text, self.language, self._read) for text in (first, second)]
        sound = [part for part in parts if not self._faults(part)]
        if not sound:
            raise EpisodeRefused(faults[0].reason)
        return max(sound, key=len), "mended"

    def _faults(self, text: str) -> list[check.Fault]:
        return check.faults(text, self.language, self._read)

    async def _in_one_part(self) -> Sequence[Line]:
        """The session, or reports of its parts, or reports of those, until one round can read it all.

        It ends: where a pass leaves no fewer parts than there were, or no report, the newest part alone is read.
        """
        parts = await self._parts(self._lines)
        while len(parts) > 1:
            notes = [Line(None, note) for part in parts if (note := await self._note(part))]
            if not notes:
                self.parts_left_out -= 1
                return parts[-1]
            fewer = await self._parts(notes)
            if len(fewer) >= len(parts):
                self.parts_left_out += len(fewer) - 1
                return fewer[-1]
            parts = fewer
        return parts[0]

    async def _parts(self, lines: Sequence[Line]) -> list[list[Line]]:
        found = await fitting.parts(lines, self._fits_window)
        if not found:
            tokens = await self._count(wording.prompt([], self.language))
            raise ContextLengthExceeded(tokens + self._most_output() + _FAULTS_TOKENS, self._tier.window_tokens)
        return found

    async def _note(self, part: Sequence[Line]) -> str:
        """The sound part of a report of `part`."""
        written = await self._round(wording.prompt(part, self.language), _FIRST, _NOTE_TOKENS)
        note = mended(written, self.language, self._read)
        self.parts_left_out += not note
        return note

    async def _fits_window(self, lines: Sequence[Line]) -> bool:
        tokens = await self._count(wording.prompt(lines, self.language))
        return tokens + self._most_output() + _FAULTS_TOKENS <= self._room()

    def _room(self) -> int:
        """Tokens of one round: the window, or the part of it that a model of such a window reads well at once."""
        window = self._tier.window_tokens
        return min(window, max(_READ_AT_ONCE_TOKENS, int(_READ_AT_ONCE_SHARE * window)))

    async def _round(self, messages: list[Message], sampling: dict[str, Any], most: int = MOST_OUTPUT_TOKENS) -> str:
        tokens, most = await self._count(messages), min(most, self._most_output())
        async with self._account.spending(tokens + most) as spending:
            spending.used = 0  # until the model is asked
            self.rounds += 1
            return await self._generate(ChatRequest(messages, most, sampling=sampling), tokens, spending)

    async def _generate(self, request: ChatRequest, prompt_tokens: int, spending: Spending) -> str:
        written, last = [], Delta(finish="stop")
        round_of = deltas(self._tier, request, prompt_tokens, spending, self._record)
        async with aclosing(round_of) as pieces:
            async for last in pieces:
                written.append(last.text)
        text = "".join(written).strip()
        return _UNFINISHED.sub("", text) if last.finish == "length" else text

    def _most_output(self) -> int:
        return min(MOST_OUTPUT_TOKENS, self._tier.max_output_tokens)

    async def _count(self, messages: Sequence[Message]) -> int:
        return await self._tier.count(messages, [])


async def _tokens(tier: TierPort, lines: Sequence[Line]) -> int:
    return await tier.count([{"role": "user", "content": words_of(lines)}], [])
