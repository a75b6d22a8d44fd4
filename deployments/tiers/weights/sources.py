"""Weights from a file of this machine or from the model hub, and what every source owes.

A source gives a file whose digest has been checked, or raises SourceError with a reason of one line.

    WeightsError            no source gave the file; the message says why and what to do
      SourceError          one source did not; the next one is tried
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, Self

HUB_CONNECT_SECONDS = 5.0
REASON_CHARS = 200
HUB_FORM = re.compile(r"(?P<repo>[^/@\s]+/[^/@\s]+)@(?P<revision>[^/\s]+)/(?P<file>\S+)")

Report = Callable[[int], None]
"""Told how many bytes of the finished file have arrived."""


class WeightsError(Exception):
    """A weights file cannot be had; the message is complete and meant for a person."""


class SourceError(WeightsError):
    """This source did not give the file; the message is one short reason."""


class WeightsSpec(Protocol):
    """What is fetched: `file` names it in the cache folder, `sources` are tried in the order given."""

    @property
    def file(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def sources(self) -> list[str]: ...


def verify(path: Path, spec: WeightsSpec) -> None:
    """Raise SourceError unless the file is the pinned one; a wrong size is told without reading it."""
    check_size(path, spec)
    with path.open("rb") as file:
        check_digest(hashlib.file_digest(file, "sha256").hexdigest(), spec)


def verify_or_remove(path: Path, spec: WeightsSpec) -> None:
    """`verify` for a file that is ours: a wrong one does not stay in the cache."""
    try:
        verify(path, spec)
    except SourceError:
        path.unlink()
        raise


def check_size(path: Path, spec: WeightsSpec) -> None:
    """Raise SourceError unless the file is as long as the pinned one."""
    size_bytes = path.stat().st_size
    if size_bytes != spec.size_bytes:
        raise SourceError(f"has {size_bytes:,} bytes, expected {spec.size_bytes:,}")


def check_digest(digest: str, spec: WeightsSpec) -> None:
    """Raise SourceError unless the SHA-256 (hex digits) is the pinned one."""
    if digest != spec.sha256.lower():
        raise SourceError(f"has the wrong SHA-256, {digest}")


def publish(partial: Path, spec: WeightsSpec, cache: Path) -> Path:
    """Give the checked file its name once it is on the disk, so that a file of that name is always whole."""
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    return partial.replace(cache / spec.file)


def require_free(folder: Path, needed_bytes: int) -> None:
    """Refuse before the first byte what the disk cannot hold. Raises SourceError."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        needed, free = f"{needed_bytes / 1e6:,.0f} MB", f"{free_bytes / 1e6:,.0f} MB"
        raise SourceError(f"not enough disk: {needed} needed, {free} free in {folder}")


def one_line(text: str) -> str:
    return " ".join(text.split())[:REASON_CHARS]


def from_path(path: str, spec: WeightsSpec, cache: Path, report: Report) -> Path:
    """A person's own file, used where it lies and never touched."""
    if not Path(path).is_file():
        raise SourceError("no such file")
    verify(Path(path), spec)
    return Path(path)


def from_hub(address: str, spec: WeightsSpec, cache: Path, report: Report) -> Path:
    """OWNER/REPO@REVISION/FILE; an interrupted download goes on where it stopped."""
    form = HUB_FORM.fullmatch(address)
    if form is None:
        raise SourceError("not of the form hf:OWNER/REPO@REVISION/FILE")
    partial = hub_partial(spec, cache)
    have_bytes = hub_arrived_bytes(spec, cache)
    require_free(cache, spec.size_bytes - have_bytes)
    report(have_bytes)
    try:
        _download(form, partial, spec, report)
    except SourceError:
        raise
    except Exception as error:  # the library's own errors, its HTTP client's and the system's share no base
        raise SourceError(f"the hub did not give it: {one_line(str(error)) or type(error).__name__}") from error
    verify_or_remove(partial, spec)
    return publish(partial, spec, cache)


def hub_partial(spec: WeightsSpec, cache: Path) -> Path:
    """Where a download from the hub lies until it is whole."""
    return cache / f"{spec.file}.hub.partial"


def hub_arrived_bytes(spec: WeightsSpec, cache: Path) -> int:
    """How much of the file an interrupted download has left."""
    partial = hub_partial(spec, cache)
    return min(partial.stat().st_size, spec.size_bytes) if partial.exists() else 0


def _download(form: re.Match[str], partial: Path, spec: WeightsSpec, report: Report) -> None:
    """Ask the hub one short question, then append to `partial`.

    Not `hf_hub_download`: it retries an unreachable hub for half a minute and more, and it throws an
    interrupted download away (seen in huggingface_hub 1.33 and 2.4).
    """
    # Imported here: a start that does not ask the hub need not wait for it.
    from huggingface_hub import get_hf_file_metadata, hf_hub_url  # noqa: PLC0415
    from huggingface_hub.file_download import http_get  # noqa: PLC0415
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # noqa: PLC0415

    url = hf_hub_url(form["repo"], form["file"], revision=form["revision"])
    offered_bytes = get_hf_file_metadata(url, timeout=HUB_CONNECT_SECONDS).size
    if offered_bytes not in (None, spec.size_bytes):
        raise SourceError(f"the hub offers {offered_bytes:,} bytes, expected {spec.size_bytes:,}")
    with partial.open("ab") as file:
        file.truncate(min(file.tell(), spec.size_bytes))
        http_get(
            url,
            file,
            resume_size=min(file.tell(), spec.size_bytes),
            headers=build_hf_headers(),
            expected_size=spec.size_bytes,
            tqdm_class=_bar_reporting(report),
        )


def _bar_reporting(report: Report) -> type[Any]:
    """The part of a tqdm bar that the hub library uses."""

    class Bar:
        def __init__(self, *, initial: int = 0, **_: object) -> None:
            self.arrived_bytes = initial

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        def update(self, more_bytes: int) -> None:
            self.arrived_bytes += more_bytes
            report(self.arrived_bytes)

    return Bar
