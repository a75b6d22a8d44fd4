"""`recall-serve database prepare`: a Postgres of your own, made ready once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import click

from configs import folders
from memory_store import bootstrap, connect
from serve.cli import profile


@click.group()
def database() -> None:
    """A Postgres of your own, for profiles with `database.url`."""


@database.command()
@click.option(
    "--admin", default="postgres", show_default=True, help="A role that may create roles, databases and extensions."
)
@click.option(
    "--password-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with that role's password. Default: ask.",
)
@profile.option
def prepare(admin: str, password_file: Path | None, path: Path) -> None:
    """Make roles, database and tables on the server at `database.url`; safe to run again.

    The service's own roles get passwords, kept in the secrets folder of `data.home`; the admin's is used once and kept
    nowhere. The server needs the extension pgvector.
    """
    settings = profile.read(path)
    url = settings.database.url
    if url is None:
        raise profile.Mistake(f"{path}: database.url: not set; the embedded database prepares itself")
    password = (
        password_file.read_text().strip() if password_file else click.prompt(f"password of {admin}", hide_input=True)
    )
    secrets = bootstrap.passwords(folders.secrets(settings))
    try:
        ran = asyncio.run(
            bootstrap.bootstrap({"dsn": url, "user": admin, "password": password}, secrets, connect.name(url))
        )
    except connect.AWAY:
        raise click.ClickException(f"no Postgres answers at {url}") from None
    except asyncpg.PostgresError as error:
        raise click.ClickException(f"the server at {url} refuses: {error.args[0]}") from None
    click.echo(f"ready: {url}, {len(ran)} migrations ran")
