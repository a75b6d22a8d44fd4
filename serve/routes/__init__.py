"""The routes, all in one table."""

from __future__ import annotations

from serve.http import open_route, route
from serve.routes import account, chat, embeddings, memory, models, operations, sessions, tools, transfer

ROUTES = [
    open_route("/healthz", operations.alive),
    open_route("/readyz", operations.ready),
    route("/v1/models", "GET", models.all_models),
    route("/v1/models/{model}", "GET", models.one_model),
    route("/v1/chat/completions", "POST", chat.complete),
    route("/v1/embeddings", "POST", embeddings.create),
    route("/v1/memory/entries", "GET", memory.page),
    route("/v1/memory/entries", "POST", memory.keep),
    route("/v1/memory/entries", "DELETE", memory.forget_all),
    route("/v1/memory/entries/{entry}", "GET", memory.get),
    route("/v1/memory/entries/{entry}", "PATCH", memory.correct),
    route("/v1/memory/entries/{entry}", "DELETE", memory.forget),
    route("/v1/memory/search", "POST", memory.search),
    route("/v1/memory/recall", "POST", memory.recall),
    route("/v1/memory/export", "GET", transfer.export),
    route("/v1/memory/import", "POST", transfer.import_),
    route("/v1/tools", "GET", tools.listed),
    route("/v1/tools/{tool}/call", "POST", tools.call),
    route("/v1/sessions/end", "POST", sessions.end),
    route("/v1/usage", "GET", account.usage),
    route("/v1/generations", "GET", account.generations),
    route("/v1/admin/status", "GET", operations.status),
]
