"""POST /v1/embeddings: the embed tier."""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, StringConstraints
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from deployments.agent.errors import ContextLengthExceeded
from serve.auth import require
from serve.edge import Edge
from serve.errors import bad_request, not_found
from serve.wire.parameters import Strict, read
from tools.caller import Caller

Text = Annotated[str, StringConstraints(min_length=1, max_length=100_000)]


class EmbeddingsBody(Strict):
    """`input_type` is ours: models like e5 embed a query and a passage differently; OpenAI's clients send neither."""

    model: str
    input: Text | Annotated[list[Text], Field(min_length=1, max_length=256)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    input_type: Literal["query", "passage"] = "passage"


async def create(request: Request, edge: Edge, caller: Caller) -> Response:
    """Vectors of one text or of a list. A text over the window is refused with both numbers, and costs nothing."""
    require(caller, "chat")
    wish = await read(request, edge.settings.http, EmbeddingsBody)
    if wish.model != "embed":
        raise not_found("embedding model; use 'embed'", "model_not_found")
    about = await edge.embedding.describe()
    if wish.dimensions not in (None, about["dimension"]):
        raise bad_request(f"The model's vectors have {about['dimension']} dimensions.", "dimensions")
    texts = [wish.input] if isinstance(wish.input, str) else wish.input
    tokens = await edge.embedding.count(texts, wish.input_type)
    if max(tokens) > about["window_tokens"]:
        raise ContextLengthExceeded(max(tokens), about["window_tokens"])
    async with edge.account(caller).spending(sum(tokens)) as spending:
        vectors, used = await edge.embedding.embed(texts, wish.input_type)
        spending.used = sum(used)
    data = [
        {"object": "embedding", "index": index, "embedding": _encoded(vector, wish.encoding_format)}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": sum(used), "total_tokens": sum(used)}
    return JSONResponse({"object": "list", "model": "embed", "data": data, "usage": usage})


def _encoded(vector: list[float], encoding: str) -> Any:
    """Floats, or little-endian float32 in base64 as OpenAI's own clients ask for it."""
    if encoding == "float":
        return vector
    return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()
