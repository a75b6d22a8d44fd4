"""One place for a credential, one reading of it, and a bound on guessing."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import Request

from configs.settings import Limits
from serve.auth import Resolver, require
from serve.errors import ApiError
from tools.caller import Caller

ANA = Caller("key|ana", frozenset({"chat"}), Limits())
GOOD = "rs_" + "a" * 43


class OneKey:
    """A key ring with one key; remembers what was looked up."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def find(self, secret: str) -> Caller | None:
        self.asked.append(secret)
        return ANA if secret == GOOD else None


class Never:
    """An issuer whose tokens nobody has."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def caller(self, token: str) -> Caller | None:
        self.asked.append(token)
        return None


def request(*headers: tuple[str, str], address: str = "127.0.0.1") -> Request:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    return Request({"type": "http", "headers": raw, "client": (address, 1), "query_string": b""})


def resolver(keys: OneKey, oidc: Any = None, failures: int = 1000) -> Resolver:
    return Resolver(keys, oidc, failures)  # type: ignore[arg-type]


async def refused(resolver: Resolver, one: Request) -> int:
    with pytest.raises(ApiError) as error:
        await resolver.caller(one)
    return error.value.status


async def test_a_good_key_is_its_caller() -> None:
    assert await resolver(OneKey()).caller(request(("Authorization", f"bearer {GOOD}"))) is ANA


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([], id="K01-none"),
        pytest.param([("Authorization", "")], id="K01-empty"),
        pytest.param([("Authorization", "Bearer")], id="K01-bearer-alone"),
        pytest.param([("Authorization", f"Basic {GOOD}")], id="K01-basic"),
        pytest.param([("Authorization", f"Bearer {GOOD}"), ("Authorization", f"Bearer {GOOD}")], id="K01-two"),
        pytest.param([("x-api-key", GOOD)], id="K01-x-api-key"),
        pytest.param([("Cookie", f"key={GOOD}")], id="K01-cookie"),
        pytest.param([("Authorization", f"Bearer {GOOD} x")], id="K02-space"),
        pytest.param([("Authorization", f"Bearer {GOOD}\xe9")], id="K02-not-ascii"),
        pytest.param([("Authorization", "Bearer rs_" + "a" * 65_000)], id="K02-64-KB"),
    ],
)
async def test_what_is_no_single_bearer_is_not_even_looked_up(headers: list[tuple[str, str]]) -> None:
    keys = OneKey()
    assert await refused(resolver(keys), request(*headers)) == 401
    assert keys.asked == []


async def test_a_credential_is_of_one_kind_and_gets_no_second_chance() -> None:
    """J15."""
    keys, oidc = OneKey(), Never()
    both = resolver(keys, oidc)
    assert await refused(both, request(("Authorization", "Bearer rs_a.b.c"))) == 401
    assert await refused(both, request(("Authorization", "Bearer a.b.c"))) == 401
    assert (keys.asked, oidc.asked) == (["rs_a.b.c"], ["a.b.c"])


async def test_guesses_are_bounded_and_a_valid_key_is_not_affected() -> None:
    """K04: per address."""
    guarded = resolver(OneKey(), failures=3)
    wrong = ("Authorization", "Bearer rs_wrong")
    statuses = [await refused(guarded, request(wrong)) for _ in range(5)]
    assert statuses == [401, 401, 401, 429, 429]
    assert await guarded.caller(request(("Authorization", f"Bearer {GOOD}"))) is ANA
    assert await refused(guarded, request(wrong, address="127.0.0.2")) == 401


def test_a_missing_right_is_named() -> None:
    require(ANA, "chat")
    with pytest.raises(ApiError) as error:
        require(ANA, "admin")
    assert error.value.status == 403 and "'admin'" in error.value.message
