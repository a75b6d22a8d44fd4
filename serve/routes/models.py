"""GET /v1/models and /v1/models/{id}."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from serve.edge import Edge
from serve.errors import not_found
from serve.models import models
from tools.caller import Caller


async def all_models(request: Request, edge: Edge, caller: Caller) -> Response:
    """Tiers and agents."""
    return JSONResponse({"object": "list", "data": models(edge.settings)})


async def one_model(request: Request, edge: Edge, caller: Caller) -> Response:
    """One of them."""
    for model in models(edge.settings):
        if model["id"] == request.path_params["model"]:
            return JSONResponse(model)
    raise not_found("model; see GET /v1/models", "model_not_found")
