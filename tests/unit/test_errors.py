"""Every error of ours: it crosses a handle unchanged, has an answer, and shows nothing internal."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator

import pytest

import deployments.ledger.errors
import deployments.tiers.errors
import memory_store.errors
import tools.errors
from deployments.agent.errors import AgentError
from deployments.identity import IdentityRefused
from deployments.ledger.errors import LedgerError
from deployments.tiers.errors import TierError
from deployments.tiers.weights import WeightsError
from memory_store.embedded import EmbeddedPostgresError
from memory_store.errors import MemoryStoreError
from serve.errors import TABLE, ApiError, as_api_error
from tools.errors import ToolError

REACH_THE_EDGE = (AgentError, LedgerError, TierError, MemoryStoreError, ToolError, IdentityRefused)


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
    {kind for base in (*REACH_THE_EDGE, WeightsError, EmbeddedPostgresError, ApiError) for kind in family(base)},
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
    answer = as_api_error(RuntimeError("marker"))
    assert answer.status == 500 and "marker" not in str(answer.body())


@pytest.mark.parametrize(
    "module",
    [memory_store.errors, deployments.ledger.errors, deployments.tiers.errors, tools.errors],
    ids=lambda one: one.__name__,
)
def test_the_tree_at_the_top_names_every_class(module: object) -> None:
    drawn = inspect.getdoc(module) or ""
    for name, kind in vars(module).items():
        if isinstance(kind, type) and issubclass(kind, Exception):
            assert name in drawn
