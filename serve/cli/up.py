"""`recall-serve up`: the main job on one machine."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from types import FrameType

import click

from configs import folders
from configs.settings import Settings
from deployments.tiers.errors import EngineFailed
from deployments.tiers.weights import WeightsError
from memory_store.embedded.errors import EmbeddedPostgresError
from memory_store.errors import MemoryStoreError
from serve.cli import profile
from serve.supervisor import service, state
from serve.supervisor.preflight import NotReady

TEND_SECONDS = 1.0


@click.command()
@profile.option
def up(path: Path) -> None:
    """Run everything here until Ctrl-C: weights, Postgres, Ray and the graph of the profile."""
    settings = profile.read(path)
    end = _End()
    began = time.monotonic()
    try:
        with service.running(settings, _say) as running:
            end.begin_serving()
            _greet(running.settings, time.monotonic() - began)
            while not end.asked.wait(TEND_SECONDS):
                running.tend()
            _say("stopping; nothing is lost")
    except (
        NotReady,
        EngineFailed,
        WeightsError,
        EmbeddedPostgresError,
        MemoryStoreError,
        service.StartFailed,
    ) as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        raise click.ClickException("interrupted; a later start goes on where this one ended") from None


class _End:
    """Ctrl-C and SIGTERM: they interrupt a start, and ask a service that runs to end in order."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._serving = False
        self._listen()

    def begin_serving(self) -> None:
        self._serving = True
        self._listen()  # again: Ray has put a handler of its own in place

    def _listen(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._serving:
            raise KeyboardInterrupt
        self.asked.set()


def _greet(settings: Settings, seconds: float) -> None:
    key = service.first_key(settings)
    click.echo(f"ready after {seconds:.0f} s\n")
    click.echo(f"  endpoint   {state.endpoint(settings)}")
    token = folders.secrets(settings) / "ray.token"
    click.echo(f"  dashboard  http://127.0.0.1:{settings.ray.dashboard_port} (it asks for the token in {token})")
    click.echo(f"  API key    {key or 'issued before; `recall-serve keys issue NAME` makes another'}")
    click.echo("\nCtrl-C stops all of it.")


def _say(text: str) -> None:
    click.echo(text, err=True)
