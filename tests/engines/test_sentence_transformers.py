"""The engine with a trained small model, and with an untrained one of Qwen3's shape whose vectors are computed by hand."""

from __future__ import annotations

import logging
import math
import shutil
import socket
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from configs.engines import SentenceTransformers
from configs.settings import EmbedTier
from deployments.tiers import engines
from deployments.tiers.errors import EngineFailed
from deployments.tiers.sentence_transformers import SentenceTransformersEngine
from tests.engines.conftest import (
    MINILM,
    MINILM_DIMENSION,
    QWEN_DIMENSION,
    THREADS,
    WORDS,
    minilm_settings,
    qwen_settings,
)

Folder = Callable[[str], Path]
PAIRS = [
    ("Which editor does she like?", "Her favourite text editor is Helix."),
    ("What port does the database use?", "Postgres listens on 5433 here."),
    ("Is there a dog?", "They keep a spaniel called Luna."),
]
SENTENCES = ["gravity", "the capital of China is Beijing", "explain gravity", "a force that attracts two bodies"]
MARKER = "marker-of-a-person"


def started(settings: SentenceTransformers, folder: Path, threads: int = THREADS) -> SentenceTransformersEngine:
    engine = SentenceTransformersEngine(settings, folder, threads)
    engine.start()
    return engine


def refused(settings: SentenceTransformers, folder: Path) -> str:
    with pytest.raises(EngineFailed) as caught:
        started(settings, folder)
    (line,) = caught.value.args
    assert "\n" not in line
    return str(line)


def tier(engine: SentenceTransformers, num_cpus: float = 1) -> EmbedTier:
    return EmbedTier(engine=engine, num_cpus=num_cpus, floor=0)


def dot(one: list[float], other: list[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


def same(one: list[float], other: list[float]) -> bool:
    return all(math.isclose(a, b, abs_tol=1e-4) for a, b in zip(one, other, strict=True))


# --- a trained model ---


def test_a_question_is_nearest_to_its_answer(minilm: SentenceTransformersEngine) -> None:
    questions, _ = minilm.embed([question for question, _ in PAIRS], "query")
    answers, _ = minilm.embed([answer for _, answer in PAIRS], "passage")
    nearest = [max(range(3), key=lambda place: dot(question, answers[place])) for question in questions]
    assert nearest == [0, 1, 2]


def test_vectors_are_unit_vectors_of_plain_numbers(minilm: SentenceTransformersEngine) -> None:
    vectors, _ = minilm.embed(["short", "a longer sentence about nothing in particular"], "passage")
    assert [len(vector) for vector in vectors] == [MINILM_DIMENSION] * 2
    assert all(math.isclose(math.hypot(*vector), 1, abs_tol=1e-5) for vector in vectors)
    assert {type(number) for vector in vectors for number in vector} == {float}


def test_vectors_come_in_the_order_of_the_texts(minilm: SentenceTransformersEngine) -> None:
    texts = [" ".join(["word"] * (1 + 7 * number % 23)) for number in range(20)]
    together, tokens = minilm.embed(texts, "passage")
    alone = [minilm.embed([text], "passage") for text in texts]
    assert all(same(vector, vectors[0]) for vector, (vectors, _) in zip(together, alone, strict=True))
    assert tokens == [one[0] for _, one in alone] == minilm.count(texts, "passage")


def test_tokens_are_counted_with_prompt_and_marks(minilm: SentenceTransformersEngine) -> None:
    assert minilm.count(["hello world", ""], "passage") == [4, 2]
    assert minilm.count(["hello world"], "query") == [6]
    assert minilm.count([], "query") == []
    assert minilm.embed([], "query") == ([], [])


def test_the_prompt_of_a_query_takes_effect(minilm: SentenceTransformersEngine) -> None:
    (query,), _ = minilm.embed(["tabs or spaces"], "query")
    (written_out, bare), _ = minilm.embed(["query: tabs or spaces", "tabs or spaces"], "passage")
    assert same(query, written_out)
    assert not same(query, bare)


def test_a_text_is_cut_to_the_window(minilm: SentenceTransformersEngine) -> None:
    within = " ".join(["cat"] * 62)
    (cut, whole), tokens = minilm.embed([within + " and a dog that is never read", within], "passage")
    assert same(cut, whole)
    assert tokens == [64, 64]
    assert minilm.count([within + " dog"], "passage") == [65]


def test_counting_beside_a_batch_disturbs_neither(minilm: SentenceTransformersEngine) -> None:
    with ThreadPoolExecutor(2) as threads:
        embedding = threads.submit(minilm.embed, ["one text", "another longer text of some words"] * 40, "passage")
        counts = [threads.submit(minilm.count, ["hello world"], "passage").result() for _ in range(200)]
        assert len(embedding.result()[0]) == 80
    assert counts == [[4]] * 200


async def test_it_is_healthy(minilm: SentenceTransformersEngine) -> None:
    assert await minilm.healthy()


# --- refusing at the start ---


def test_a_model_of_another_dimension_is_refused() -> None:
    line = refused(minilm_settings(dimension=1024), MINILM)
    assert "dimension is 1024" in line and str(MINILM) in line and "384 numbers" in line


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert str(tmp_path / "gone") in refused(minilm_settings(), tmp_path / "gone")


def test_a_folder_that_does_not_say_how_it_pools_is_refused(qwen_like: Folder, tmp_path: Path) -> None:
    folder = shutil.copytree(qwen_like("right"), tmp_path / "m")
    (folder / "modules.json").unlink()
    assert "no modules.json" in refused(qwen_settings(folder), folder)


@pytest.mark.parametrize("damage", ["gone", "cut", "pickled"])
def test_weights_that_are_missing_or_damaged_are_refused(qwen_like: Folder, tmp_path: Path, damage: str) -> None:
    folder = shutil.copytree(qwen_like("right"), tmp_path / "m")
    weights = folder / "model.safetensors"
    if damage == "cut":
        weights.write_bytes(weights.read_bytes()[:1000])
    elif damage == "pickled":
        state = transformers.Qwen3Model.from_pretrained(folder).state_dict()
        torch.save(state, folder / "pytorch_model.bin")
    if damage != "cut":
        weights.unlink()
    assert f"{folder} cannot be loaded: " in refused(qwen_settings(folder), folder)


def test_a_window_over_the_models_own_is_refused() -> None:
    assert "window_tokens is 300" in refused(minilm_settings(window_tokens=300), MINILM)


def test_vectors_that_are_no_numbers_are_refused(qwen_like: Folder, tmp_path: Path) -> None:
    folder = shutil.copytree(qwen_like("right"), tmp_path / "m")
    model = transformers.Qwen3Model.from_pretrained(folder)
    torch.nn.init.constant_(model.norm.weight, math.nan)
    model.save_pretrained(folder)
    assert "not of length 1" in refused(qwen_settings(folder), folder)


def refused_before_fetching(settings: SentenceTransformers) -> str:
    """Where a start looks before it fetches, and where a replica or a command makes its engine, it is the same line."""
    lines = []
    for refuses in (engines.fetch_embedding, lambda engine, cache: engines.embedding_engine(tier(engine), cache)):
        with pytest.raises(EngineFailed) as caught:
            refuses(settings, Path("/nowhere"))
        lines.append(str(caught.value))
    assert lines[0] == lines[1] and "\n" not in lines[0]
    return lines[0]


@pytest.mark.parametrize("package", ["sentence_transformers", "torch", "transformers"])
def test_a_missing_package_is_named_with_what_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    line = refused_before_fetching(minilm_settings(source="hf:none/such@main"))
    assert line == f"the package {package} is missing: pip install 'recall-serve[sentence-transformers]'"


@pytest.mark.parametrize(
    ("backend", "package", "modules"),
    [("onnx", "optimum-onnx", ["optimum", "onnxruntime"]), ("openvino", "optimum-intel", ["optimum", "openvino"])],
)
def test_a_backend_without_its_packages_is_refused_with_what_to_do(
    backend: str, package: str, modules: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in modules:
        monkeypatch.setitem(sys.modules, name, None)
    line = refused_before_fetching(minilm_settings(backend=backend, source="hf:none/such@main"))
    assert f"backend is {backend} and {package} is not installed" in line and "engine.backend to torch" in line


# --- what it does not do ---


def test_loading_asks_no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("something is asked over the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    started(minilm_settings(), MINILM).stop()


@pytest.mark.parametrize(
    ("num_cpus", "own", "threads"), [(0.2, None, 1), (1, None, 1), (1.5, None, 2), (3, None, 3), (1, 4, 4), (4, 1, 1)]
)
def test_it_computes_with_as_many_threads_as_its_replica_has_cpus_or_as_it_is_told(
    num_cpus: float, own: int | None, threads: int
) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        engines.embedding_engine(tier(minilm_settings(threads=own), num_cpus), Path("/nowhere")).start()
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_an_error_quotes_no_text(minilm: SentenceTransformersEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(texts: list[str], **_: Any) -> None:
        raise ValueError(f"cannot read {texts[0]}")

    monkeypatch.setattr(minilm._model, "encode", broken)
    with pytest.raises(EngineFailed) as caught:
        minilm.embed([MARKER], "query")
    assert caught.value.args == ("ValueError",)
    assert MARKER not in "".join(traceback.format_exception(caught.value))


def test_nothing_is_written_or_logged(
    minilm: SentenceTransformersEngine, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG):
        minilm.embed([MARKER, f"{MARKER} " * 500], "query")
        minilm.count([MARKER], "query")
    assert MARKER not in caplog.text
    assert "".join(capfd.readouterr()) == ""


def test_loading_shows_no_bar(capfd: pytest.CaptureFixture[str]) -> None:
    started(minilm_settings(), MINILM)
    assert "".join(capfd.readouterr()) == ""


# --- Qwen3's shape ---


@pytest.mark.parametrize("padding_side", ["left", "right"])
def test_the_state_of_the_last_token_is_the_vector(qwen_like: Folder, padding_side: str) -> None:
    folder = qwen_like(padding_side)
    engine = started(qwen_settings(folder, query_prompt=""), folder)
    vectors, _ = engine.embed(SENTENCES, "passage")
    for sentence, vector in zip(SENTENCES, vectors, strict=True):
        states = last_states(folder, sentence)
        assert same(vector, torch.nn.functional.normalize(states[-1], dim=0).tolist())
        assert not same(vector, torch.nn.functional.normalize(states.mean(0), dim=0).tolist())


def last_states(folder: Path, text: str) -> torch.Tensor:
    """(tokens, dimension): what the bare model says of a text without padding."""
    ids = transformers.AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        states: torch.Tensor = transformers.Qwen3Model.from_pretrained(folder)(ids).last_hidden_state[0]
    return states


@pytest.mark.parametrize("padding_side", ["left", "right"])
def test_padding_changes_no_vector(qwen_like: Folder, padding_side: str) -> None:
    folder = qwen_like(padding_side)
    engine = started(qwen_settings(folder), folder)
    together, _ = engine.embed(SENTENCES, "query")
    for sentence, vector in zip(SENTENCES, together, strict=True):
        assert same(vector, engine.embed([sentence], "query")[0][0])
        assert len(vector) == QWEN_DIMENSION
        assert math.isclose(math.hypot(*vector), 1, abs_tol=1e-5)


def test_a_cut_text_keeps_its_last_mark(qwen_like: Folder) -> None:
    folder = qwen_like("left")
    engine = started(qwen_settings(folder, window_tokens=8, query_prompt=""), folder)
    (cut, whole, shorter), tokens = engine.embed([" ".join(WORDS[:many]) for many in (9, 7, 6)], "passage")
    assert same(cut, whole) and not same(cut, shorter)
    assert tokens == [8, 8, 7]


def test_whatever_a_folder_says_it_is_computed_in_float32(qwen_like: Folder, tmp_path: Path) -> None:
    folder = shutil.copytree(qwen_like("left"), tmp_path / "m")
    transformers.Qwen3Model.from_pretrained(folder).to(torch.bfloat16).save_pretrained(folder)
    assert started(qwen_settings(folder), folder)._model.dtype == torch.float32
