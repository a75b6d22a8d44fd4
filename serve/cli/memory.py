"""`recall-serve memory scrub|reembed|forget`. The database must be running: `make up` in another terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import asyncpg
import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from configs import folders
from configs.settings import Settings
from deployments.tiers.engines import embedding_engine
from deployments.tiers.errors import EngineFailed
from deployments.tiers.weights import WeightsError
from memory_store import connect, reembed, subjects, upkeep
from memory_store.errors import ScrubBlocked, StoreUnavailable, WrongDimension
from serve.cli import profile
from serve.supervisor.state import running_settings

Result = TypeVar("Result")


@click.group()
def memory() -> None:
    """Look after the memory of the running service."""


@memory.command()
@click.option("--wait", "wait_seconds", default=60.0, show_default=True, help="Seconds to wait for work under way.")
@profile.option
def scrub(wait_seconds: float, path: Path) -> None:
    """Remove the bytes of forgotten texts from the database's files, by rewriting its tables.

    Forgetting deletes at once; this removes what Postgres leaves in free space. It runs by itself in the night after any
    forgetting. Requests to the memory wait meanwhile.
    """
    done = _as_maintenance(path, lambda connection, _: upkeep.scrub(connection, wait_seconds))
    click.echo(f"scrubbed: {_megabytes(done.bytes_before)} before, {_megabytes(done.bytes_after)} now")


@memory.command("reembed")
@click.option("--prune", is_flag=True, help="Then delete the vectors of other models; do so once no service uses them.")
@profile.option
def reembed_command(prune: bool, path: Path) -> None:
    """Make vectors with the profile's embedding model for every entry that has none of it.

    Safe while a service runs, with the old model or the new one; can be stopped and started again.
    """
    done = _as_maintenance(path, lambda connection, settings: _reembed(connection, settings, prune))
    left = (
        f"{done.left} still lack a vector; run it again"
        if done.left
        else "every entry has a vector of the profile's model"
    )
    click.echo(f"{done.embedded} entries were embedded; {left}")


@memory.command()
@click.argument("subject")
@click.option("--yes", is_flag=True, help="Do not ask.")
@profile.option
def forget(subject: str, yes: bool, path: Path) -> None:
    """Forget every entry of SUBJECT, such as 'key|ana'. Asks first."""
    offer_to_forget(subject, path, yes)


def offer_to_forget(subject: str, path: Path, yes: bool) -> None:
    """Ask, unless `yes`, and then forget a subject's entries."""
    count = _as_maintenance(path, lambda connection, _: subjects.count(connection, subject))
    if not count:
        click.echo(f"{subject} has no entries")
    elif yes or click.confirm(f"Forget the {count} entries of {subject}? This cannot be undone", default=False):
        gone = _as_maintenance(path, lambda connection, _: subjects.forget(connection, subject))
        click.echo(f"{gone} entries of {subject} were forgotten")
    else:
        click.echo(f"{subject} keeps {count} entries; `recall-serve memory forget '{subject}'` forgets them")


@dataclass(frozen=True)
class _Done:
    embedded: int
    left: int


async def _reembed(connection: asyncpg.Connection, settings: Settings, prune: bool) -> _Done:
    engine = embedding_engine(settings.tiers.embed, folders.weights(settings))
    engine.start()
    with _progress() as bar:
        task = bar.add_task(f"embedding with {engine.model}", total=await reembed.pending(connection, engine.model))

        async def embed(texts: list[str]) -> list[list[float]]:
            vectors, _ = await asyncio.to_thread(engine.embed, texts, "passage")
            return vectors

        model = reembed.Model(engine.model, engine.dimension, embed)
        done = await reembed.reembed(connection, model, lambda so_far, of: bar.update(task, completed=so_far, total=of))
    left = await reembed.pending(connection, engine.model)
    if prune and not left:
        await reembed.prune(connection, engine.model)
    return _Done(done, left)


def _progress() -> Progress:
    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*parts, console=Console(stderr=True))


def _as_maintenance(path: Path, action: Callable[[asyncpg.Connection, Settings], Awaitable[Result]]) -> Result:
    settings = running_settings(profile.read(path))
    try:
        return asyncio.run(_connected(settings, action))
    except (StoreUnavailable, OSError):
        raise click.ClickException("the database does not answer; start the service with `make up` first") from None
    except (ScrubBlocked, WrongDimension, EngineFailed, WeightsError) as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        raise click.ClickException("interrupted; run it again to go on") from None


async def _connected(settings: Settings, action: Callable[[asyncpg.Connection, Settings], Awaitable[Result]]) -> Result:
    arguments = connect.arguments(settings.database, folders.secrets(settings), "recall_maintenance")
    async with upkeep.connected(arguments) as connection:
        return await action(connection, settings)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
