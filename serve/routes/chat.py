"""POST /v1/chat/completions, streamed or not."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from deployments.agent.events import Event
from deployments.agent.loop import Turn
from deployments.ledger.records import Generation
from serve.auth import require
from serve.body import read_json
from serve.edge import Edge
from serve.errors import not_found
from serve.http import log_failure
from serve.turns import RunningTurn
from serve.wire import chat_answer, chat_request
from serve.wire.chat_request import ChatWish
from tools.caller import Caller


async def complete(request: Request, edge: Edge, caller: Caller) -> Response:
    """One turn. The first event is looked at before headers go out, so that a refusal is a status and not a chunk."""
    require(caller, "chat")
    http = edge.settings.http
    wish = chat_request.read(await read_json(request, http.body_bytes, http.body_seconds), edge.settings.agents)
    turn, record = _start(wish, edge, caller)
    answer_id = f"chatcmpl-{record.id}"
    batches = turn.batches()
    try:
        first = await anext(batches)
        if not wish.stream:
            events = [*first, *[event async for batch in batches for event in batch]]
            return JSONResponse(chat_answer.whole(wish, answer_id, events))
    except BaseException:
        await turn.close()
        raise
    lines = _stream(turn, first, batches, chat_answer.ChunkWriter(wish, answer_id))
    return StreamingResponse(lines, media_type="text/event-stream")


def _start(wish: ChatWish, edge: Edge, caller: Caller) -> tuple[RunningTurn, Generation]:
    agent = wish.turn.agent
    name = agent.adapter or agent.tier if agent else wish.model
    tier = edge.tiers.get(name) or edge.adapters.get(name)
    if tier is None:
        raise not_found(f"model {wish.model[:60]!r}; see GET /v1/models", "model_not_found")
    record = Generation(caller.subject, tier.name, tier.model, agent.name if agent else None)
    world = edge.world(caller, record, tier)
    return RunningTurn(lambda emit: Turn(wish.turn, world, record, emit).run()), record


async def _stream(
    turn: RunningTurn, first: list[Event], batches: AsyncIterator[list[Event]], writer: chat_answer.ChunkWriter
) -> AsyncIterator[bytes]:
    """The turn as lines. Closing this, as happens when the client leaves, ends the turn."""
    try:
        yield writer.lines(first)
        async for batch in batches:
            yield writer.lines(batch)
        yield chat_answer.DONE
    except Exception as error:  # headers are out: the error is the last chunk
        log_failure(error)
        yield writer.error(error) + chat_answer.DONE
    finally:
        await turn.close()
