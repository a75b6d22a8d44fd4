"""Chat by vLLM, through Ray Serve's own LLM library: this replica holds an `LLMServer` and speaks the engine contract.

vLLM's chunks come as lines of an event stream; they are parsed here and leave as deltas. What vLLM answers instead of
chunks is an error whose message may quote the request, so its kind alone is told.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

from ray.llm._internal.serve.core.configs.openai_api_models import TokenizeChatRequest
from ray.serve.llm import LLMConfig
from ray.serve.llm.deployment import LLMServer, PDDecodeServer
from ray.serve.llm.openai_api_models import ChatCompletionRequest

from configs.engines import Vllm
from configs.settings import ChatTier
from deployments.tiers import schemas
from deployments.tiers.calls import CallReader
from deployments.tiers.chunks import Chunk, deltas
from deployments.tiers.contract import Capability, ChatRequest, Delta, Message
from deployments.tiers.errors import EngineFailed, SchemaUnsupported, TierError
from deployments.tiers.vllm_config import llm_config
from deployments.tiers.weights.sources import one_line

_LINE = "data: "
_END = "[DONE]"


class VllmEngine:
    """A model of vLLM's with the tier's slots side by side; `prefill` is the handle of replicas that read its prompts."""

    capability: Capability = "chat"

    def __init__(self, name: str, tier: ChatTier, weights: Path, prefill: Any = None) -> None:
        assert isinstance(tier.engine, Vllm)
        self.model = tier.engine.model
        self.window_tokens = tier.engine.context_tokens
        self._name = name
        self._settings = tier.engine
        self._config = LLMConfig(**llm_config(name, tier, weights))
        self._prefill = prefill

    async def start(self) -> None:
        """Load the weights, for a minute and more. Raises EngineFailed."""
        try:
            self._server = await _served(self._config, self._prefill)
        except Exception as error:  # vLLM's, Ray's and the system's share no base; no person's text exists yet
            raise EngineFailed(one_line(str(error))) from None
        _mend_tokenizing(self._server)

    def stop(self) -> None:
        """vLLM's processes end with the replica's."""
        del self._server

    async def healthy(self) -> bool:
        try:
            await self._server.check_health()
        except Exception:
            return False
        return True

    def schema_fault(self, schema: dict[str, Any]) -> str | None:
        return schemas.fault(schema)

    async def count(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> int:
        """Tokens of the prompt, the chat template included. Raises EngineFailed."""
        body: dict[str, Any] = {"model": self._name, "messages": list(messages)} | self._template()
        if tools:
            body["tools"] = list(tools)
        with _told_by_kind():
            async with aclosing(await self._server.tokenize(TokenizeChatRequest(**body))) as answers:
                answer = await anext(answers)
        if hasattr(answer, "error"):
            raise EngineFailed(str(answer.error.type))
        return int(answer.count)

    async def chat(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        """One round; see the contract."""
        if request.schema is not None and self.schema_fault(request.schema):
            raise SchemaUnsupported("schema_unsupported")
        offered = set() if self._settings.call_parser else {tool["function"]["name"] for tool in request.tools}
        with _told_by_kind():
            async with aclosing(self._generate(request)) as chunks:
                async for delta in deltas(chunks, request.max_tokens, CallReader(offered), _generated):
                    yield delta

    async def _generate(self, request: ChatRequest) -> AsyncGenerator[Chunk, None]:
        """vLLM's chunks. Closing this stops the generation."""
        async with aclosing(await self._server.chat(ChatCompletionRequest(**self._body(request)))) as batches:
            async for batch in batches:
                for item in batch if isinstance(batch, list) else [batch]:
                    if (chunk := _chunk(item)) is not None:
                        yield chunk

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": request.adapter or self._name,
            "messages": request.messages,
            "max_tokens": request.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            **self._template(),
            **request.sampling,
        }
        if request.tools:
            body |= {"tools": request.tools, "tool_choice": "auto" if self._settings.call_parser else "none"}
        if request.schema is not None:
            body["structured_outputs"] = {"json": request.schema}
        if request.top_logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        return body

    def _template(self) -> dict[str, Any]:
        options = self._settings.template_options
        return {"chat_template_kwargs": options} if options else {}


@contextmanager
def _told_by_kind() -> Iterator[None]:
    """What vLLM, its templates and its request models raise may quote the request, and Ray logs what crosses a handle."""
    try:
        yield
    except TierError:
        raise
    except Exception as error:
        raise EngineFailed(type(error).__name__) from None


async def _served(config: LLMConfig, prefill: Any) -> LLMServer:
    """A started server. Its constructor is awaited by Serve when it is a deployment of its own, and here by us."""
    kind, further = (PDDecodeServer, {"prefill_server": prefill}) if prefill else (LLMServer, {})
    server = kind.__new__(kind)
    await server.__init__(config, **further)
    return server


def _mend_tokenizing(server: LLMServer) -> None:
    """Ray 2.60 looks for vLLM's tokenizing service under a name that vLLM 0.29 no longer uses, and answers that there is
    none. A test of counting fails where this is not needed, or not enough, any more."""
    engine = server.engine
    engine._oai_serving_tokenization = engine._app_state.serving_tokenization


def _chunk(item: Any) -> Chunk | None:
    """A line of the event stream, or an error that came instead of it, as a chunk; None for the end."""
    if not isinstance(item, str):
        return {"error": {"type": item.error.type}, "choices": []}
    line = item.strip().removeprefix(_LINE)
    if line == _END:
        return None
    chunk: Chunk = json.loads(line)
    return chunk


def _generated(chunk: Chunk) -> int | None:
    """The tokens so far, which vLLM tells in every chunk when asked for continuous usage."""
    return (chunk.get("usage") or {}).get("completion_tokens")
