"""Bubblewrap started by root is no sandbox, so root's runs need someone else to be.

That someone must own nothing: the account that runs Postgres can enter the database's folders. So no account is made;
each slot has a number that belongs to nobody, which also keeps the kernel's per-user counts of two programs apart.
An ordinary user stays who they are, since they can become no one else.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from deployments.sandbox.errors import SandboxUnfit

# Numbers that distributions leave free: a high range, and one for containers that have only 65,536 ids.
_RANGES = ((1_879_100_000, 10_000), (60_600, 100))


@dataclass(frozen=True)
class Account:
    """Whom a program runs as on the host; inside it is nobody."""

    uid: int
    gid: int


def accounts(count: int) -> list[Account]:
    """One account a slot. Raises SandboxUnfit where root has no number to give."""
    if os.geteuid() != 0:
        return [Account(os.geteuid(), os.getegid())] * count
    for first, size in _RANGES:
        numbers = range(first, first + count)
        if count <= size and all(map(_is_free, (numbers[0], numbers[-1]))):
            return [Account(number, number) for number in numbers]
    raise SandboxUnfit(
        ("identity: root has no unused user id to run programs as; start the service as an ordinary user",)
    )


def _is_free(number: int) -> bool:
    try:
        pwd.getpwuid(number)
    except KeyError:
        return _is_mapped(number, "uid_map") and _is_mapped(number, "gid_map")
    return False


def _is_mapped(number: int, table: str) -> bool:
    rows = [[int(word) for word in line.split()] for line in Path("/proc/self", table).read_text().splitlines()]
    return any(inside <= number < inside + length for inside, _, length in rows)
