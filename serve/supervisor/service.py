"""The whole service on one machine, started in order and stopped in the opposite one."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from configs import folders, private
from configs.settings import ALL_RIGHTS, Settings
from deployments import identity
from deployments.ledger.keys import KeyRing
from deployments.tiers.engines import fetch_chat, fetch_embedding
from memory_store.embedded import EmbeddedPostgres
from serve.keyring import with_ring
from serve.supervisor import cluster, database, preflight, state

Say = Callable[[str], None]


class StartFailed(Exception):
    """The graph did not become ready; the message names the part and where its log is."""


@dataclass(frozen=True)
class Running:
    """A service that answers, and the profile as it runs."""

    settings: Settings
    postgres: EmbeddedPostgres | None  # None: a server of the operator's own, by URL
    say: Say

    def tend(self) -> None:
        """Called now and then: a Postgres that died is started again; requests meanwhile get 503 and lose nothing."""
        if self.postgres and not self.postgres.running():
            self.say("Postgres ended; starting it again")
            self.postgres.start()


@contextmanager
def running(settings: Settings, say: Say) -> Iterator[Running]:
    """The service of a profile, ready for requests.

    Raises NotReady, EngineFailed, WeightsError, EmbeddedPostgresError, MemoryStoreError, StartFailed, each one clear line.
    """
    preflight.check(settings)
    for name, tier in settings.tiers.chat.items():
        fetch_chat(name, tier, folders.weights(settings))
    fetch_embedding(settings.tiers.embed.engine, folders.weights(settings))
    with ExitStack() as stack:
        postgres, settings = database.ready(settings, stack, say)
        make_secrets(folders.secrets(settings))
        say("starting Ray")
        cluster.prepare_environment(settings)
        stack.callback(cluster.stop)
        cluster.start(settings)
        cluster.require_gpus(settings)
        _deploy(settings, say)
        state.write(settings)
        stack.callback(state.remove, settings)
        yield Running(settings, postgres, say)


def first_key(settings: Settings) -> str | None:
    """A key with every right when none was ever issued, else None."""
    return asyncio.run(with_ring(settings, _first_key))


def make_secrets(folder: Path) -> None:
    """The signing keys of identity tokens, the key of the answers' digests and that of the episodes' seals, where they
    are missing."""
    identity.make_keys(folder)
    for name in ("answers.key", "episodes.key"):
        private.made_once(folder / name, lambda: secrets.token_bytes(32))


def _deploy(settings: Settings, say: Say) -> None:
    from ray import serve  # after the environment is prepared

    from serve import app

    serve.start(http_options={"host": settings.http.host, "port": settings.http.port})
    quiet = {"enable_access_log": False, "log_level": "WARNING"}
    graph = serve.RunTarget(app.build(settings), app.NAME, "/", quiet)
    serve.run_many([graph], wait_for_ingress_deployment_creation=False, wait_for_applications_running=False)
    _await_running(app.NAME, settings, say)


def _await_running(name: str, settings: Settings, say: Say) -> None:
    """Tell each part once when it is ready."""
    from ray import serve

    told: set[str] = set()
    deadline = time.monotonic() + settings.ray.start_seconds
    while time.monotonic() < deadline:
        application = serve.status().applications[name]
        healthy = {part for part, one in application.deployments.items() if one.status == "HEALTHY"}
        for part in sorted(healthy - told):
            say(f"ready: {part}")
        told |= healthy
        if application.status == "RUNNING":
            return
        if application.status in ("DEPLOY_FAILED", "UNHEALTHY"):
            break
        time.sleep(0.25)
    missing = ", ".join(sorted(set(application.deployments) - told)) or name
    raise StartFailed(
        f"{missing} did not become ready; its log is under {cluster.session_folder(settings)}/session_latest/logs/serve"
    )


async def _first_key(ring: KeyRing) -> str | None:
    return None if await ring.any() else (await ring.issue("first", ALL_RIGHTS, {}, None))[1]
