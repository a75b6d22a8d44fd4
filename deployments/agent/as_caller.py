"""Memory and platform as one caller sees them: each call carries a token minted for its audience, each is charged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from deployments.agent.account import Account
from deployments.identity import Audience, IdentityRefused
from deployments.ledger.errors import BudgetExhausted
from deployments.ledger.records import Generation
from deployments.tiers.errors import TierError
from memory_store.errors import EntryConflict, InvalidEntry, MemoryFull, MemoryStoreError
from tools.errors import ModelShouldKnow, ModelShouldRetry, PlatformBroken

Mint = Callable[[Audience], str]


class Service(Protocol):
    """A deployment that verifies its callers; the graph gives a handle to one."""

    async def call(self, method: str, token: str, *arguments: Any) -> Any:
        """Raises what the service raised, or TierUnavailable."""


@contextmanager
def _broken(service: str, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """What a service raised is the platform's fault, `but` for what the model can act on."""
    try:
        yield
    except but:
        raise
    except (MemoryStoreError, TierError, IdentityRefused):
        raise PlatformBroken(service) from None


class CallersMemory:
    """The entries of one caller. What embedding costs is charged to `account` and noted in the turn's `record`, if any;
    `worst_tokens` is the embedding model's window."""

    def __init__(
        self, service: Service, mint: Mint, account: Account, record: Generation | None, worst_tokens: int
    ) -> None:
        self._service = service
        self._mint = mint
        self._account = account
        self._record = record
        self._worst_tokens = worst_tokens

    async def recall(self, query: str) -> dict[str, Any]:
        """`{"shown", "left_out"}`. Raises BudgetExhausted and the errors of store and tiers."""
        answer: dict[str, Any] = await self._charged("recall", query)
        return answer

    async def keep(self, kind: str, text: str, source: dict[str, str]) -> dict[str, Any]:
        """The entry, with `duplicate_of` where it was there before. Raises as `recall`."""
        answer = await self._charged("keep", kind, text, source)
        entry: dict[str, Any] = answer["entry"]
        return entry | ({"duplicate_of": entry["id"]} if answer["existed"] else {})

    async def correct(self, entry: str, text: str, kind: str | None) -> dict[str, Any] | None:
        """The corrected entry, None where there is none. Raises as `recall`."""
        answer = await self._charged("correct", entry, text, kind)
        changed: dict[str, Any] | None = answer["entry"]
        return changed

    async def get(self, entry: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = await self._call("get", entry)
        return found

    async def page(self, kind: str | None, before: str | None, limit: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._call("page", kind, before, limit)
        return found

    async def forget(self, entry: str) -> bool:
        return bool(await self._call("forget", entry))

    async def _charged(self, method: str, *arguments: Any) -> dict[str, Any]:
        async with self._account.spending(self._worst_tokens) as spending:
            spending.used = 0  # nothing was embedded unless the service says so
            answer: dict[str, Any] = await self._call(method, *arguments)
            spending.used = answer["tokens"]
            if self._record is not None:
                self._record.embedding_tokens += answer["tokens"]
        if "refused" in answer:
            raise answer["refused"]
        return answer

    async def _call(self, method: str, *arguments: Any) -> Any:
        return await self._service.call(method, self._mint("memory"), *arguments)


class ToolsMemory:
    """The same memory for the loop and its tools: what goes wrong is sorted into the three kinds of tool failure."""

    def __init__(self, memory: CallersMemory) -> None:
        self._memory = memory

    async def recall(self, query: str) -> dict[str, Any]:
        with _broken("memory"):
            return await self._memory.recall(query)

    async def keep(self, kind: str, text: str, source: dict[str, str]) -> dict[str, Any]:
        try:
            with _broken("memory", but=(InvalidEntry, MemoryFull, EntryConflict)):
                return await self._memory.keep(kind, text, source)
        except InvalidEntry as error:
            raise ModelShouldRetry(str(error)) from None
        except (MemoryFull, EntryConflict):
            raise ModelShouldKnow("The person's memory is full; they must forget something first.") from None
        except BudgetExhausted:
            raise ModelShouldKnow("The person's token budget of today does not suffice; nothing was kept.") from None

    async def forget(self, entry: str) -> bool:
        with _broken("memory"):
            return await self._memory.forget(entry)


class CallersPlatform:
    """The platform for one caller; meets `tools.services.PlatformService`."""

    def __init__(self, service: Service, mint: Mint, models: list[dict[str, Any]]) -> None:
        self._service = service
        self._mint = mint
        self._models = models

    async def snapshot(self) -> dict[str, Any]:
        """Raises PlatformBroken."""
        with _broken("platform"):
            snapshot: dict[str, Any] = await self._service.call("snapshot", self._mint("platform"))
        return snapshot

    def models(self) -> list[dict[str, Any]]:
        return self._models
