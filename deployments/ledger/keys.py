"""API keys: shown once, stored as a digest, revocable, expiring."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from configs.settings import Limits, Right
from deployments.ledger.database import LedgerDatabase
from tools.caller import Caller

PREFIX = "rs_"
_SECRET = re.compile(r"rs_[A-Za-z0-9_-]{43}")
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Key:
    """What is known of a key; the secret itself is not."""

    id: str
    name: str
    subject: str
    rights: tuple[Right, ...]
    limits: dict[str, int]  # those that differ from the profile's
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class KeyRing:
    """Issues, lists, revokes and resolves keys. Two keys of one name are one subject with one budget."""

    def __init__(self, database: LedgerDatabase, defaults: Limits) -> None:
        self._database = database
        self._defaults = defaults

    async def issue(
        self, name: str, rights: tuple[Right, ...], limits: dict[str, int], life: timedelta | None
    ) -> tuple[Key, str]:
        """A new key and its secret, which cannot be shown again. Raises ValueError for a bad name or limit."""
        if not NAME.fullmatch(name):
            raise ValueError("a key's name has 1 to 64 characters of a-z, 0-9, '.', '_' and '-'")
        self._defaults.with_own(limits)
        secret = PREFIX + secrets.token_urlsafe(32)
        row = await self._database.row(
            "issue_key", f"k_{secrets.token_hex(6)}", name, f"key|{name}", digest(secret), list(rights), limits, life
        )
        assert row is not None
        return _key(row), secret

    async def find(self, secret: str) -> Caller | None:
        """The caller of a key that is valid now, else None. What is no key at all is not looked up, and a key whose limits
        are not understood lets nobody in."""
        if not _SECRET.fullmatch(secret):
            return None
        row = await self._database.row("find_key", digest(secret))
        if row is None:
            return None
        try:
            limits = self._defaults.with_own(row["limits"])
        except (ValueError, TypeError):
            return None
        return Caller(row["subject"], frozenset(row["rights"]), limits)

    async def all(self) -> list[Key]:
        return [_key(row) for row in await self._database.rows("list_keys")]

    async def any(self) -> bool:
        """Whether a key was ever issued."""
        row = await self._database.row("count_keys")
        return bool(row and row["count"])

    async def revoke(self, key_id: str) -> bool:
        """End a key at once; False when there is no such key or it was revoked before."""
        return await self._database.row("revoke_key", key_id) is not None


def digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _key(row: Any) -> Key:
    return Key(**{**row, "rights": tuple(row["rights"])})
