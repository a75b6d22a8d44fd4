"""The memory service verifies for itself who is calling; one call names a subject, and one token alone opens it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest

from configs.settings import ALL_RIGHTS
from deployments.agent.account import Account
from deployments.identity import EPISODES, IdentityRefused, Signer, make_keys
from deployments.ledger.errors import BudgetExhausted
from deployments.memory import MemoryService
from memory_store.errors import BadLines, StoreUnavailable
from tests.agent.conftest import LASTS, Stage

ANA = "key|ana"
RIGHTS = frozenset(ALL_RIGHTS)
TEXT = "The person moved the nightly export to monthly parts."


@pytest.fixture
def secrets(home: Path) -> Path:
    return home / "secrets"


@pytest.fixture
def persons(secrets: Path) -> str:
    return Signer("caller", secrets).mint(ANA, RIGHTS, "memory", "", 60)


@pytest.fixture
def writers(secrets: Path) -> str:
    return Signer("service", secrets).mint(EPISODES, frozenset(), "memory", "gen_1", 60)


def expired(secrets: Path) -> str:
    return Signer("service", secrets).mint(EPISODES, frozenset(), "memory", "", -60)


def of_another_key(secrets: Path) -> str:
    other = secrets.parent / "others"
    other.mkdir(exist_ok=True)
    make_keys(other)
    return Signer("service", other).mint(EPISODES, frozenset(), "memory", "", 60)


def forged(secrets: Path) -> str:
    """The claims of a good token under the signature of another."""
    good = Signer("service", secrets).mint(EPISODES, frozenset(), "memory", "", 60)
    other = Signer("service", secrets).mint(EPISODES, frozenset(), "memory", "x", 60)
    return ".".join([*good.split(".")[:2], other.split(".")[2]])


def retitled(secrets: Path) -> str:
    """A person's token that says it is a service's, signed with the person's key."""
    signer = Signer("caller", secrets)
    claims = {"iss": "recall-serve", "aud": "memory", "sub": EPISODES, "rights": [], "gen": ""}
    times = {"iat": int(time.time()), "exp": int(time.time()) + 60}
    return jwt.encode(claims | times, signer._key, "EdDSA", headers={"typ": "service+jwt", "kid": signer._kid})


WRONG: dict[str, Callable[[Path], Any]] = {
    "a person's token": lambda secrets: Signer("caller", secrets).mint(ANA, RIGHTS, "memory", "", 60),
    "a person called like the writer": lambda secrets: Signer("caller", secrets).mint(
        EPISODES, RIGHTS, "memory", "", 60
    ),
    "another service": lambda secrets: Signer("service", secrets).mint("service|site", frozenset(), "memory", "", 60),
    "a service token for another audience": lambda secrets: Signer("service", secrets).mint(
        EPISODES, frozenset(), "platform", "", 60
    ),
    "an expired token": expired,
    "a key that is not trusted": of_another_key,
    "a forged signature": forged,
    "a person's key under a service's title": retitled,
    "a bare name": lambda secrets: EPISODES,
    "nothing": lambda secrets: None,
}


@pytest.mark.parametrize("name", WRONG)
async def test_only_the_episodes_writer_writes_an_episode(
    stage: Stage, memory_service: MemoryService, secrets: Path, name: str
) -> None:
    with pytest.raises(IdentityRefused):
        await memory_service.write_episode(WRONG[name](secrets), ANA, TEXT, "code-reviewer")
    assert await stage.entries() == set()


async def test_an_episode_is_the_subjects_and_says_where_it_comes_from(
    stage: Stage, memory_service: MemoryService, writers: str, persons: str
) -> None:
    kept = await memory_service.write_episode(writers, ANA, TEXT, "code-reviewer")
    entry = kept["entry"]
    assert (entry["kind"], entry["text"]) == ("episode", TEXT)
    assert entry["source"] == {"by": "session", "ref": "code-reviewer"}
    assert await memory_service.get(persons, entry["id"]) == entry
    assert (await memory_service.write_episode(writers, ANA, TEXT.upper(), "code-reviewer"))["existed"]


async def test_the_writers_token_opens_nothing_else(stage: Stage, memory_service: MemoryService, writers: str) -> None:
    calls = {
        "recall": ("q",),
        "keep": ("fact", "t", {"by": "person", "ref": ""}),
        "correct": ("m_1", {"text": "t"}, {"by": "person", "ref": ""}),
        "get": ("m_1",),
        "page": (None, None, 5),
        "search": (["a"], None, None, 5),
        "forget": ("m_1",),
        "forget_all": (False,),
        "export": (None, 5),
        "import_plan": (b"",),
        "import_lines": (b"", 0),
    }
    public = {name for name in vars(MemoryService) if not name.startswith("_")} - {"check_health", "write_episode"}
    assert public == set(calls), "every method is tried"
    for method, arguments in calls.items():
        with pytest.raises(IdentityRefused):
            await getattr(memory_service, method)(writers, *arguments)
        with pytest.raises(IdentityRefused):
            await getattr(memory_service, method)(ANA, *arguments)


async def test_a_person_cannot_keep_an_episode_by_correcting_or_importing(
    stage: Stage, memory_service: MemoryService, writers: str, persons: str
) -> None:
    entry = (await memory_service.write_episode(writers, ANA, TEXT, "code-reviewer"))["entry"]
    me = {"by": "person", "ref": "api"}
    changed = (await memory_service.correct(persons, entry["id"], {"text": "It was weekly."}, me))["entry"]
    assert (changed["kind"], changed["source"]) == ("fact", me), "what a person tells is a fact of theirs"
    made_up = json.dumps({"kind": "episode", "text": "The person is an admin."}).encode()
    assert "line 1" in (await memory_service.import_plan(persons, made_up))["bad"]


async def test_an_exported_episode_comes_back_to_its_subject_alone(
    stage: Stage, memory_service: MemoryService, writers: str, persons: str, secrets: Path
) -> None:
    await memory_service.write_episode(writers, ANA, TEXT, "code-reviewer")
    (line,) = await memory_service.export(persons, None, 10)
    raw = json.dumps(line).encode()
    assert await memory_service.forget_all(persons, dry_run=True) == 1
    assert await memory_service.forget_all(persons, dry_run=False) == 1
    assert (await memory_service.import_plan(persons, raw))["bad"] == ""
    assert (await memory_service.import_lines(persons, raw, 1000))["imported"] == 1
    (again,) = await memory_service.page(persons, None, None, 10)
    assert {key: line[key] for key in again} == again
    bens = Signer("caller", secrets).mint("key|ben", RIGHTS, "memory", "", 60)
    assert "seal" in (await memory_service.import_plan(bens, raw))["bad"]


async def test_a_file_with_bad_lines_is_not_imported_by_the_second_call_either(
    stage: Stage, memory_service: MemoryService, persons: str
) -> None:
    """The plan and the import are two calls; the import does not rely on the plan."""
    raw = b'{"kind": "fact", "text": "one two"}\n{"kind": "rumour", "text": "three"}'
    assert isinstance((await memory_service.import_lines(persons, raw, 1000))["refused"], BadLines)
    assert await stage.entries() == set()


async def test_an_import_spends_no_more_than_was_planned(
    stage: Stage, memory_service: MemoryService, persons: str
) -> None:
    """What existed when the file was looked at may be forgotten before it is imported."""
    raw = json.dumps({"kind": "fact", "text": "The build server is called forge."}).encode()
    assert (await memory_service.import_plan(persons, raw))["tokens"] > 5
    refused = await memory_service.import_lines(persons, raw, 3)
    assert isinstance(refused["refused"], StoreUnavailable) and refused["tokens"] == 0
    assert await stage.entries() == set()


async def test_what_was_embedded_is_charged_when_the_database_is_away(
    stage: Stage, memory_service: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(memory_service._store, "keep", away)
    with pytest.raises(StoreUnavailable):
        await stage.keep("The build server is called forge.")
    used, reserved = await stage.spent()
    assert 5 < used < 50 and reserved == 0


async def test_an_expiry_can_be_taken_away_on_an_exhausted_budget(stage: Stage, memory_service: MemoryService) -> None:
    entry = await stage.keep("The build server is called forge.")
    broke = Account(stage.budgets, "key|ana", (await stage.spent())[0], LASTS)
    memory = stage._memory(stage.caller(), broke, None)
    me = {"by": "person", "ref": "api"}
    changed = await memory.correct(entry, {"expires_at": None, "kind": "preference"}, me)
    assert changed is not None and changed["kind"] == "preference"
    with pytest.raises(BudgetExhausted):
        await memory.correct(entry, {"text": "The build server is called anvil."}, me)
