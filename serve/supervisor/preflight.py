"""What would make a start fail later, found before anything is started, each with what to do about it."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

from configs import folders
from configs.settings import Settings
from deployments.tiers import needs

DEVICES = Path("/dev")
GPU_DEVICES = ("nvidia[0-9]*", "kfd", "dri/renderD*")  # NVIDIA, AMD, Intel
DATABASE_BYTES = 500_000_000  # a fresh cluster, its log and Ray's session


class NotReady(Exception):
    """The service cannot start here; one clear line."""


def check(settings: Settings) -> None:
    """Raises NotReady."""
    check_gpus(settings)
    check_port(settings.http.host, settings.http.port, "http.port")
    check_port("127.0.0.1", settings.ray.dashboard_port, "ray.dashboard_port")
    make_folder(folders.home(settings))
    make_folder(folders.weights(settings))
    free_bytes = shutil.disk_usage(folders.home(settings)).free
    if free_bytes < DATABASE_BYTES:
        raise NotReady(
            f"{folders.home(settings)} has {free_bytes / 1e6:,.0f} MB free and {DATABASE_BYTES / 1e6:,.0f} MB are needed; "
            "free some space or set data.home to another disk"
        )


def check_gpus(settings: Settings) -> None:
    """Raises NotReady where the profile needs a GPU and the machine has none: found before its weights are fetched. How
    many there are is Ray's to say."""
    needed = sum(part.least_gpus for part in needs.parts(settings))
    if needed and not any(True for pattern in GPU_DEVICES for _ in DEVICES.glob(pattern)):
        raise NotReady(
            f"the profile needs {needed:g} GPUs and this machine has none; configs/local.yaml runs on a CPU, and "
            "`recall-serve config check FILE` says what a profile needs"
        )


def check_port(host: str, port: int, key: str) -> None:
    """Raises NotReady when something listens there already or the address is not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise NotReady(
                f"port {port} of {host} cannot be used ({error.strerror}); stop what uses it or set {key} in the profile"
            ) from None


def make_folder(folder: Path) -> None:
    """Raises NotReady when the folder cannot be made or written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".writable").touch()
        (folder / ".writable").unlink()
    except OSError as error:
        raise NotReady(
            f"{folder} cannot be written ({error.strerror}); make it writable or set data.home and data.cache"
        ) from None
