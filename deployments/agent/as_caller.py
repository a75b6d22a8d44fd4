"""The memory as one caller sees it: each call carries a token minted for it, each is charged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from deployments.agent.account import Account
from deployments.identity import Audience, IdentityRefused
from deployments.ledger.errors import BudgetExhausted
from deployments.ledger.records import Generation
from deployments.tiers.errors import TierError
from memory_store.errors import BadLines, EntryConflict, InvalidEntry, MemoryFull, MemoryStoreError, StoreUnavailable
from tools.errors import ModelShouldKnow, ModelShouldRetry, PlatformBroken

Mint = Callable[[Audience], str]


# Refused or unreachable before anything was embedded; afterwards the service answers with a value. Whatever else cuts a call
# short is charged in full.
_BEFORE_EMBEDDING = (InvalidEntry, IdentityRefused, TierError, StoreUnavailable)


class Service(Protocol):
    """A deployment that verifies its callers; the graph gives a handle to one."""

    async def call(self, method: str, token: str, *arguments: Any) -> Any:
        """Raises what the service raised, or TierUnavailable."""


@contextmanager
def broken(service: str, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """What a service raised is the platform's fault, `but` for what the model can act on."""
    try:
        yield
    except but:
        raise
    except (MemoryStoreError, TierError, IdentityRefused):
        raise PlatformBroken(service) from None


class _Charged:
    """Calls of the memory service. What embedding costs is charged to `account` and noted in the `record`, if any;
    `worst_tokens` is the embedding model's window."""

    def __init__(
        self, service: Service, mint: Mint, account: Account, record: Generation | None, worst_tokens: int
    ) -> None:
        self._service = service
        self._mint = mint
        self._account = account
        self._record = record
        self._worst_tokens = worst_tokens

    async def _charged(self, method: str, worst_tokens: int, *arguments: Any) -> dict[str, Any]:
        async with self._account.spending(worst_tokens) as spending:
            try:
                answer: dict[str, Any] = await self._call(method, *arguments)
            except _BEFORE_EMBEDDING:
                spending.used = 0
                raise
            except BaseException:
                self._note(worst_tokens)
                raise
            spending.used = answer["tokens"]
            self._note(answer["tokens"])
        if "refused" in answer:
            raise answer["refused"]
        return answer

    def _note(self, tokens: int) -> None:
        if self._record is not None:
            self._record.embedding_tokens += tokens

    async def _call(self, method: str, *arguments: Any) -> Any:
        return await self._service.call(method, self._mint("memory"), *arguments)


class Episodes(_Charged):
    """Writes summaries of sessions. The token it mints is the platform's own, not the caller's."""

    async def write(self, subject: str, text: str, agent: str) -> dict[str, Any]:
        """The entry, with `duplicate_of` where the same was there before. Raises as `CallersMemory.keep`."""
        return _told(await self._charged("write_episode", self._worst_tokens, subject, text, agent))


class CallersMemory(_Charged):
    """The entries of one caller."""

    async def recall(self, query: str) -> dict[str, Any]:
        """`{"shown", "left_out", "not_embedded"}`. Raises BudgetExhausted and the errors of store and tiers."""
        answer: dict[str, Any] = await self._charged("recall", self._worst_tokens, query)
        return answer

    async def keep(self, kind: str, text: str, source: dict[str, str], expires_at: str | None = None) -> dict[str, Any]:
        """The entry, with `duplicate_of` where it was there before, `similar` where others nearly say the same.

        Raises as `recall`, and InvalidEntry.
        """
        return _told(await self._charged("keep", self._worst_tokens, kind, text, source, expires_at))

    async def correct(
        self, entry: str, changes: Mapping[str, str | None], source: dict[str, str]
    ) -> dict[str, Any] | None:
        """The corrected entry, None where there is none. Raises as `keep`."""
        worst_tokens = self._worst_tokens if "text" in changes else 0
        answer = await self._charged("correct", worst_tokens, entry, dict(changes), source)
        return _with_similar(answer["entry"], answer) if answer["entry"] else None

    async def get(self, entry: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = await self._call("get", entry)
        return found

    async def page(self, kind: str | None, before: str | None, limit: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._call("page", kind, before, limit)
        return found

    async def search(self, words: list[str], kind: str | None, before: str | None, limit: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._call("search", words, kind, before, limit)
        return found

    async def forget(self, entry: str) -> bool:
        return bool(await self._call("forget", entry))

    async def forget_all(self, dry_run: bool) -> int:
        return int(await self._call("forget_all", dry_run))

    async def export(self, before: str | None, limit: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._call("export", before, limit)
        return found

    async def import_lines(self, raw: bytes) -> dict[str, int]:
        """`{"imported", "existed", "expired"}`. Raises BadLines, and then nothing was imported, else as `keep`."""
        plan = await self._call("import_plan", raw)
        if plan["bad"]:
            raise BadLines(plan["bad"])
        answer = await self._charged("import_lines", plan["tokens"], raw, plan["tokens"])
        return {key: answer[key] for key in ("imported", "existed", "expired")}


def _told(answer: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = answer["entry"]
    return _with_similar(entry | ({"duplicate_of": entry["id"]} if answer["existed"] else {}), answer)


def _with_similar(entry: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    return entry | ({"similar": answer["similar"]} if answer["similar"] else {})


class ToolsMemory:
    """The same memory for the loop and its tools: what goes wrong is sorted into the three kinds of tool failure."""

    def __init__(self, memory: CallersMemory) -> None:
        self._memory = memory

    async def recall(self, query: str) -> dict[str, Any]:
        with broken("memory"):
            return await self._memory.recall(query)

    async def keep(self, kind: str, text: str, source: dict[str, str]) -> dict[str, Any]:
        try:
            with broken("memory", but=(InvalidEntry, MemoryFull, EntryConflict)):
                return await self._memory.keep(kind, text, source)
        except InvalidEntry as error:
            raise ModelShouldRetry(str(error)) from None
        except (MemoryFull, EntryConflict):
            raise ModelShouldKnow("The person's memory is full; they must forget something first.") from None
        except BudgetExhausted:
            raise ModelShouldKnow("The person's token budget of today does not suffice; nothing was kept.") from None

    async def forget(self, entry: str) -> bool:
        with broken("memory"):
            return await self._memory.forget(entry)
