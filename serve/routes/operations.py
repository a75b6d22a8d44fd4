"""For operators and probes: GET /v1/admin/status, /healthz and /readyz."""

from __future__ import annotations

import asyncio

from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from deployments.platform import RUNNING_WELL
from serve.auth import require
from serve.edge import Edge
from tools.caller import Caller


async def status(request: Request, edge: Edge, caller: Caller) -> Response:
    """Tiers, replicas, queues and services; needs the right `admin`."""
    require(caller, "admin")
    return JSONResponse(await edge.snapshot(caller))


async def alive(request: Request, edge: Edge) -> Response:
    return JSONResponse({"status": "alive"})


async def ready(request: Request, edge: Edge) -> Response:
    """200 when every deployment and the database answer, else 503 with the names of those that do not.

    No tier is called: that would wake one that sleeps, and a tier scaled to zero counts as ready.
    """
    away = [] if await _database_answers(edge) else ["database"]
    known = await asyncio.to_thread(serve.status)
    for application in known.applications.values():
        away += [name for name, one in application.deployments.items() if one.status not in RUNNING_WELL]
    return JSONResponse({"status": "not ready" if away else "ready", "away": sorted(away)}, 503 if away else 200)


async def _database_answers(edge: Edge) -> bool:
    try:
        async with asyncio.timeout(3):
            return await edge.ledger.row("minute_ends") is not None
    except Exception:  # whatever it is, the database did not answer
        return False
