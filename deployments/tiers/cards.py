"""What a model's card prints for its own example, so that weights, pooling and instruction can be checked where they run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from deployments.tiers.contract import EmbeddingEngine

Similarities = list[list[float]]

TOLERANCE = 0.02
"""Between a card and a machine: rounding to other number formats moves a similarity by thousandths, another pooling or a
missing instruction by tenths."""

QUERIES = ["What is the capital of China?", "Explain gravity"]
DOCUMENTS = [
    "The capital of China is Beijing.",
    "Gravity is a force that attracts two bodies towards each other. It gives weight to physical objects and is "
    "responsible for the movement of planets around the sun.",
]


@dataclass(frozen=True)
class Card:
    """Cosine similarities of QUERIES (rows) to DOCUMENTS, and where they are printed."""

    source: str
    similarities: Similarities


CARDS = {
    "Qwen/Qwen3-Embedding-0.6B": Card(
        "https://huggingface.co/Qwen/Qwen3-Embedding-0.6B, Sentence Transformers Usage",
        [[0.7646, 0.1414], [0.1355, 0.6000]],
    ),
}


def measured(engine: EmbeddingEngine) -> tuple[Similarities, str | None]:
    """Similarities of QUERIES to DOCUMENTS, and what is wrong with the vectors or their order, None when nothing is.

    Blocks. Raises EngineFailed.
    """
    queries, _ = engine.embed(QUERIES, "query")
    documents, _ = engine.embed(DOCUMENTS, "passage")
    similarities = [[_dot(query, document) for document in documents] for query in queries]
    return similarities, _fault(engine, [*queries, *documents], similarities)


def off_the_card(card: Card, similarities: Similarities) -> bool:
    """Whether any similarity is further from the card's than TOLERANCE."""
    pairs = zip(card.similarities, similarities, strict=True)
    return not all(abs(a - b) <= TOLERANCE for row, here in pairs for a, b in zip(row, here, strict=True))


def _fault(engine: EmbeddingEngine, vectors: list[list[float]], similarities: Similarities) -> str | None:
    if any(len(vector) != engine.dimension for vector in vectors):
        return f"its vectors do not have {engine.dimension} numbers"
    if not all(math.isclose(math.hypot(*vector), 1, abs_tol=1e-3) for vector in vectors):
        return "its vectors are not of length 1"
    if any(row[place] != max(row) for place, row in enumerate(similarities)):
        return "a query is nearer to the other's document than to its own"
    return None


def _dot(one: list[float], other: list[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))
