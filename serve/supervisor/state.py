"""What a running service left for other commands of the same person to find: a small file in the data folder."""

from __future__ import annotations

import json
from pathlib import Path

from configs import folders
from configs.settings import Settings

_FILE = "running.json"


def running_settings(settings: Settings) -> Settings:
    """The profile with the socket of the running database, if one runs."""
    try:
        known = json.loads((folders.home(settings) / _FILE).read_text())
    except (OSError, ValueError):
        known = {}
    return with_socket(settings, Path(known.get("socket", folders.home(settings) / "run")))


def with_socket(settings: Settings, socket: Path) -> Settings:
    """The profile with the embedded database's socket folder filled in."""
    if not settings.database.embedded:
        return settings
    return settings.model_copy(update={"database": settings.database.model_copy(update={"socket": socket})})


def write(settings: Settings) -> None:
    known = {"socket": str(settings.database.socket), "endpoint": endpoint(settings)}
    (folders.home(settings) / _FILE).write_text(json.dumps(known))


def remove(settings: Settings) -> None:
    (folders.home(settings) / _FILE).unlink(missing_ok=True)


def endpoint(settings: Settings) -> str:
    """The base URL that OpenAI clients take."""
    return f"http://{settings.http.host}:{settings.http.port}/v1"
