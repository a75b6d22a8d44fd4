"""A service of the tests' own: the real command, on free ports, with a data folder of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml

COMMAND = Path(sys.executable).with_name("recall-serve")
CONFIGS = Path(__file__).parents[2] / "configs"
START_SECONDS = 240


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_profile(folder: Path, changes: dict[str, Any]) -> Path:
    """configs/local.yaml with folders and ports of its own and `changes` merged in."""
    profile = yaml.safe_load((CONFIGS / "local.yaml").read_text())
    own = {
        "http": {"port": free_port()},
        "ray": {"dashboard_port": free_port()},
        "data": {"home": str(folder / "home")},
        "agents_dir": str(CONFIGS / "agents"),
        "radar": {"file": str(CONFIGS.parent / "benchmarks" / "reports" / "feed.json")},
    }
    path = folder / "test.yaml"
    path.write_text(yaml.safe_dump(merged(merged(profile, own), changes)))
    return path


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    both = dict(base)
    for key, value in changes.items():
        inner = both.get(key)
        both[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return both


@dataclass
class RunningService:
    """`recall-serve up` in a session of its own, as a terminal would start it."""

    profile: Path
    process: subprocess.Popen[bytes]
    log: Path
    root: str
    home: Path

    @classmethod
    def start(cls, folder: Path, profile: Path) -> RunningService:
        settings = yaml.safe_load(profile.read_text())
        log = folder / "up.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                [COMMAND, "up", "--profile", profile],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        root = f"http://127.0.0.1:{settings['http']['port']}"
        service = cls(profile, process, log, root, Path(settings["data"]["home"]))
        service.await_ready()
        return service

    def await_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while "Ctrl-C stops" not in self.log.read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the service did not start:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.2)

    def stop(self, number: int = signal.SIGINT) -> int:
        """SIGINT as Ctrl-C in a terminal, to the whole process group; any other to the supervisor alone."""
        if number == signal.SIGINT:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        return self.process.wait(90)

    def key(self, name: str, *options: str) -> str:
        """A fresh key, issued by the command."""
        command = [COMMAND, "keys", "issue", name, "--profile", self.profile, *options]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [COMMAND, *arguments, "--profile", self.profile]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def client(self, key: str | None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.root, headers=headers, timeout=180, trust_env=False)

    def processes(self) -> list[psutil.Process]:
        """The supervisor and all that came of it, Postgres included."""
        parent = psutil.Process(self.process.pid)
        return [parent, *parent.children(recursive=True)]

    def replicas(self, deployment: str) -> list[psutil.Process]:
        name = f"ray::ServeReplica:recall-serve:{deployment}"
        return [one for one in self.processes() if one.cmdline() and one.cmdline()[0].startswith(name)]

    def first_key(self) -> str:
        found = re.search(r"rs_[A-Za-z0-9_-]{43}", self.log.read_text())
        assert found, "the first start prints a key"
        return found[0]
