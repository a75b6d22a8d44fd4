"""Every error of ours: it crosses a handle unchanged, has an answer, and shows nothing internal."""

from __future__ import annotations

import ast
import builtins
import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import deployments.agent.episode.errors
import deployments.agent.errors
import deployments.ledger.errors
import deployments.sandbox.errors
import deployments.tiers.errors
import deployments.web.errors
import memory_store.embedded.errors
import memory_store.errors
import tools.errors
from deployments.agent.errors import AgentError, ContextLengthExceeded
from deployments.identity import IdentityRefused
from deployments.ledger.errors import BudgetExhausted, LedgerError, TooManyRequests, TooManyTurns
from deployments.sandbox.errors import SandboxError
from deployments.tiers.errors import Overloaded, TierError
from deployments.tiers.weights import WeightsError
from deployments.web.errors import WebError
from memory_store.embedded import EmbeddedPostgresError
from memory_store.errors import MemoryStoreError
from serve.errors import TABLE, ApiError, as_api_error
from tools.errors import ToolError

REACH_THE_EDGE = (AgentError, LedgerError, TierError, MemoryStoreError, ToolError, IdentityRefused)

IN_THEIR_SERVICE = (SandboxError, WebError)  # told as values


def family(base: type[BaseException]) -> Iterator[type[BaseException]]:
    yield base
    for child in base.__subclasses__():
        yield from family(child)


def made(kind: type[BaseException]) -> BaseException:
    """An instance with a marker wherever a text fits."""
    if kind.__init__ in (Exception.__init__, BaseException.__init__):
        return kind("marker")
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    wanted = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return kind(*(7 if "int" in str(one.annotation) or "float" in str(one.annotation) else "marker" for one in wanted))


EVERY = sorted(
    {
        kind
        for base in (*REACH_THE_EDGE, WeightsError, EmbeddedPostgresError, ApiError, *IN_THEIR_SERVICE)
        for kind in family(base)
    },
    key=lambda kind: f"{kind.__module__}.{kind.__qualname__}",
)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__qualname__)
def test_it_survives_pickling(kind: type[BaseException]) -> None:
    error = made(kind)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind and again.args == error.args and str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.parametrize(
    "kind", [one for one in EVERY if issubclass(one, REACH_THE_EDGE)], ids=lambda kind: kind.__qualname__
)
def test_it_has_an_answer(kind: type[BaseException]) -> None:
    assert any(parent in TABLE for parent in kind.__mro__)
    answer = as_api_error(made(kind))
    body = answer.body()["error"]
    assert set(body) == {"message", "type", "param", "code"}
    if answer.status >= 500:
        assert "marker" not in str(body)
    if answer.status in (429, 503):
        assert int(answer.headers()["Retry-After"]) >= 1


def test_a_stranger_is_a_500_without_detail() -> None:
    """A KeyError or an OSError holds a name or a path of ours."""
    for stranger in (
        RuntimeError("marker"),
        KeyError("marker"),
        OSError(2, "marker"),
        ExceptionGroup("marker", [ValueError()]),
    ):
        answer = as_api_error(stranger)
        assert answer.status == 500 and "marker" not in str(answer.body())


STAY_AT_HOME = {"ConfigError", "Mistake", "NotReady", "StartFailed", "_Fault"}  # a command's own, and a walk's
ROOT = Path(__file__).parents[2]


def test_no_error_class_is_left_out_here() -> None:
    known = {kind.__name__ for kind in EVERY} | STAY_AT_HOME
    parents = known | {name for name, kind in vars(builtins).items() if isinstance(kind, type)}
    for package in ("configs", "memory_store", "tools", "deployments", "serve"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                bases = {ast.unparse(base).split(".")[-1] for base in getattr(node, "bases", [])}
                if isinstance(node, ast.ClassDef) and bases & {one for one in parents if is_error(one)}:
                    assert node.name in known, f"{path}: {node.name}"


def is_error(name: str) -> bool:
    kind = getattr(builtins, name, None)
    return kind is None or issubclass(kind, BaseException)


@pytest.mark.parametrize(
    ("error", "retry_after"),
    [
        pytest.param(BudgetExhausted("tokens", 100, 7, 50, 3600), "3600", id="G11-budget"),
        pytest.param(TooManyRequests(5, 12), "12", id="requests"),
        pytest.param(TooManyTurns(4), "1", id="turns"),
        pytest.param(Overloaded("overloaded"), "2", id="overloaded"),
        pytest.param(ApiError(429, "x", "x", None, 0.2), "1", id="less-than-a-second"),
        pytest.param(ApiError(429, "x", "x", None, 1.2), "2", id="rounded-up"),
    ],
)
def test_who_must_wait_is_told_how_long(error: Exception, retry_after: str) -> None:
    answer = as_api_error(error)
    assert answer.status == 429 and answer.headers()["Retry-After"] == retry_after


def test_a_spent_budget_is_told_in_numbers() -> None:
    """G11."""
    message = as_api_error(BudgetExhausted("tokens", 100, 7, 50, 3600)).message
    assert all(word in message for word in ("50 tokens", "7 of today's 100", "3600 s"))


def test_a_prompt_over_the_window_is_told_both_numbers() -> None:
    answer = as_api_error(ContextLengthExceeded(5000, 4096))
    assert (answer.status, answer.code) == (400, "context_length_exceeded")
    assert "5000" in answer.message and "4096" in answer.message


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"), (401, "authentication_error"), (403, "permission_error"), (404, "not_found_error"),
        (409, "invalid_request_error"), (413, "invalid_request_error"), (429, "rate_limit_error"), (500, "server_error"),
        (503, "server_error"), (504, "server_error"),
    ],
)  # fmt: skip
def test_every_status_has_openais_type(status: int, kind: str) -> None:
    answer = ApiError(status, "code", "Do this next.", "param")
    assert answer.body() == {"error": {"message": "Do this next.", "type": kind, "param": "param", "code": "code"}}
    assert ("WWW-Authenticate" in answer.headers()) == (status == 401)


@pytest.mark.parametrize(
    "module",
    [
        memory_store.errors,
        memory_store.embedded.errors,
        deployments.agent.errors,
        deployments.ledger.errors,
        deployments.sandbox.errors,
        deployments.tiers.errors,
        deployments.web.errors,
        tools.errors,
    ],
    ids=lambda one: one.__name__,
)
def test_the_tree_at_the_top_names_every_class(module: object) -> None:
    drawn = inspect.getdoc(module) or ""
    for name, kind in vars(module).items():
        if isinstance(kind, type) and issubclass(kind, Exception):
            assert name in drawn
