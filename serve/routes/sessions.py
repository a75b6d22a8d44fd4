"""POST /v1/sessions/end: the person ends a session, and a summary of it is kept."""

from __future__ import annotations

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from deployments.agent.session import SessionEnd
from deployments.ledger.records import Generation
from serve.auth import require
from serve.edge import Edge
from serve.errors import bad_request, not_found
from serve.wire import chat_request
from serve.wire.chat_request import MOST_MESSAGES, ChatMessage
from serve.wire.parameters import Strict, read
from tools.caller import Caller


class EndBody(Strict):
    agent: str
    messages: list[ChatMessage] = Field(min_length=1, max_length=MOST_MESSAGES)


async def end(request: Request, edge: Edge, caller: Caller) -> Response:
    """201 with the episode; 200 with `duplicate_of` where the same was kept before."""
    require(caller, "chat")
    require(caller, "memory")
    settings = edge.settings
    body = await read(request, settings.http, EndBody)
    agent = settings.agents.get(body.agent)
    if agent is None:
        raise not_found(f"agent {body.agent[:60]!r}; see GET /v1/models", "model_not_found")
    if not agent.remembers:
        raise bad_request(f"{agent.name} does not remember; end sessions of an agent that does.", "agent")
    chat_request.refuse_callers_tools(body.messages)
    messages = chat_request.spoken(body.messages)
    tier = edge.tiers[settings.episodes.tier]
    record = Generation(caller.subject, tier.name, tier.model, agent.name)
    world = edge.world(caller, record, tier, settings.episodes.deadline_seconds)
    episodes = edge.episodes(world, record)
    entry = await SessionEnd(messages, agent.name, world, record, settings.episodes, episodes).run()
    return JSONResponse(entry, 200 if "duplicate_of" in entry else 201)
