"""The memory service: verifies for itself who is calling, embeds, and asks the store.

A subject is read from the caller's token alone; a call with a bare name of a subject is refused.
"""

from __future__ import annotations

from typing import Any, cast

from configs import folders
from configs.settings import Settings
from deployments import replica
from deployments.handles import EmbeddingHandle
from deployments.identity import IdentityRefused, Verifier
from deployments.tiers.contract import EmbedRole
from memory_store import connect
from memory_store.entry import By, Draft, EntryId, Kind, Source, check_text
from memory_store.errors import EntryConflict, MemoryFull
from memory_store.recall import Caps
from memory_store.store import MemoryStore, open_pool


class MemoryService:
    """Every method takes an identity token for the audience `memory` first. Results are plain values.

    Raises IdentityRefused, the errors of `memory_store.errors`, TierUnavailable when nothing embeds.
    """

    async def __init__(self, settings: Settings, embedding: Any) -> None:  # type: ignore[misc]  # Serve awaits it
        replica.prepare()
        self._verifier = Verifier("caller", folders.secrets(settings), "memory")
        self._embedding = EmbeddingHandle(embedding)
        self._caps = Caps(settings.tiers.embed.floor, settings.memory.shown_entries, settings.memory.shown_tokens)
        database = connect.arguments(settings.database, folders.secrets(settings), "recall_memory")
        self._pool = await open_pool(database, settings.memory.pool)
        about = await self._embedding.describe()
        self._store = MemoryStore(self._pool, about["model"], about["dimension"], settings.memory.entries_per_subject)

    async def recall(self, token: str, query: str) -> dict[str, Any]:
        """`{"shown", "left_out", "tokens"}`: what a turn with this text would be shown."""
        subject = self._subject(token)
        vector, tokens = await self._vector(query, "query")
        found = await self._store.recall(subject, vector, self._caps)
        return {**found.as_dict(), "tokens": tokens}

    async def keep(self, token: str, kind: str, text: str, source: dict[str, str]) -> dict[str, Any]:
        """`{"entry", "existed", "tokens"}`, or `{"refused": error, "tokens"}`: what was embedded is told either way."""
        subject = self._subject(token)
        draft = Draft(cast(Kind, kind), text, Source(cast(By, source["by"]), source["ref"]))
        vector, tokens = await self._vector(text, "passage")
        try:
            kept = await self._store.keep(subject, draft, vector)
        except MemoryFull as refused:
            return {"refused": refused, "tokens": tokens}
        return {"entry": kept.entry.as_dict(), "existed": kept.existed, "tokens": tokens}

    async def get(self, token: str, entry: str) -> dict[str, Any] | None:
        found = await self._store.get(self._subject(token), EntryId(entry))
        return found.as_dict() if found else None

    async def page(self, token: str, kind: str | None, before: str | None, limit: int) -> list[dict[str, Any]]:
        """At most `limit` entries, newest first, older than the entry `before`."""
        found = await self._store.page(
            self._subject(token), cast(Kind | None, kind), EntryId(before) if before else None, limit
        )
        return [entry.as_dict() for entry in found]

    async def correct(self, token: str, entry: str, text: str, kind: str | None) -> dict[str, Any]:
        """`{"entry": entry or None, "tokens"}`, or `{"refused": error, "tokens"}`."""
        subject = self._subject(token)
        check_text(text)
        vector, tokens = await self._vector(text, "passage")
        try:
            changed = await self._store.correct(subject, EntryId(entry), text, vector, cast(Kind | None, kind))
        except EntryConflict as refused:
            return {"refused": refused, "tokens": tokens}
        return {"entry": changed.as_dict() if changed else None, "tokens": tokens}

    async def forget(self, token: str, entry: str) -> bool:
        return await self._store.forget(self._subject(token), EntryId(entry))

    async def check_health(self) -> None:
        """Asked by Serve. A database that is away is no reason to replace the replica."""

    def _subject(self, token: str) -> str:
        identity = self._verifier.verify(token)
        if "memory" not in identity.rights:
            raise IdentityRefused("right_missing")
        return identity.subject

    async def _vector(self, text: str, role: EmbedRole) -> tuple[list[float], int]:
        vectors, tokens = await self._embedding.embed([text], role)
        return vectors[0], tokens[0]
