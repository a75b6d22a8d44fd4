"""The memory service: verifies for itself who is calling, embeds, and asks the store.

A subject is read from the caller's token alone; a call with a bare name of a subject is refused. One call names a subject:
`write_episode`, and only the platform's own service token opens it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from configs import folders
from configs.settings import Settings
from deployments import replica
from deployments.handles import EmbeddingHandle
from deployments.identity import EPISODES, IdentityRefused, Verifier
from deployments.tiers.contract import EmbedRole
from memory_store import connect, transfer
from memory_store.entry import By, Draft, EntryId, Kind, Source, read_time
from memory_store.errors import BadLines, EntryConflict, MemoryFull, StoreUnavailable
from memory_store.pool import open_pool
from memory_store.recall import Caps
from memory_store.store import Change, Kept, MemoryStore

_BATCH = 16  # texts of an import that are embedded in one call


class MemoryService:
    """Every method takes an identity token for the audience `memory` first. Results are plain values.

    Raises IdentityRefused, the errors of `memory_store.errors`, TierUnavailable when nothing embeds. A refusal after texts
    were embedded comes as a value, `{"refused": error, "tokens"}`, since what was embedded is charged either way.
    """

    async def __init__(self, settings: Settings, embedding: Any) -> None:  # type: ignore[misc]  # Serve awaits it
        replica.prepare()
        secrets, embed = folders.secrets(settings), settings.tiers.embed
        self._callers, self._services = Verifier("caller", secrets, "memory"), Verifier("service", secrets, "memory")
        self._seals = transfer.Seals((secrets / "episodes.key").read_bytes())
        self._embedding = EmbeddingHandle(embedding, embed.deadline_seconds)
        self._caps = Caps(embed.floor, settings.memory.shown_entries, settings.memory.shown_tokens)
        self._import_lines = settings.memory.import_lines
        database = connect.arguments(settings.database, secrets, "recall_memory")
        self._pool = await open_pool(database, settings.memory.pool)
        about = await self._embedding.describe()
        self._store = MemoryStore(
            self._pool,
            about["model"],
            about["dimension"],
            settings.memory.entries_per_subject,
            embed.similar,
            settings.memory.wait_seconds,
        )
        await self._store.register_model()

    async def recall(self, token: str, query: str) -> dict[str, Any]:
        """`{"shown", "left_out", "not_embedded", "tokens"}`: what a turn with this text would be shown."""
        subject = self._subject(token)
        vector, tokens = await self._vector(query, "query")
        try:
            found = await self._store.recall(subject, vector, self._caps)
        except StoreUnavailable as refused:
            return {"refused": refused, "tokens": tokens}
        return {**found.as_dict(), "tokens": tokens}

    async def keep(
        self, token: str, kind: str, text: str, source: dict[str, str], expires_at: str | None = None
    ) -> dict[str, Any]:
        """`{"entry", "existed", "similar", "tokens"}`, or a refusal."""
        draft = Draft(cast(Kind, kind), text, _source(source), read_time(expires_at) if expires_at else None)
        return await self._keep(self._subject(token), draft)

    async def correct(
        self, token: str, entry: str, changes: dict[str, str | None], source: dict[str, str]
    ) -> dict[str, Any]:
        """`changes` may hold `text`, `kind` and `expires_at` (None takes it away). The answer is that of `keep`; its entry
        is None where there is none."""
        subject = self._subject(token)
        expires_at = changes.get("expires_at")
        change = Change(
            changes.get("text"),
            cast(Kind | None, changes.get("kind")),
            "expires_at" in changes,
            read_time(expires_at) if expires_at else None,
            _source(source),
        )
        vector, tokens = await self._vector(change.text, "passage") if change.text is not None else (None, 0)
        try:
            return _kept(await self._store.correct(subject, EntryId(entry), change, vector), tokens)
        except (EntryConflict, StoreUnavailable) as refused:
            return {"refused": refused, "tokens": tokens}

    async def get(self, token: str, entry: str) -> dict[str, Any] | None:
        found = await self._store.get(self._subject(token), EntryId(entry))
        return found.as_dict() if found else None

    async def page(self, token: str, kind: str | None, before: str | None, limit: int) -> list[dict[str, Any]]:
        """At most `limit` entries, newest first, older than the entry `before`."""
        found = await self._store.page(
            self._subject(token), cast(Kind | None, kind), EntryId(before) if before else None, limit
        )
        return [entry.as_dict() for entry in found]

    async def search(
        self, token: str, words: list[str], kind: str | None, before: str | None, limit: int
    ) -> list[dict[str, Any]]:
        """As `page`, of the entries in whose text each of the words stands."""
        subject = self._subject(token)
        cursor = EntryId(before) if before else None
        return [
            one.as_dict() for one in await self._store.search(subject, words, cast(Kind | None, kind), cursor, limit)
        ]

    async def forget(self, token: str, entry: str) -> bool:
        return await self._store.forget(self._subject(token), EntryId(entry))

    async def forget_all(self, token: str, dry_run: bool) -> int:
        """How many entries were deleted, or would be."""
        subject = self._subject(token)
        return await (self._store.count(subject) if dry_run else self._store.forget_all(subject))

    async def export(self, token: str, before: str | None, limit: int) -> list[dict[str, Any]]:
        """A page of entries as the objects of JSON Lines, newest first."""
        subject = self._subject(token)
        found = await self._store.page(subject, None, EntryId(before) if before else None, limit)
        return [transfer.written(entry, subject, self._seals) for entry in found]

    async def import_plan(self, token: str, raw: bytes) -> dict[str, Any]:
        """Looks at a file and does nothing: `{"bad": its bad lines in words, "tokens": what embedding the rest takes}`."""
        subject = self._subject(token)
        file = await self._file(raw, subject)
        if file.bad:
            return {"bad": transfer.told(file.bad), "tokens": 0}
        return {"bad": "", "tokens": sum(await self._counts(await self._store.new_among(subject, file.lines)))}

    async def import_lines(self, token: str, raw: bytes, planned_tokens: int) -> dict[str, Any]:
        """Import a file, all or nothing: `{"imported", "existed", "expired", "tokens"}`, or a refusal, also where embedding
        takes more than was planned, since entries were forgotten meanwhile."""
        subject = self._subject(token)
        file = await self._file(raw, subject)
        if file.bad:
            return {"refused": BadLines(transfer.told(file.bad)), "tokens": 0}
        new = await self._store.new_among(subject, file.lines)
        if sum(await self._counts(new)) > planned_tokens:
            return {"refused": StoreUnavailable("the memory changed meanwhile; try again"), "tokens": 0}
        vectors, tokens = await self._passages([line.draft.text for line in new])
        await asyncio.to_thread(lambda: [line.draft.language for line in new])  # not while the subject is locked
        by_folded = {line.folded: vector for line, vector in zip(new, vectors, strict=True)}
        try:
            done = await self._store.import_all(subject, file.lines, by_folded)
        except (MemoryFull, StoreUnavailable) as refused:
            return {"refused": refused, "tokens": tokens}
        return {"imported": done.added, "existed": done.existed, "expired": file.expired, "tokens": tokens}

    async def write_episode(self, service_token: str, subject: str, text: str, agent: str) -> dict[str, Any]:
        """Keep a session's summary as an entry of `subject`; the answer is that of `keep`.

        Takes a service token made out to the episodes' writer. Raises IdentityRefused for a caller's token and any other.
        """
        if self._services.verify(service_token).subject != EPISODES:
            raise IdentityRefused("not_the_writer")
        return await self._keep(subject, Draft("episode", text, Source("session", agent)))

    async def check_health(self) -> None:
        """Asked by Serve. A database that is away is no reason to replace the replica."""

    async def _keep(self, subject: str, draft: Draft) -> dict[str, Any]:
        vector, tokens = await self._vector(draft.text, "passage")
        try:
            return _kept(await self._store.keep(subject, draft, vector), tokens)
        except (MemoryFull, StoreUnavailable) as refused:
            return {"refused": refused, "tokens": tokens}

    async def _file(self, raw: bytes, subject: str) -> transfer.File:
        """In a thread: a long file takes a second or two."""
        return await asyncio.to_thread(transfer.read, raw, subject, self._seals, self._import_lines)

    async def _counts(self, lines: Sequence[transfer.Line]) -> list[int]:
        return await self._embedding.count([line.draft.text for line in lines], "passage") if lines else []

    def _subject(self, token: str) -> str:
        identity = self._callers.verify(token)
        if "memory" not in identity.rights:
            raise IdentityRefused("right_missing")
        return identity.subject

    async def _vector(self, text: str, role: EmbedRole) -> tuple[list[float], int]:
        vectors, tokens = await self._embedding.embed([text], role)
        return vectors[0], tokens[0]

    async def _passages(self, texts: Sequence[str]) -> tuple[list[list[float]], int]:
        """Vectors of many texts, in batches between which others are served, and their tokens together."""
        vectors: list[list[float]] = []
        total = 0
        for start in range(0, len(texts), _BATCH):
            some, tokens = await self._embedding.embed(texts[start : start + _BATCH], "passage")
            vectors += some
            total += sum(tokens)
        return vectors, total


def _source(source: dict[str, str]) -> Source:
    return Source(cast(By, source["by"]), source["ref"])


def _kept(kept: Kept | None, tokens: int) -> dict[str, Any]:
    if kept is None:
        return {"entry": None, "existed": False, "similar": [], "tokens": tokens}
    return {
        "entry": kept.entry.as_dict(),
        "existed": kept.existed,
        "similar": list(kept.similar),
        "tokens": tokens,
    }
