"""`recall-serve up`: the main job on one machine."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from types import FrameType

import click

from configs.settings import Settings
from deployments.tiers.weights import WeightsError
from memory_store.embedded.errors import EmbeddedPostgresError
from memory_store.errors import MemoryStoreError
from serve.cli import profile
from serve.supervisor import service, state
from serve.supervisor.preflight import NotReady


@click.command()
@profile.option
def up(path: Path) -> None:
    """Run everything here until Ctrl-C: weights, Postgres, Ray and the graph of the profile."""
    settings = profile.read(path)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ender(ended))
    began = time.monotonic()
    try:
        with service.running(settings, _say) as running:
            _greet(running, time.monotonic() - began)
            ended.wait()
            _say("stopping; nothing is lost")
    except (NotReady, WeightsError, EmbeddedPostgresError, MemoryStoreError, service.StartFailed) as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        raise click.ClickException("interrupted; a later start goes on where this one ended") from None


def _ender(ended: threading.Event):  # type: ignore[no-untyped-def]
    """The first signal ends the service in order; during the start it interrupts."""

    def handle(number: int, frame: FrameType | None) -> None:
        ended.set()

    return handle


def _greet(settings: Settings, seconds: float) -> None:
    key = service.first_key(settings)
    click.echo(f"ready after {seconds:.0f} s\n")
    click.echo(f"  endpoint   {state.endpoint(settings)}")
    click.echo(f"  dashboard  http://127.0.0.1:{settings.ray.dashboard_port}")
    click.echo(f"  API key    {key or 'issued before; `recall-serve keys issue NAME` makes another'}")
    click.echo("\nCtrl-C stops all of it.")


def _say(text: str) -> None:
    click.echo(text, err=True)
