"""A model that is a folder: its weights, its tokenizer and the files that say how to use them.

The weights go through `fetch`, for the hub's own library throws an interrupted download away; the small files beside
them do not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from rich.console import Console

from deployments.tiers.weights import WeightsError, fetch
from deployments.tiers.weights.sources import HUB_CONNECT_SECONDS, one_line

_FORM = re.compile(r"(?P<repo>[^/@\s]+/[^/@\s]+)@(?P<revision>[^/\s]+)")
_WANTED = re.compile(r"([A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*\.(safetensors|json|txt|model)")
_OTHER_FORMATS = ("onnx", "openvino")
_LIST = "fetched.json"


@dataclass(frozen=True)
class HubFile:
    """A large file of the hub, as `fetch` takes it: the hub's list tells its digest."""

    file: str
    sha256: str
    size_bytes: int
    sources: list[str]


def fetch_folder(source: str, cache: Path, *, label: str, console: Console | None = None) -> Path:
    """The folder of `path:/FOLDER` or `hf:OWNER/REPO@REVISION`, the latter fetched once into `cache`; blocks.

    `label` names it to the person who waits. Raises WeightsError.
    """
    kind, _, rest = source.partition(":")
    if kind == "path":
        return _own(Path(rest), label)
    form = _FORM.fullmatch(rest)
    if kind != "hf" or form is None:
        raise WeightsError(f"{label}: {source} is not of the form path:/FOLDER or hf:OWNER/REPO@REVISION")
    folder = _folder(source, cache)
    if not _whole(folder):
        _from_hub(form["repo"], form["revision"], folder, label, console)
    return folder


def local_bytes(source: str, cache: Path) -> int | None:
    """Size of the weights of a source as for `fetch_folder`, where they are on this machine; None where they are not."""
    folder = _folder(source, cache)
    if source.startswith("hf:") and not _whole(folder):
        return None
    return sum(path.stat().st_size for path in folder.glob("**/*.safetensors")) or None


def _folder(source: str, cache: Path) -> Path:
    kind, _, rest = source.partition(":")
    return Path(rest) if kind == "path" else cache / rest.replace("/", "--", 1)


def _own(folder: Path, label: str) -> Path:
    if not folder.is_dir():
        raise WeightsError(f"{label}: there is no folder {folder}; put the model there or name another source")
    return folder


def _whole(folder: Path) -> bool:
    """Whether every file that was fetched is still there, each as long as it was."""
    try:
        sizes = json.loads((folder / _LIST).read_text())
        return bool(sizes) and all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False


def _from_hub(repo: str, revision: str, folder: Path, label: str, console: Console | None) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = _listed(repo, revision)
        for file in (file for file in files if file.lfs):
            path = PurePosixPath(file.rfilename)
            address = f"hf:{repo}@{revision}/{path}"
            (folder / path.parent).mkdir(exist_ok=True)
            fetch(
                HubFile(path.name, file.lfs.sha256, file.size, [address]),
                folder / path.parent,
                label=label,
                console=console,
            )
        _fetch_small(repo, revision, folder, [file.rfilename for file in files if not file.lfs])
        (folder / _LIST).write_text(json.dumps({file.rfilename: file.size for file in files}))
    except WeightsError:
        raise
    except Exception as error:  # the library's own errors, its HTTP client's and the system's share no base
        reason = one_line(str(error)) or type(error).__name__
        raise WeightsError(_advice(label, repo, revision, reason)) from error


def _listed(repo: str, revision: str) -> list[Any]:
    """The files of the repository that are wanted, with sizes in bytes and, of large ones, the SHA-256."""
    from huggingface_hub import HfApi  # noqa: PLC0415  # a start that does not ask the hub need not wait for it

    offered = HfApi().model_info(repo, revision=revision, files_metadata=True, timeout=HUB_CONNECT_SECONDS).siblings
    files = [file for file in offered or [] if _wanted(file.rfilename)]
    if not any(file.rfilename.endswith(".safetensors") for file in files):
        raise WeightsError(f"{repo}@{revision} has no safetensors, the only weights that are loaded")
    return files


def _wanted(name: str) -> bool:
    return bool(_WANTED.fullmatch(name)) and not name.startswith(tuple(f"{one}/" for one in _OTHER_FORMATS))


def _fetch_small(repo: str, revision: str, folder: Path, names: Iterable[str]) -> None:
    from huggingface_hub import hf_hub_download  # noqa: PLC0415

    for name in names:
        hf_hub_download(repo, name, revision=revision, local_dir=folder, etag_timeout=HUB_CONNECT_SECONDS)


def _advice(label: str, repo: str, revision: str, reason: str) -> str:
    return "\n  ".join(
        [
            f"{label}: {repo}@{revision} could not be fetched: {reason}",
            "Check the network and start again, what has arrived is kept; or fetch the folder yourself and name it as the",
            "source, path:/WHERE/IT/IS.",
        ]
    )
