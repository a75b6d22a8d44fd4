"""A model's folder from this machine, and from a hub on loopback."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deployments.tiers.weights import WeightsError
from deployments.tiers.weights.folder import fetch_folder
from tests.unit.test_weights import EVENT_SECONDS, ROOT, Site, site

__all__ = ["site"]

HUB = "hf:toy/model@abc"
WEIGHTS = bytes(range(256)) * 2000
SMALL = {
    "modules.json": b"[]",
    "config.json": b'{"model_type": "toy"}',
    "tokenizer.json": b"{}",
    "merges.txt": b"a b\n",
    "1_Pooling/config.json": b'{"pooling_mode_lasttoken": true}',
}
LARGE = {"model.safetensors": WEIGHTS, "2_Dense/model.safetensors": WEIGHTS[:3000]}
UNWANTED = {"pytorch_model.bin": b"p", "onnx/model.onnx": b"o", "onnx/config.json": b"{}", "README.md": b"r", "a/b/c.json": b"{}",
            "../out.json": b"{}", ".gitattributes": b""}  # fmt: skip


def offer(site: Site, large: dict[str, bytes] = LARGE) -> None:
    """The repository as the hub lists and serves it."""
    siblings = [
        {"rfilename": name, "size": len(content), "blobId": "0" * 40} for name, content in (SMALL | UNWANTED).items()
    ]
    for name, content in large.items():
        lfs = {"sha256": hashlib.sha256(LARGE[name]).hexdigest(), "size": len(content), "pointerSize": 130}
        siblings.append({"rfilename": name, "size": len(content), "blobId": "0" * 40, "lfs": lfs})
    listing = json.dumps({"id": "toy/model", "sha": "a" * 40, "siblings": siblings}).encode()
    site.files["/api/models/toy/model/revision/abc?blobs=true"] = listing
    for name, content in (SMALL | UNWANTED | large).items():
        site.files[f"/toy/model/resolve/abc/{name}"] = content


def fetched(cache: Path, source: str = HUB) -> tuple[str, str]:
    """What it prints, out and err, in a process of its own: the hub library reads its environment when it is imported."""
    program = (
        "import pathlib, sys\n"
        "from deployments.tiers.weights import WeightsError\n"
        "from deployments.tiers.weights.folder import fetch_folder\n"
        "try: print(fetch_folder(sys.argv[1], pathlib.Path(sys.argv[2]), label='embed'))\n"
        "except WeightsError as error: sys.exit(f'refused: {error}')\n"
    )
    command = [sys.executable, "-c", program, source, str(cache)]
    ran = subprocess.run(
        command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=EVENT_SECONDS, check=False
    )
    return ran.stdout.strip(), ran.stderr


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and ".cache" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_a_folder_of_this_machine_is_used_where_it_lies(tmp_path: Path) -> None:
    assert fetch_folder(f"path:{tmp_path}", tmp_path / "cache", label="embed") == tmp_path
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("path:/nowhere", "embed: there is no folder /nowhere"),
        (f"path:{__file__}", "there is no folder"),
        ("hf:toy/model", "not of the form path:/FOLDER or hf:OWNER/REPO@REVISION"),
        ("pypi:toy==1", "not of the form"),
    ],
)
def test_a_source_that_is_none_is_refused(tmp_path: Path, source: str, says: str) -> None:
    with pytest.raises(WeightsError, match=says):
        fetch_folder(source, tmp_path, label="embed")


def test_the_hub_gives_the_files_that_are_loaded_and_no_others(site: Site, tmp_path: Path) -> None:
    offer(site)
    out, err = fetched(tmp_path)
    folder = tmp_path / "toy--model@abc"
    assert out == str(folder), err
    own = {"fetched.json"} | {f"{name}.{kind}" for name in LARGE for kind in ("lock", "stamp")}
    assert {
        name: content for name, content in files(tmp_path / folder.name).items() if name not in own
    } == SMALL | LARGE
    assert "embed: model.safetensors from hf:toy/model@abc/model.safetensors" in err
    assert not (tmp_path / "out.json").exists()


def test_what_is_there_is_not_asked_for_again(site: Site, tmp_path: Path) -> None:
    offer(site)
    fetched(tmp_path)
    asked = len(site.asked)
    assert fetched(tmp_path) == (str(tmp_path / "toy--model@abc"), "")
    assert len(site.asked) == asked


@pytest.mark.parametrize("lost", ["1_Pooling/config.json", "model.safetensors"])
def test_a_file_that_was_lost_is_fetched_again_alone(site: Site, tmp_path: Path, lost: str) -> None:
    offer(site)
    fetched(tmp_path)
    folder = tmp_path / "toy--model@abc"
    (folder / lost).unlink()
    site.asked.clear()
    fetched(tmp_path)
    assert (folder / lost).exists()
    downloads = [path for method, path, _ in site.asked if method == "GET" and "/resolve/" in path]
    assert downloads == [f"/toy/model/resolve/abc/{lost}"]


def test_a_cut_download_goes_on(site: Site, tmp_path: Path) -> None:
    offer(site)
    folder = tmp_path / "toy--model@abc"
    folder.mkdir()
    (folder / "model.safetensors.hub.partial").write_bytes(WEIGHTS[:100_000])
    fetched(tmp_path)
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert ("GET", "/toy/model/resolve/abc/model.safetensors", "bytes=100000-") in site.asked


def test_weights_that_differ_from_the_hubs_own_digest_are_refused(site: Site, tmp_path: Path) -> None:
    offer(site, LARGE | {"model.safetensors": bytes(len(WEIGHTS))})
    out, err = fetched(tmp_path)
    assert out == "" and "wrong SHA-256" in err
    assert not (tmp_path / "toy--model@abc" / "model.safetensors").exists()


def test_a_repository_without_safetensors_is_refused(site: Site, tmp_path: Path) -> None:
    offer(site, {})
    assert "toy/model@abc has no safetensors" in fetched(tmp_path)[1]


def test_a_repository_that_is_not_there_is_named_with_what_to_do(site: Site, tmp_path: Path) -> None:
    err = fetched(tmp_path)[1]
    assert "refused: embed: toy/model@abc could not be fetched: " in err and "404" in err
    assert "path:/WHERE/IT/IS" in err and "Traceback" not in err


def test_an_unreachable_hub_is_told_soon(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "could not be fetched: [Errno 111] Connection refused" in fetched(tmp_path)[1]


def test_a_cache_that_cannot_be_written_is_told(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "could not be fetched: [Errno 20]" in fetched(tmp_path / "file")[1]
