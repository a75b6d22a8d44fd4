"""A verified subject with its rights and limits. Every tool and every memory call runs as the caller."""

from __future__ import annotations

from dataclasses import dataclass

from configs.settings import Limits, Right


@dataclass(frozen=True)
class Caller:
    """Made only from a verified credential. `subject` is compared as exact bytes, never folded."""

    subject: str
    rights: frozenset[Right]
    limits: Limits

    def may(self, right: Right) -> bool:
        return right in self.rights
