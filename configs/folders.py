"""Where things lie on this machine, decided once at the edge."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from configs.settings import Settings

NAME = "recall-serve"


def resolve(settings: Settings, environment: Mapping[str, str], is_root: bool) -> Settings:
    """The profile with its folders filled in: the system's as root, since services must reach them, else the person's."""
    person = Path(environment.get("HOME", "/"))
    home = Path("/var/lib") if is_root else Path(environment.get("XDG_DATA_HOME") or person / ".local/share")
    data = settings.data.model_copy(
        update={
            "home": settings.data.home or home / NAME,
            "cache": settings.data.cache or default_cache(environment, is_root),
        }
    )
    return settings.model_copy(update={"data": data})


def default_cache(environment: Mapping[str, str], is_root: bool) -> Path:
    """Where a profile that names no `data.cache` keeps its weights."""
    if is_root:
        return Path("/var/cache") / NAME
    return Path(environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/")) / ".cache") / NAME


def home(settings: Settings) -> Path:
    """The resolved data folder."""
    assert settings.data.home is not None, "resolve() comes first"
    return settings.data.home


def secrets(settings: Settings) -> Path:
    """Keys and passwords, mode 0700."""
    return home(settings) / "secrets"


def logs(settings: Settings) -> Path:
    return home(settings) / "logs"


def weights(settings: Settings) -> Path:
    """The cache of model files."""
    assert settings.data.cache is not None, "resolve() comes first"
    return settings.data.cache / "weights"
