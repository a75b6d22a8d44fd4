"""`recall-serve keys issue|list|revoke`. The database must be running: `make up` in another terminal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import click

from configs.settings import ALL_RIGHTS, Limits, Right
from deployments.ledger.errors import LedgerUnavailable
from deployments.ledger.keys import Key, KeyRing
from serve.cli import profile
from serve.cli.memory import offer_to_forget
from serve.keyring import Result, with_ring
from serve.supervisor.state import running_settings

DEFAULT_RIGHTS: tuple[Right, ...] = ("chat", "memory", "tools.read", "tools.run_code", "tools.open_page")


@click.group()
def keys() -> None:
    """Issue, list and revoke API keys of the running service."""


@keys.command()
@click.argument("name")
@click.option(
    "--right",
    "rights",
    multiple=True,
    type=click.Choice(ALL_RIGHTS),
    help="A right; repeat for more. Default: all but admin.",
)
@click.option("--admin", is_flag=True, help="The right admin besides.")
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=NUMBER",
    help=f"Differs from the profile: {', '.join(Limits.model_fields)}.",
)
@click.option("--days", type=click.FloatRange(min=0, min_open=True), help="Days until it expires. Default: never.")
@profile.option
def issue(
    name: str, rights: tuple[str, ...], admin: bool, limits: tuple[str, ...], days: float | None, path: Path
) -> None:
    """Issue a key for NAME and print it, once. Two keys of one name share memory and budget."""
    wanted = cast(tuple[Right, ...], rights or DEFAULT_RIGHTS) + (("admin",) if admin and "admin" not in rights else ())
    numbers = dict(_limit(one) for one in limits)
    life = timedelta(days=days) if days else None
    try:
        key, secret = _with_ring(path, lambda ring: ring.issue(name, wanted, numbers, life))
    except ValueError as error:
        raise profile.Mistake(str(error).splitlines()[0]) from None
    click.echo(f"{key.id} for {key.subject}; the key is shown this once:", err=True)
    click.echo(secret)


@keys.command("list")
@profile.option
def list_keys(path: Path) -> None:
    """List keys: id, name, state, rights. Never the keys themselves."""
    for key in _with_ring(path, lambda ring: ring.all()):
        click.echo(f"{key.id}  {key.name:<20} {_state(key):<28} {','.join(key.rights)}")


@keys.command()
@click.argument("key_id")
@click.option("--forget/--keep", "forget", default=None, help="Forget the entries too, or keep them. Default: ask.")
@profile.option
def revoke(key_id: str, forget: bool | None, path: Path) -> None:
    """Revoke the key KEY_ID at once. A turn under way ends by its own deadline.

    With the last key of a name its memory cannot be reached any more: then it offers to forget the entries.
    """
    key, others = _with_ring(path, lambda ring: _revoked(ring, key_id))
    if key is None:
        raise profile.Mistake(f"there is no valid key {key_id}; see `recall-serve keys list`")
    click.echo(f"{key_id} is revoked")
    if forget:
        offer_to_forget(key.subject, path, yes=True)
    elif forget is None and not others:
        _offer(key.subject, path)


async def _revoked(ring: KeyRing, key_id: str) -> tuple[Key | None, int]:
    """The key, if it was valid until now, and how many valid keys its subject still has."""
    if not await ring.revoke(key_id):
        return None, 0
    every = await ring.all()
    (key,) = (one for one in every if one.id == key_id)
    return key, sum(one.subject == key.subject and _is_valid(one) for one in every)


def _offer(subject: str, path: Path) -> None:
    if sys.stdin.isatty():
        offer_to_forget(subject, path, yes=False)
    else:
        click.echo(f"{subject} has no valid key left; `recall-serve memory forget '{subject}'` forgets its entries")


def _limit(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if name not in Limits.model_fields or not number.isdecimal():
        raise profile.Mistake(f"--limit {text}: give NAME=NUMBER with a NAME of {', '.join(Limits.model_fields)}")
    return name, int(number)


def _is_valid(key: Key) -> bool:
    return key.revoked_at is None and (key.expires_at is None or key.expires_at > datetime.now(UTC))


def _state(key: Key) -> str:
    if key.revoked_at:
        return f"revoked {key.revoked_at:%Y-%m-%d}"
    if key.expires_at and not _is_valid(key):
        return f"expired {key.expires_at:%Y-%m-%d}"
    return f"valid until {key.expires_at:%Y-%m-%d}" if key.expires_at else "valid"


def _with_ring(path: Path, action: Callable[[KeyRing], Awaitable[Result]]) -> Result:
    settings = running_settings(profile.read(path))
    try:
        return asyncio.run(with_ring(settings, action))
    except (LedgerUnavailable, OSError):
        raise click.ClickException("the database does not answer; start the service with `make up` first") from None
