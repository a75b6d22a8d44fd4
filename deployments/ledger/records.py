"""What happened, without a word of what was said: generations and tool calls."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from deployments.ledger.database import LedgerDatabase

Outcome = Literal["completed", "cancelled", "failed"]
Door = Literal["loop", "http", "mcp"]


def new_generation_id() -> str:
    """`gen_` and 28 hex digits that sort by time."""
    return f"gen_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(8)}"


@dataclass
class Generation:
    """The record of a turn, filled while it runs and written once when it ends."""

    subject: str
    tier: str
    model: str
    agent: str | None = None
    id: str = field(default_factory=new_generation_id)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    embedding_tokens: int = 0
    steps: int = 0
    tools: list[str] = field(default_factory=list)
    stop_reason: str | None = None
    outcome: Outcome = "failed"
    tainted: bool = False


@dataclass(frozen=True)
class ToolCallRecord:
    """One call of a tool by any door: sizes and times, of a page its host; no arguments, no path and no result."""

    subject: str
    generation: str | None
    door: Door
    tool: str
    status: str
    started_at: datetime
    elapsed_ms: int
    bytes_in: int
    bytes_out: int
    host: str | None = None  # of a page
    page_bytes: int | None = None


class Records:
    """Writes and reads records. Answers are kept as a keyed digest, to know them again when a client sends them back."""

    def __init__(self, database: LedgerDatabase, answer_key: bytes) -> None:
        self._database = database
        self._answer_key = answer_key

    async def add_generation(self, one: Generation, answer: str | None) -> None:
        """Write a turn's record; a second time changes nothing."""
        digest = self._digest(answer) if answer else None
        await self._database.run(
            "add_generation",
            one.id,
            one.subject,
            one.agent,
            one.tier,
            one.model,
            one.started_at,
            one.prompt_tokens,
            one.completion_tokens,
            one.cached_tokens,
            one.embedding_tokens,
            one.steps,
            one.tools,
            one.stop_reason,
            one.outcome,
            digest,
            one.tainted,
        )

    async def generations(self, subject: str, before: str | None, limit: int) -> list[dict[str, Any]]:
        """The subject's records, newest first, older than the id `before`; JSON-ready."""
        rows = await self._database.rows("list_generations", subject, before, limit)
        return [{"object": "generation", **{key: _plain(value) for key, value in row.items()}} for row in rows]

    async def all_clean(self, subject: str, answers: Collection[str]) -> bool:
        """Whether each of these answers was given to this subject in a turn that read nothing from outside."""
        return await self.clean(subject, answers) == set(answers)

    async def clean(self, subject: str, answers: Collection[str]) -> set[str]:
        """Those of the answers that were given to this subject in a turn that read nothing from outside."""
        by_digest = {self._digest(answer): answer for answer in answers}
        if not by_digest:
            return set()
        rows = await self._database.rows("clean_answers", subject, list(by_digest))
        return {by_digest[bytes(row["answer_hmac"])] for row in rows}

    async def add_tool_call(self, one: ToolCallRecord) -> None:
        await self._database.run(
            "add_tool_call",
            f"t_{secrets.token_hex(12)}",
            one.subject,
            one.generation,
            one.door,
            one.tool,
            one.status,
            one.started_at,
            one.elapsed_ms,
            one.bytes_in,
            one.bytes_out,
            one.host,
            one.page_bytes,
        )

    def _digest(self, answer: str) -> bytes:
        return hmac.digest(self._answer_key, answer.encode("utf-8", "surrogatepass"), hashlib.sha256)


def _plain(value: Any) -> Any:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value
