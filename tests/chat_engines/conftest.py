"""One chat tier for the session, on the engine that `--chat-engine` names.

`llama_cpp` runs in this process. `vllm` runs as its users have it, in the whole graph on Ray, and needs the virtual
environment that `make test` builds for it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest
import yaml
from click.testing import CliRunner

from configs.settings import ChatTier, Settings
from deployments.tiers.contract import ChatRequest, Delta, Message
from memory_store.embedded import EmbeddedPostgres
from tests.chat_engines import smol
from tests.conftest import passable_folder

SLOTS, QUEUE, WINDOW_TOKENS = 2, 1, 1024
LIMITS = {"slots": SLOTS, "queue": QUEUE, "max_output_tokens": 300}


class Tier(Protocol):
    """What a replica and a handle to one have in common."""

    async def schema_fault(self, schema: dict[str, Any]) -> str | None: ...

    async def count(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> int: ...

    async def load(self) -> dict[str, int]: ...

    def chat(self, request: ChatRequest) -> AsyncGenerator[Delta, None]: ...


@dataclass
class Under:
    """The tier under test, and a look inside: how many generations its engine itself has under way."""

    tier: Tier
    generating: Callable[[], Awaitable[int]]


@dataclass
class Graph:
    """The whole service with vLLM tiers, in this process's care."""

    settings: Settings
    key: str
    root: str

    def tier(self, adapter: str | None = None) -> Tier:
        from ray import serve

        from deployments.handles import TierHandle
        from serve import app

        handle = serve.get_deployment_handle("deep", app.NAME)
        return TierHandle("deep", self.settings.tiers.deep, handle, adapter)

    async def close(self) -> None:
        """Let go of Serve's handles while the event loop still runs that they belong to."""
        from ray.serve import context

        await context._get_global_client().shutdown_cached_handles_async()

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.Client(base_url=self.root, headers=headers, timeout=120, trust_env=False)


@pytest.fixture(scope="session")
async def under(maybe_graph: Graph | None) -> AsyncGenerator[Under, None]:
    if maybe_graph:
        yield Under(maybe_graph.tier(), unfinished)
        await maybe_graph.close()
        return
    from deployments.tiers.chat import ChatTier as Replica

    gguf = smol.gguf()
    engine = {"kind": "llama_cpp", "context_tokens": WINDOW_TOKENS, "weights": smol.WEIGHTS}
    replica = Replica.__new__(Replica)
    await replica.__init__("deep", ChatTier.model_validate({"engine": engine, **LIMITS}), gguf.parent, [])

    async def busy() -> int:
        """Threads of llama.cpp's that generate."""
        threads = replica._engine._threads  # as many as were ever needed at once; the idle ones are counted down
        return len(threads._threads) - threads._idle_semaphore._value

    yield Under(replica, busy)
    replica.__del__()


@pytest.fixture(scope="session")
def maybe_graph(request: pytest.FixtureRequest) -> Iterator[Graph | None]:
    """Started outside any event loop, as the command is."""
    if request.config.getoption("--chat-engine") != "vllm":
        yield None
        return
    postgres: EmbeddedPostgres = request.getfixturevalue("postgres")
    with passable_folder() as folder, started(folder, postgres) as graph:
        yield graph


@pytest.fixture(scope="session")
def graph(maybe_graph: Graph | None, under: Under) -> Graph:
    assert maybe_graph, "of vLLM alone, as `make test` runs it"
    return maybe_graph


@contextmanager
def started(folder: Path, postgres: EmbeddedPostgres) -> Iterator[Graph]:
    """By URL on a Postgres that is not the service's own, as a profile with GPUs has it."""
    from configs import folders, loader
    from serve.cli import main
    from serve.supervisor import service

    smol.write_folder(folder / "model")
    for seed, name in enumerate(("loud", "terse")):
        smol.write_adapter(folder / name, seed)
    admin = postgres.superuser_connection()
    (folder / "password").write_text(str(admin["password"]))
    url = f"postgresql:///vllm_graph?host={admin['host']}&port={admin['port']}"
    profile = write_profile(folder, {"embedded": False, "url": url})
    prepare = ["database", "prepare", "--profile", str(profile), "--admin", str(admin["user"])]
    done = CliRunner().invoke(main, [*prepare, "--password-file", str(folder / "password")])
    assert done.exit_code == 0, done.output
    settings = folders.resolve(loader.load(profile), os.environ, os.geteuid() == 0)
    with service.running(settings, print) as running:
        key = service.first_key(running.settings)
        assert key is not None
        yield Graph(settings, key, f"http://127.0.0.1:{settings.http.port}")


def write_profile(folder: Path, database: dict[str, Any]) -> Path:
    """A deep tier on vLLM with two adapters, a fast one on llama.cpp, the embedding of the local profile."""
    from tests.serve.running import CONFIGS, free_port

    local = yaml.safe_load((CONFIGS / "local.yaml").read_text())
    vllm = {
        "kind": "vllm",
        "model": "SmolLM2-135M-Instruct",
        "source": f"path:{folder / 'model'}",
        "context_tokens": WINDOW_TOKENS,
        "device": "cpu",
        "call_parser": "hermes",
        "adapters": {name: f"path:{folder / name}" for name in ("loud", "terse")},
        "adapter_rank": smol.RANK,
        "arguments": {"kv_cache_memory_bytes": 400_000_000},
    }
    llama = {"kind": "llama_cpp", "context_tokens": WINDOW_TOKENS, "weights": smol.WEIGHTS}
    agents = folder / "agents"
    agents.mkdir()
    speaker = {"description": "Speaks loudly.", "tier": "deep", "adapter": "loud", "remembers": True, "tools": []}
    (agents / "speaker.yaml").write_text(yaml.safe_dump({"name": "speaker", **speaker, "brief": "You are loud."}))
    profile = {
        "name": "vllm-test",
        "http": {"port": free_port()},
        "ray": {"dashboard_port": free_port(), "start_seconds": 500},
        "data": {"home": str(folder / "home")},
        "database": database,
        "sandbox": {"enabled": False},
        "web": {"enabled": False},
        "agents_dir": str(agents),
        "tiers": {
            "deep": {"engine": vllm, **LIMITS, "deadline_seconds": 120},
            "fast": {"engine": llama, **LIMITS},
            "embed": local["tiers"]["embed"],
        },
    }
    path = folder / f"{secrets.token_hex(4)}.yaml"
    path.write_text(yaml.safe_dump(profile))
    return path


async def unfinished() -> int:
    """Asked in the replica itself, of vLLM's own bookkeeping."""
    import ray

    def look(actor: Any) -> int:
        tier = actor._replica_impl._user_callable_wrapper._callable
        processor = tier._engine._server.engine._engine_client.output_processor
        return int(processor.get_num_unfinished_requests())

    def replicas() -> list[Any]:
        names = ray.util.list_named_actors(all_namespaces=True)
        wanted = [one for one in names if one["namespace"] == "serve" and "#deep#" in one["name"]]
        return [ray.get_actor(one["name"], namespace="serve") for one in wanted]

    (replica,) = await asyncio.to_thread(replicas)
    return int(await replica.__ray_call__.remote(look))
