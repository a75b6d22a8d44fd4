"""OpenAI's chat request, read strictly into a turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from configs.settings import Agent
from deployments.agent.prompt import Page
from deployments.agent.world import TurnRequest
from deployments.tiers.contract import Message
from serve.errors import ApiError, bad_request
from serve.wire.parameters import Strict, parsed, sift

MOST_MESSAGES = 2000
_TOOLS_SAID = "Tools here are the platform's; leave yours out and name an agent as the model."
SEEDS = 2**31  # llama.cpp takes 32 bits and gives its largest the meaning "random"


class TextPart(Strict):
    type: Literal["text"]
    text: str


class ChatMessage(Strict):
    """A message; parts of other types than text are refused by their place."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[TextPart] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[Any] | None = None
    tool_call_id: str | None = None
    function_call: None = None
    audio: None = None
    annotations: list[Any] | None = None

    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content)
        return self.content or ""


class StreamOptions(Strict):
    """A null is no wish, here too."""

    include_usage: bool | None = None
    include_steps: bool | None = None
    include_obfuscation: bool | None = None


class JsonSchema(Strict):
    name: str
    description: str | None = None
    schema_: dict[str, Any] = Field({"type": "object"}, alias="schema")
    strict: bool | None = None


class ResponseFormat(Strict):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    @model_validator(mode="after")
    def _complete(self) -> ResponseFormat:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise ValueError("json_schema stands exactly where type is 'json_schema'")
        return self

    def schema_wanted(self) -> dict[str, Any] | None:
        if self.json_schema is not None:
            return self.json_schema.schema_
        return {"type": "object"} if self.type == "json_object" else None


class PageBody(Strict):
    url: str = Field(max_length=2000)
    title: str = Field("", max_length=300)
    text: str = Field("", max_length=4000)


Stop = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Tokens = Annotated[int, Field(ge=1, le=10_000_000)]


class ChatBody(Strict):
    """The parameters that are honoured."""

    model: str
    messages: list[ChatMessage] = Field(min_length=1, max_length=MOST_MESSAGES)
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    temperature: float | None = Field(None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=4)] | None = None
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    n: Literal[1] = 1
    logprobs: bool = False
    top_logprobs: int | None = Field(None, ge=0, le=20)
    response_format: ResponseFormat | None = None
    tools: list[Any] = Field([])
    tool_choice: Any = "auto"
    memory: Literal["on", "off"] = "on"
    page: PageBody | None = None


@dataclass(frozen=True)
class ChatWish:
    """What a request asks for, apart from its turn."""

    model: str
    stream: bool
    include_usage: bool
    include_steps: bool
    turn: TurnRequest


def read(body: dict[str, Any], agents: dict[str, Agent]) -> ChatWish:
    """The wish in a body. Raises ApiError 400; whether the model exists is another's question."""
    chat = parsed(ChatBody, sift(body, ChatBody.model_fields))
    agent = agents.get(chat.model)
    _refuse_tool_choice(chat)
    refuse_callers_tools(chat.messages)
    if chat.top_logprobs is not None and not chat.logprobs:
        raise bad_request("top_logprobs needs logprobs: true.", "top_logprobs")
    if chat.page is not None and agent is None:
        raise bad_request("page is for agents; a bare tier takes messages alone.", "page")
    turn = TurnRequest(
        messages=spoken(chat.messages),
        wishes=[message.text() for message in chat.messages if message.role in ("system", "developer")],
        agent=agent,
        max_tokens=chat.max_completion_tokens or chat.max_tokens,
        sampling=_sampling(chat),
        schema=chat.response_format.schema_wanted() if chat.response_format else None,
        top_logprobs=(chat.top_logprobs or 0) if chat.logprobs else None,
        recall=chat.memory == "on",
        page=Page(chat.page.url, chat.page.title, chat.page.text) if chat.page else None,
    )
    options = chat.stream_options
    return ChatWish(chat.model, chat.stream, bool(options.include_usage), options.include_steps is not False, turn)


def spoken(messages: list[ChatMessage]) -> list[Message]:
    """What person and assistant said, in order. Raises ApiError 400 where the person said nothing."""
    spoken = [message for message in messages if message.role in ("user", "assistant")]
    if not any(message.role == "user" for message in spoken):
        raise bad_request("messages has no user message; say something.", "messages")
    return [{"role": message.role, "content": message.text()} for message in spoken]


def _refuse_tool_choice(chat: ChatBody) -> None:
    if chat.tools:
        raise ApiError(400, "caller_tools_refused", _TOOLS_SAID, "tools")
    if chat.tool_choice not in ("auto", "none"):
        raise ApiError(400, "caller_tools_refused", "tool_choice may be 'auto' or 'none' here.", "tool_choice")


def refuse_callers_tools(messages: list[ChatMessage]) -> None:
    """Raises ApiError 400 for messages that hold tool calls or results: those of the platform never leave it."""
    for index, message in enumerate(messages):
        if message.role in ("tool", "function") or message.tool_calls:
            raise ApiError(400, "caller_tools_refused", _TOOLS_SAID, f"messages[{index}]")


def _sampling(chat: ChatBody) -> dict[str, Any]:
    wishes = {
        "temperature": chat.temperature,
        "top_p": chat.top_p,
        "seed": chat.seed % SEEDS if chat.seed is not None else None,
        "stop": [chat.stop] if isinstance(chat.stop, str) else chat.stop,
    }
    return {key: value for key, value in wishes.items() if value is not None}
