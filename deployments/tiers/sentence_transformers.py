"""An embedding model on CPUs through sentence-transformers, loaded from a folder of this machine.

torch computes. The other two backends have never run here: no release of optimum-onnx or optimum-intel goes with this
project's transformers and huggingface-hub, and `engines.py` refuses them where they are not installed.

Nothing is fetched and no code of the folder runs: weights are safetensors alone, and a folder that does not say how it
pools is refused, since the library would silently take the mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from configs.engines import SentenceTransformers
from deployments.tiers.contract import Capability, EmbedRole
from deployments.tiers.errors import EngineFailed
from deployments.tiers.weights.sources import one_line

_TOGETHER = 8
"""Texts of one pass, neighbours in length. Measured with MiniLM on two cores: 32 at once are no faster on texts of one
length and take 2.4 times as long on mixed ones, for padding."""


class SentenceTransformersEngine:
    """Unit vectors of `dimension` numbers; a cosine is their dot product."""

    capability: Capability = "embedding"

    def __init__(self, settings: SentenceTransformers, folder: Path, threads: int) -> None:
        self.model, self.dimension, self.window_tokens = settings.model, settings.dimension, settings.window_tokens
        self._prompts: dict[EmbedRole, str] = {"query": settings.query_prompt, "passage": settings.passage_prompt}
        self._settings = settings
        self._folder = folder
        self._threads = threads

    def start(self) -> None:
        """Load the weights; blocks for seconds. Raises EngineFailed where they are missing or another model's."""
        if not (self._folder / "modules.json").is_file():
            raise EngineFailed(f"{self._folder} is not a sentence-transformers folder: it has no modules.json")
        torch.set_num_threads(self._threads)  # Ray sets OMP_NUM_THREADS=1 for small actors
        transformers.utils.logging.disable_progress_bar()
        self._load()
        self._set_window()
        self._check_vector()

    def stop(self) -> None:
        del self._model, self._tokenizer

    async def healthy(self) -> bool:
        return True

    def count(self, texts: Sequence[str], role: EmbedRole) -> list[int]:
        """Tokens of each text, the prompt and the model's own marks included."""
        prompt = self._prompts[role]
        return [len(one.ids) for one in self._tokenizer.encode_batch([prompt + text for text in texts])]

    def embed(self, texts: Sequence[str], role: EmbedRole) -> tuple[list[list[float]], list[int]]:
        """Vectors and tokens of the texts, each cut to the window. Raises EngineFailed."""
        tokens = [min(count, self.window_tokens) for count in self.count(texts, role)]
        return (self._encode(texts, role) if texts else []), tokens

    def _encode(self, texts: Sequence[str], role: EmbedRole) -> list[list[float]]:
        """The library sorts by length. What it raises may quote a text, so its kind alone is told."""
        try:
            vectors = self._model.encode(
                list(texts),
                prompt=self._prompts[role],
                batch_size=min(_TOGETHER, self._settings.batch_texts),
                show_progress_bar=False,
                normalize_embeddings=True,
            )
        except Exception as error:
            raise EngineFailed(type(error).__name__) from None
        numbers: list[list[float]] = vectors.tolist()
        return numbers

    def _load(self) -> None:
        try:
            self._model = SentenceTransformer(
                str(self._folder),
                device="cpu",
                local_files_only=True,
                trust_remote_code=False,
                backend=self._settings.backend,
                model_kwargs=self._backend_options(),
            )
            self._tokenizer = _counting(self._model)
        except Exception as error:  # the libraries' own errors share no base; no person's text exists yet
            raise EngineFailed(f"{self._folder} cannot be loaded: {one_line(str(error))}") from None

    def _backend_options(self) -> dict[str, Any]:
        match self._settings.backend:
            case "torch":  # float32 whatever the folder says: most CPUs compute bfloat16 far slower
                return {"dtype": torch.float32, "use_safetensors": True}
            case "onnx":
                import onnxruntime  # noqa: PLC0415  # a package of this backend alone

                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = self._threads
                return {"provider": "CPUExecutionProvider", "session_options": options}
            case "openvino":
                return {"ov_config": {"INFERENCE_NUM_THREADS": self._threads}}

    def _set_window(self) -> None:
        own = self._model.max_seq_length
        if own is not None and self.window_tokens > own:
            raise EngineFailed(f"window_tokens is {self.window_tokens} and {self._folder} reads {own} tokens at most")
        self._model.max_seq_length = self.window_tokens

    def _check_vector(self) -> None:
        """By a vector it made, not by what its files say."""
        vector = self._encode(["."], "passage")[0]
        if len(vector) != self.dimension:
            raise EngineFailed(
                f"dimension is {self.dimension} and {self._folder} makes vectors of {len(vector)} numbers"
            )
        if not math.isclose(math.hypot(*vector), 1, abs_tol=1e-3):
            raise EngineFailed(f"{self._folder} makes vectors that are not of length 1: its weights are damaged")


def _counting(model: SentenceTransformer) -> Tokenizer:
    """A copy that neither cuts nor pads: the model's own changes while a batch is made, so no other thread may use it."""
    copy = Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy
