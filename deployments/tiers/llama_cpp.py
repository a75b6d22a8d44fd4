"""Chat on a CPU: llama.cpp in the replica's own process.

Generation blocks, so each runs in a thread of its own and hands its chunks to the event loop; the callback's return value
is how a generation is stopped, within one token, or within one batch of the prompt while that is being read. Counting
goes through llama.cpp's own HTTP server, which cannot be switched off: it listens on a socket in a private folder, behind
a key.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import tempfile
import threading
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import xllamacpp

from configs.engines import LlamaCpp
from deployments.tiers import schemas
from deployments.tiers.calls import CallReader
from deployments.tiers.chunks import deltas
from deployments.tiers.contract import Capability, ChatRequest, Delta, Message
from deployments.tiers.errors import EngineFailed, SchemaUnsupported

PROMPT_BATCH_TOKENS = 64  # as fast as larger batches on two cores, and a stopped prompt ends after at most this many
_COMPACT = {"x-guidance": {"whitespace_flexible": False}}  # a small model can write white space until its limit


class LlamaCppEngine:
    """A GGUF model with `slots` generations side by side."""

    capability: Capability = "chat"

    def __init__(self, settings: LlamaCpp, weights: Path, slots: int) -> None:
        self.model = settings.model
        self.window_tokens = settings.context_tokens
        self._settings = settings
        self._weights = weights
        self._slots = slots
        self._key = secrets.token_urlsafe(24)
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="llama")

    async def start(self) -> None:
        """Load the weights, for some seconds. Raises EngineFailed."""
        await asyncio.to_thread(self._load)

    def _load(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="llama-"))  # mode 0700
        try:
            self._server = xllamacpp.Server(self._parameters())
        except RuntimeError:
            raise EngineFailed("weights_not_loaded") from None
        # No connection outlives its call: closing a client needs an event loop, which is gone when a replica ends.
        limits = httpx.Limits(max_keepalive_connections=0)
        transport = httpx.AsyncHTTPTransport(uds=str(self._folder / "s.sock"), limits=limits)
        headers = {"Authorization": f"Bearer {self._key}"}
        self._http = httpx.AsyncClient(transport=transport, base_url="http://llama", headers=headers, timeout=30)

    def stop(self) -> None:
        """Free the model and the socket's folder."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        del self._server
        shutil.rmtree(self._folder, ignore_errors=True)

    async def healthy(self) -> bool:
        try:
            return (await self._http.get("/health")).status_code == 200
        except httpx.HTTPError:
            return False

    def schema_fault(self, schema: dict[str, Any]) -> str | None:
        return schemas.fault(schema)

    async def count(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> int:
        """Tokens of the prompt, the chat template included. Raises EngineFailed."""
        body = {"messages": list(messages)} | ({"tools": list(tools)} if tools else {})
        try:
            answer = await self._http.post("/v1/chat/completions/input_tokens", json=body)
            return int(answer.json()["input_tokens"])
        except (httpx.HTTPError, KeyError, ValueError):
            raise EngineFailed("count_failed") from None

    async def chat(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        """One round; see the contract."""
        if request.schema is not None and self.schema_fault(request.schema):
            raise SchemaUnsupported("schema_unsupported")
        reader = CallReader({tool["function"]["name"] for tool in request.tools})
        try:
            body = self._body(request)
        except (ValueError, RuntimeError):  # from the grammar; its message quotes the schema
            raise SchemaUnsupported("schema_unsupported") from None
        chunks = self._generate(body)
        try:
            async for delta in deltas(chunks, request.max_tokens, reader, _generated):
                yield delta
        finally:
            await chunks.aclose()

    async def _generate(self, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """llama.cpp's chunks. Closing this stops the generation and waits until the slot is free again."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        stopped = threading.Event()

        def on_chunk(chunk: str) -> bool:
            loop.call_soon_threadsafe(queue.put_nowait, json.loads(chunk))
            return stopped.is_set()

        def run() -> None:
            try:
                self._server.handle_chat_completions(json.dumps(body), on_chunk)
            finally:
                loop.call_soon_threadsafe(queue.put_nowait, None)

        running = loop.run_in_executor(self._threads, run)
        try:
            while (chunk := await queue.get()) is not None:
                yield chunk
            await _finished(running)
        finally:
            stopped.set()
            await asyncio.wait([running])

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "messages": request.messages,
            "max_tokens": request.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "timings_per_token": True,  # the exact number of tokens so far, in every chunk
            "return_progress": True,  # a chunk for each batch of the prompt, at which it can be stopped
            **request.sampling,
        }
        if request.tools:
            body["tools"] = request.tools
        if request.schema is not None:
            body["grammar"] = xllamacpp.json_schema_to_grammar({**request.schema, **_COMPACT})
        if request.top_logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        return body

    def _parameters(self) -> xllamacpp.CommonParams:
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(self._weights)
        parameters.n_ctx = self._settings.context_tokens * self._slots
        parameters.n_parallel = self._slots
        parameters.n_batch = parameters.n_ubatch = PROMPT_BATCH_TOKENS
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = self._settings.threads
        parameters.cache_ram_mib = self._settings.prompt_cache_mib
        parameters.hostnames = [str(self._folder / "s.sock")]
        parameters.api_keys = [self._key]
        parameters.use_jinja = True
        parameters.force_pure_content_parser = True  # calls are read by CallReader, one way for every format
        parameters.endpoint_slots = parameters.endpoint_props = parameters.endpoint_metrics = False
        parameters.ui = False
        parameters.verbosity = -1  # llama.cpp logs prompts at higher levels
        return parameters


def _generated(chunk: dict[str, Any]) -> int | None:
    """The tokens so far, which llama.cpp tells beside its timings."""
    count: int | None = chunk.get("timings", {}).get("predicted_n")
    return count


async def _finished(running: asyncio.Future[None]) -> None:
    """What the thread raised, in our words: its own message may quote the request."""
    try:
        await running
    except (ValueError, RuntimeError):
        raise EngineFailed("request_refused") from None
