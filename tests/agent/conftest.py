"""The stage of a turn: real ledger, real memory service with the real embedding model, real tools, one caller.

Only Ray is left out: the services are called in this process, with the tokens they verify.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from configs import loader
from configs.settings import ALL_RIGHTS, Agent, Bounds, Limits, Right, Settings
from configs.settings import Database as DatabaseSettings
from deployments import replica
from deployments.agent.account import Account
from deployments.agent.as_caller import CallersMemory, ToolsMemory
from deployments.agent.callers_services import CallersAllowance, CallersPlatform, CallersSandbox, CallersWeb
from deployments.agent.events import Ended, Event, Stepped, Text
from deployments.agent.loop import Turn
from deployments.agent.world import TurnRequest, World
from deployments.embedding import Embedding
from deployments.handles import ServiceHandle
from deployments.identity import Audience, Signer, Verifier, make_keys
from deployments.ledger.budget import Budgets
from deployments.ledger.database import LedgerDatabase
from deployments.ledger.records import Generation, Records
from deployments.ledger.turns import Turns
from deployments.memory import MemoryService
from memory_store.embedded import EmbeddedPostgres
from serve.models import models
from tests.agent.scripted import ScriptedTier
from tests.conftest import PASSWORDS, Database, cloned
from tools.caller import Caller
from tools.step import Step
from tools.table import TABLE
from tools.tool import Tool

PROFILE = Path(__file__).parents[2] / "configs" / "local.yaml"
LASTS = timedelta(minutes=1)
REVIEWER = Agent(
    name="reviewer",
    description="Reviews code.",
    tier="deep",
    remembers=True,
    tools=["platform_status", "list_models", "remember", "forget"],
    bounds=Bounds(tool_calls=4, result_chars=300),
    brief="You review code.",
)


class InProcess:
    """What `ServiceHandle` and `EmbeddingHandle` take, over a deployment of this process. `before` runs before each call."""

    def __init__(self, deployment: Any) -> None:
        self._deployment = deployment
        self.calls: list[str] = []
        self.before: Callable[[str], Awaitable[None]] | None = None

    def __getattr__(self, method: str) -> Any:
        async def remote(*arguments: Any) -> Any:
            self.calls.append(method)
            await asyncio.sleep(0)  # a handle never answers at once
            if self.before:
                await self.before(method)
            return await getattr(self._deployment, method)(*arguments)

        return SimpleNamespace(remote=remote)


class SmallPlatform:
    """A platform of one tier, for callers that bring a token."""

    def __init__(self, secrets: Path) -> None:
        self._verifier = Verifier("caller", secrets, "platform")

    async def snapshot(self, token: str) -> dict[str, Any]:
        self._verifier.verify(token)
        tier = {"name": "deep", "kind": "chat", "health": "healthy", "replicas": 1, "target": 1, "ongoing": 0}
        return {"healthy": True, "tiers": [tier]}


@dataclass
class Played:
    """A turn and what it told so far."""

    tier: ScriptedTier
    turn: Turn
    record: Generation
    events: list[Event] = field(default_factory=list)

    async def run(self) -> Played:
        await self.turn.run()
        return self

    async def leave(self, task: asyncio.Task[Played]) -> None:
        """The client goes away."""
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, Text))

    @property
    def ended(self) -> Ended:
        ended = self.events[-1]
        assert isinstance(ended, Ended)
        return ended

    @property
    def steps(self) -> list[Step]:
        return [event.step for event in self.events if isinstance(event, Stepped)]

    @property
    def results(self) -> list[tuple[str | None, str, str | None]]:
        """Tool, status and result of the tool calls that ended, in the order of the calls."""
        ended = [step for step in self.steps if step.kind == "tool" and step.status != "started"]
        return [(step.tool, step.status, step.result) for step in sorted(ended, key=lambda step: step.index)]


class Stage:
    """Puts callers before scripted tiers."""

    def __init__(
        self, database: Database, ledger: LedgerDatabase, settings: Settings, memory: InProcess, platform: InProcess
    ) -> None:
        assert settings.data.home is not None
        self.database, self.settings, self.memory, self.platform = database, settings, memory, platform
        self.sandbox: InProcess | None = None
        self.web: InProcess | None = None
        self.tools: Mapping[str, Tool] = TABLE
        self.budgets, self.turns, self.records = Budgets(ledger), Turns(ledger), Records(ledger, b"k" * 32)
        self._signer = Signer("caller", settings.data.home / "secrets")

    def caller(self, subject: str = "key|ana", rights: Sequence[Right] = ALL_RIGHTS, **limits: int) -> Caller:
        return Caller(subject, frozenset(rights), Limits(**limits))

    def turn(
        self,
        tier: ScriptedTier,
        said: str | list[dict[str, str]] = "Hello",
        agent: Agent | None = REVIEWER,
        caller: Caller | None = None,
        **request: Any,
    ) -> Played:
        """A turn that is about to begin; `said` is the person's text or the whole conversation."""
        caller = caller or self.caller()
        messages = [{"role": "user", "content": said}] if isinstance(said, str) else said
        record = Generation(caller.subject, tier.name, tier.model, agent.name if agent else None)
        asked = TurnRequest(messages, agent=agent, **request)
        events: list[Event] = []
        return Played(tier, Turn(asked, self._world(tier, caller, record), record, events.append), record, events)

    async def play(self, *arguments: Any, **keywords: Any) -> Played:
        return await self.turn(*arguments, **keywords).run()

    async def keep(self, text: str, subject: str = "key|ana") -> str:
        """The id of an entry kept by the person."""
        account = Account(self.budgets, subject, 10**9, LASTS)
        memory = self._memory(self.caller(subject), account, None)
        entry = await memory.keep("fact", text, {"by": "person", "ref": "test"})
        return str(entry["id"])

    async def entries(self, subject: str = "key|ana") -> set[str]:
        rows = await self.database.rows("select text from memory.entries where subject = $1", subject)
        return {row["text"] for row in rows}

    async def spent(self, subject: str = "key|ana") -> tuple[int, int]:
        """Tokens used and reserved today."""
        usage = await self.budgets.usage(subject, 10**9)
        return usage.used, usage.reserved

    async def generation(self, played: Played) -> dict[str, Any]:
        (row,) = await self.database.rows("select * from ledger.generations where id = $1", played.record.id)
        return dict(row)

    async def tool_calls(self, played: Played) -> list[tuple[str, str]]:
        """Tool and status of what the audit log has of a turn, sorted."""
        rows = await self.database.rows(
            "select tool, status from ledger.tool_calls where generation = $1", played.record.id
        )
        return sorted((row["tool"], row["status"]) for row in rows)

    def _world(self, tier: ScriptedTier, caller: Caller, record: Generation) -> World:
        account, mint = (
            Account(self.budgets, caller.subject, caller.limits.tokens_per_day, LASTS),
            self._mint(caller, record),
        )
        return World(
            caller,
            tier,
            ToolsMemory(self._memory(caller, account, record)),
            CallersPlatform(ServiceHandle(self.platform), mint, models(self.settings)),
            account,
            self.turns,
            LASTS,
            self.records,
            self.tools,
            CallersSandbox(ServiceHandle(self.sandbox), mint) if self.sandbox else None,
            CallersWeb(ServiceHandle(self.web), mint) if self.web else None,
            CallersAllowance(self.budgets, caller.subject, caller.limits, LASTS),
        )

    def _memory(self, caller: Caller, account: Account, record: Generation | None) -> CallersMemory:
        service, window = ServiceHandle(self.memory), self.settings.memory.query_tokens
        return CallersMemory(service, self._mint(caller, record), account, record, window)

    def _mint(self, caller: Caller, record: Generation | None) -> Callable[[Audience], str]:
        generation = record.id if record else ""
        return lambda audience: self._signer.mint(caller.subject, caller.rights, audience, generation, 30)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the keys and passwords that services read."""
    folder = tmp_path_factory.mktemp("home")
    secrets = folder / "secrets"
    secrets.mkdir()
    make_keys(secrets)
    (secrets / "episodes.key").write_bytes(b"e" * 32)
    (secrets / "recall_memory.password").write_text(PASSWORDS["recall_memory"])
    return folder


@pytest.fixture(scope="session")
def _without_ray() -> Iterator[None]:
    """A deployment's constructor first prepares the replica it is in; here there is none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replica, "prepare", lambda: None)
        yield


@pytest.fixture(scope="session")
def profile(home: Path) -> Settings:
    settings = loader.load(PROFILE)
    return settings.model_copy(update={"data": settings.data.model_copy(update={"home": home})})


@pytest.fixture(scope="session")
async def shared(
    postgres: EmbeddedPostgres, template: str, superuser: asyncpg.Connection[asyncpg.Record]
) -> AsyncIterator[Database]:
    """One database for all tests of the loop, emptied before each: pools and the memory service stay open."""
    async with cloned(postgres, template, superuser) as one:
        yield one


@pytest.fixture(scope="session")
async def memory_service(
    profile: Settings, home: Path, shared: Database, _without_ray: None
) -> AsyncIterator[MemoryService]:
    """The real one, over the local profile's embedding tier."""
    to = shared.connect("recall_memory")
    url = f"postgresql:///{shared.name}?host={to['host']}&port={to['port']}"
    settings = profile.model_copy(update={"database": DatabaseSettings(embedded=False, url=url)})
    service = object.__new__(MemoryService)
    await MemoryService.__init__(service, settings, InProcess(Embedding(profile.tiers.embed, home)))
    yield service
    await service._pool.close()


@pytest.fixture(scope="session")
async def shared_ledger(shared: Database) -> LedgerDatabase:
    return await shared.ledger()


@pytest.fixture
async def stage(
    shared: Database, shared_ledger: LedgerDatabase, profile: Settings, memory_service: MemoryService, home: Path
) -> Stage:
    await shared.empty()
    platform = SmallPlatform(home / "secrets")
    return Stage(shared, shared_ledger, profile, InProcess(memory_service), InProcess(platform))
