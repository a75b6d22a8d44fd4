"""`recall-serve doctor` on profiles with real models, and on engines that compute a card's numbers or nearly."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from deployments.tiers import cards
from deployments.tiers.contract import EmbedRole
from serve.cli import main
from tests.engines.conftest import MINILM, MINILM_DIMENSION

ROOT = Path(__file__).parents[2]
QWEN = "Qwen/Qwen3-Embedding-0.6B"
MODEL = {
    "kind": "sentence_transformers",
    "source": f"path:{MINILM}",
    "dimension": MINILM_DIMENSION,
    "window_tokens": 64,
}


def examined(folder: Path, engine: dict[str, Any]) -> Result:
    """What the command says of the local profile with this embedding engine."""
    profile = yaml.safe_load((ROOT / "configs/local.yaml").read_text())
    profile["tiers"]["embed"]["engine"] = engine
    profile |= {"radar": {}, "agents_dir": str(ROOT / "configs/agents"), "data": {"cache": str(folder / "cache")}}
    path = folder / "profile.yaml"
    path.write_text(yaml.safe_dump(profile))
    return CliRunner().invoke(main, ["doctor", "--profile", str(path)])


def test_a_model_without_a_known_card_passes_by_its_order(tmp_path: Path) -> None:
    ran = examined(tmp_path, MODEL | {"model": "all-MiniLM-L6-v2", "query_prompt": ""})
    assert ran.exit_code == 0, ran.output
    assert "ok: unit vectors" in ran.stdout and "no card of all-MiniLM-L6-v2 is known" in ran.stdout
    assert ran.stdout.count(", here ") == 0 and ran.stdout.count("here ") == 4


def test_the_local_profiles_model_passes(tmp_path: Path) -> None:
    ran = examined(tmp_path, {"kind": "nano_e5"})
    assert ran.exit_code == 0 and "multilingual-e5-small-q4: nano_e5, 384 dimensions" in ran.stdout


def test_another_model_under_a_known_name_fails(tmp_path: Path) -> None:
    ran = examined(tmp_path, MODEL | {"model": QWEN})
    assert ran.exit_code == 1
    assert "card 0.7646, here " in ran.stdout and "ok" not in ran.stdout
    for word in ("does not compute what its card prints", "other weights", "pooling", "query_prompt", "huggingface.co"):
        assert word in ran.stderr


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"dimension": 1024}, "dimension is 1024"),
        ({"source": "path:/nowhere/model"}, "there is no folder /nowhere/model"),
        ({"window_tokens": 512}, "window_tokens is 512"),
    ],
)
def test_what_does_not_start_is_one_clear_line(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    ran = examined(tmp_path, MODEL | change)
    assert ran.exit_code == 1 and ran.stdout == "" and says in ran.stderr and ran.stderr.count("\n") == 1


class Invented:
    """Vectors with given similarities: each document an axis, and a query's rest on an axis of its own."""

    model = QWEN
    dimension = 4

    def __init__(self, similarities: cards.Similarities, length: float = 1) -> None:
        self._similarities, self._length = similarities, length

    def start(self) -> None: ...

    def embed(self, texts: Sequence[str], role: EmbedRole) -> tuple[list[list[float]], list[int]]:
        axes = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
        vectors = [self._query(*row) for row in self._similarities] if role == "query" else axes
        return [[self._length * number for number in vector] for vector in vectors], [1] * len(texts)

    def _query(self, first: float, second: float) -> list[float]:
        return [first, second, math.sqrt(1 - first**2 - second**2), 0.0]


def invented(monkeypatch: pytest.MonkeyPatch, engine: Invented, folder: Path) -> Result:
    monkeypatch.setattr(sys.modules["serve.cli.doctor"], "embedding_engine", lambda *_: engine)
    return examined(folder, {"kind": "nano_e5"})


def test_the_cards_own_numbers_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = invented(monkeypatch, Invented([[0.7646, 0.1414], [0.1355, 0.6000]]), tmp_path)
    assert ran.exit_code == 0 and "ok: as its card prints, within 0.02" in ran.stdout
    assert "card 0.6000, here 0.6000" in ran.stdout


@pytest.mark.parametrize("place", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("off", "exit_code"), [(0.019, 0), (-0.019, 0), (0.021, 1), (-0.021, 1)])
def test_each_similarity_may_be_off_by_two_hundredths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: tuple[int, int], off: float, exit_code: int
) -> None:
    similarities = [[0.7646, 0.1414], [0.1355, 0.6000]]
    similarities[place[0]][place[1]] += off
    assert invented(monkeypatch, Invented(similarities), tmp_path).exit_code == exit_code


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        (Invented([[0.2, 0.5], [0.1, 0.6]]), "nearer to the other's document"),
        (Invented([[0.7, 0.1], [0.1, 0.6]], length=1.1), "not of length 1"),
        (Invented([[math.nan, 0.1], [0.1, 0.6]]), "not of length 1"),
    ],
    ids=["order", "length", "nan"],
)
def test_a_model_without_a_card_that_embeds_wrongly_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Invented, says: str
) -> None:
    monkeypatch.setattr(engine, "model", "unknown")
    ran = invented(monkeypatch, engine, tmp_path)
    assert ran.exit_code == 1 and says in ran.stderr and "ok" not in ran.stdout


def test_not_a_number_is_not_within_anything() -> None:
    assert cards.off_the_card(cards.CARDS[QWEN], [[math.nan, 0.1414], [0.1355, 0.6]])
