"""The database of a start: the embedded one, or the operator's own by URL, migrated and with the profile's dimension."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import asyncpg

from configs import folders
from configs.settings import Settings
from memory_store import bootstrap, connect, models, upkeep
from memory_store.embedded import EmbeddedPostgres
from memory_store.migrate import migrate
from serve.supervisor import state
from serve.supervisor.preflight import NotReady


def ready(settings: Settings, stack: ExitStack, say: Callable[[str], None]) -> tuple[EmbeddedPostgres | None, Settings]:
    """The embedded server, which ends with `stack`, or None; and the profile with the way to it.

    Raises NotReady, EmbeddedPostgresError, MemoryStoreError.
    """
    if settings.database.url is None:
        say("starting Postgres")
        postgres = stack.enter_context(EmbeddedPostgres(folders.home(settings) / "postgres", folders.logs(settings)))
        passwords = bootstrap.passwords(folders.secrets(settings))
        asyncio.run(bootstrap.bootstrap(dict(postgres.superuser_connection()), passwords))
        settings = state.with_socket(settings, Path(postgres.host))
    else:
        say(f"connecting to {settings.database.url}")
        postgres = None
        asyncio.run(_upgrade(settings))
    asyncio.run(_check_dimension(settings))
    return postgres, settings


async def _upgrade(settings: Settings) -> None:
    """Migrate as the owner of the tables. Raises NotReady where the server was not prepared."""
    prepare = "`recall-serve database prepare` makes roles and tables there"
    try:
        connection = await asyncpg.connect(
            **connect.arguments(settings.database, folders.secrets(settings), "recall_owner")
        )
    except FileNotFoundError:
        raise NotReady(f"{folders.secrets(settings)} has no password for the database: {prepare}") from None
    except connect.AWAY:
        raise NotReady(f"no Postgres answers at {settings.database.url}; start it or correct database.url") from None
    except asyncpg.PostgresError as error:
        raise NotReady(f"the Postgres at {settings.database.url} refuses ({type(error).__name__}): {prepare}") from None
    try:
        await migrate(connection)
    finally:
        await connection.close()


async def _check_dimension(settings: Settings) -> None:
    """Found here, it is one clear line; the memory service would refuse as well, in a log."""
    maintenance = connect.arguments(settings.database, folders.secrets(settings), "recall_maintenance")
    async with upkeep.connected(maintenance) as connection:
        engine = settings.tiers.embed.engine
        await models.register(connection, engine.model, engine.dimension)
