"""What the platform costs beside its engine: first token and tokens a second, side by side in one run.

    make bench            or  python -m benchmarks.serving --rounds 12 --out bench-results

Three ways to ask the same question of the same weights: the bare engine in this process, the `deep` tier over HTTP, and
the `code-reviewer` over HTTP with recall on. Rounds alternate, every question is new so that no way profits from what
another left in a cache, and the figures are medians; a ratio is a way's median by the bare engine's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.progress import track
from rich.table import Table

from configs import folders, loader
from configs.settings import Settings
from deployments.tiers.contract import ChatEngine, ChatRequest, Message
from deployments.tiers.engines import chat_engine
from serve.supervisor import service

OUTPUT_TOKENS = 64
BARE, TIER, AGENT = "bare engine", "deep tier", "code-reviewer with recall"
NOTE = "I prefer tabs in Go code."


@dataclass(frozen=True)
class Sample:
    """One answer: seconds to its first token, tokens a second after it, tokens of the prompt that were read anew."""

    way: str
    first_token_seconds: float
    tokens_per_second: float
    prompt_tokens_read: int
    tools_called: int = 0


def question(number: int) -> list[Message]:
    """About 60 tokens, different from the first word on, and near the note so that it is recalled."""
    text = (
        f"{number}. What does this Go function do, and what could be better? "
        f"func add{number}(a int, b int) int {{ if a > {number} {{ return a + b }}; return b - a * {number} }} "
        "Explain at length."
    )
    return [{"role": "user", "content": text}]


async def bare(engine: ChatEngine, number: int) -> Sample:
    request = ChatRequest(question(number), OUTPUT_TOKENS, sampling={"temperature": 0})
    began = time.perf_counter()
    times, usage = [], None
    async with aclosing(engine.chat(request)) as deltas:
        async for delta in deltas:
            if delta.text:
                times.append(time.perf_counter())
            usage = delta.usage or usage
    assert usage is not None
    return sample(BARE, began, times, usage.prompt - usage.cached)


async def served(http: httpx.AsyncClient, way: str, model: str, number: int) -> Sample:
    body = {
        "model": model, "messages": question(number), "max_tokens": OUTPUT_TOKENS, "temperature": 0, "stream": True,
        "stream_options": {"include_usage": True},
    }  # fmt: skip
    began = time.perf_counter()
    times, usage, tools_called = [], None, 0
    async for chunk in chunks(http, body):
        tools_called += chunk.get("step", {}).get("status") == "done" and chunk["step"]["kind"] == "tool"
        if chunk["choices"] and chunk["choices"][0]["delta"].get("content"):
            times.append(time.perf_counter())
        usage = chunk.get("usage") or usage
    assert usage is not None
    read = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
    return replace(sample(way, began, times, read), tools_called=tools_called)


async def chunks(http: httpx.AsyncClient, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    async with http.stream("POST", "/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                yield json.loads(line.removeprefix("data: "))


def sample(way: str, began: float, times: list[float], read: int) -> Sample:
    """`times` are those of pieces of text, one token each; what was held back and let go at once counts once."""
    return Sample(way, times[0] - began, (len(times) - 1) / (times[-1] - times[0]), read)


async def measure(settings: Settings, key: str, rounds: int) -> list[Sample]:
    """`rounds` samples of each way, alternating; one unmeasured round first."""
    tier = settings.tiers.deep
    engine = chat_engine("deep", tier, folders.weights(settings))
    await engine.start()
    root = f"http://{settings.http.host}:{settings.http.port}"
    samples = []
    async with httpx.AsyncClient(base_url=root, headers={"Authorization": f"Bearer {key}"}, timeout=180) as http:
        (await http.post("/v1/memory/entries", json={"kind": "preference", "text": NOTE})).raise_for_status()
        for number in track(range(rounds + 1), "measuring", console=Console(stderr=True)):
            first = 1000 + 10 * number
            samples += [
                await bare(engine, first),
                await served(http, TIER, "deep", first + 1),
                await served(http, AGENT, "code-reviewer", first + 2),
            ]
    engine.stop()
    return samples[3:]


def report(samples: list[Sample]) -> dict[str, dict[str, float]]:
    """Medians of each way and their ratios to the bare engine's. A turn that called a tool is another kind of turn and is
    left out; `samples` says how many stayed."""
    figures = {}
    for way in (BARE, TIER, AGENT):
        mine = [one for one in samples if one.way == way and not one.tools_called]
        figures[way] = {
            "first_token_seconds": statistics.median(one.first_token_seconds for one in mine),
            "tokens_per_second": statistics.median(one.tokens_per_second for one in mine),
            "prompt_tokens_read": statistics.median(one.prompt_tokens_read for one in mine),
            "samples": len(mine),
        }
    for of in figures.values():
        of["first_token_ratio"] = of["first_token_seconds"] / figures[BARE]["first_token_seconds"]
        of["tokens_per_second_ratio"] = of["tokens_per_second"] / figures[BARE]["tokens_per_second"]
    return figures


def show(figures: dict[str, dict[str, float]], rounds: int) -> None:
    table = Table(
        "",
        "first token",
        "ratio",
        "tokens/s",
        "ratio",
        "prompt tokens read",
        "samples",
        title=f"medians of {rounds} rounds",
    )
    for way, of in figures.items():
        table.add_row(
            way, f"{of['first_token_seconds']:.2f} s", f"{of['first_token_ratio']:.2f}", f"{of['tokens_per_second']:.1f}",
            f"{of['tokens_per_second_ratio']:.2f}", f"{of['prompt_tokens_read']:.0f}", f"{of['samples']:.0f}",
        )  # fmt: skip
    Console().print(table)


def own_profile(path: Path, home: Path) -> Settings:
    """The profile on free ports and in a folder of its own, so that a bench disturbs no running service."""
    settings = folders.resolve(loader.load(path), os.environ, os.geteuid() == 0)
    changes = {
        "data": settings.data.model_copy(update={"home": home}),
        "http": settings.http.model_copy(update={"port": free_port()}),
        "ray": settings.ray.model_copy(update={"dashboard_port": free_port()}),
    }
    return settings.model_copy(update=changes)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description="First token and tokens a second: bare engine, tier, agent with recall."
    )
    parser.add_argument("--rounds", type=int, default=8, help="samples of each way (default 8)")
    parser.add_argument("--profile", type=Path, default=Path("configs/local.yaml"), help="default configs/local.yaml")
    parser.add_argument("--out", type=Path, help="folder for serving.json with the raw samples")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="recall-bench-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)  # Postgres runs as an account of its own when this is root
        settings = own_profile(arguments.profile, Path(folder) / "home")
        with service.running(settings, lambda text: print(text, file=sys.stderr)) as running:
            key = service.first_key(running.settings)
            assert key is not None
            samples = asyncio.run(measure(running.settings, key, arguments.rounds))
    figures = report(samples)
    show(figures, arguments.rounds)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        about = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        raw = {"about": about, "figures": figures, "samples": [asdict(one) for one in samples]}
        (arguments.out / "serving.json").write_text(json.dumps(raw, indent=1))


if __name__ == "__main__":
    main()
