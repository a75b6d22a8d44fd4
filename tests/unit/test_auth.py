"""One place for a credential, one reading of it, and a bound on guessing."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from starlette.requests import Request

from configs.settings import Limits
from deployments.ledger.keys import KeyRing
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
        pytest.param([("Cookie", f"Authorization=Bearer {GOOD}")], id="K01-cookie-named-so"),
        pytest.param([("Proxy-Authorization", f"Bearer {GOOD}")], id="K01-proxy"),
        pytest.param([("Authorization", "Bearer ")], id="K01-bearer-and-a-space"),
        pytest.param([("Authorization", GOOD)], id="K01-no-scheme"),
        pytest.param([("Authorization", f"Bearer  {GOOD}")], id="K01-two-spaces"),
        pytest.param([("Authorization", f"Bearer\t{GOOD}")], id="K01-tab"),
        pytest.param([("Authorization", f"Bearer {GOOD}"), ("Authorization", "Basic x")], id="K01-two-kinds"),
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


async def test_a_key_in_the_query_is_no_credential() -> None:
    """K01."""
    keys = OneKey()
    asked = Request(
        {"type": "http", "headers": [], "client": ("127.0.0.1", 1), "query_string": f"api_key={GOOD}".encode()}
    )
    assert await refused(resolver(keys), asked) == 401 and keys.asked == []


async def test_headers_that_name_somebody_else_change_nothing() -> None:
    """K07."""
    claims = [
        ("x-user-id", "bob"),
        ("x-forwarded-user", "bob"),
        ("openai-organization", "bob"),
        ("x-api-key", "rs_bob"),
    ]
    assert await resolver(OneKey()).caller(request(("Authorization", f"Bearer {GOOD}"), *claims)) is ANA


async def test_keys_alike_at_their_beginning_are_two() -> None:
    """K06: nothing shorter than the whole key decides."""
    keys = OneKey()
    guarded = resolver(keys)
    assert await guarded.caller(request(("Authorization", f"Bearer {GOOD}"))) is ANA
    for other in (GOOD[:-1] + "b", GOOD[:-1], GOOD + "a", GOOD.upper().replace("RS_", "rs_")):
        assert await refused(guarded, request(("Authorization", f"Bearer {other}"))) == 401
        assert keys.asked[-1] == other


class Rows:
    """A ledger in which no key is found; remembers the digests that were looked up."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def row(self, query: str, *values: Any) -> None:
        self.asked.append(values)


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param("'" + "a" * 42, id="K02-quote"),
        pytest.param('"' + "a" * 42, id="K02-double-quote"),
        pytest.param("%" * 43, id="K02-percent"),
        pytest.param("a';--" + "a" * 38, id="K02-sql"),
        pytest.param("\x00" + "a" * 42, id="K02-nul"),
        pytest.param("a" * 43 + "\n", id="K02-newline"),
        pytest.param("a" * 5000, id="K02-5-KB"),
        pytest.param("", id="K02-prefix-alone"),
    ],
)
async def test_what_is_no_key_by_its_form_never_reaches_the_database(tail: str) -> None:
    rows = Rows()
    guarded = Resolver(KeyRing(rows, Limits()), None, 1000)  # type: ignore[arg-type]
    assert await refused(guarded, request(("Authorization", f"Bearer rs_{tail}"))) == 401
    assert rows.asked == []


async def test_a_key_is_looked_up_by_the_digest_of_the_whole() -> None:
    """K03, K06."""
    rows = Rows()
    guarded = Resolver(KeyRing(rows, Limits()), None, 1000)  # type: ignore[arg-type]
    others = [GOOD, GOOD[:-1] + "b", "rs_" + "_" * 43]
    for one in others:
        assert await refused(guarded, request(("Authorization", f"Bearer {one}"))) == 401
    assert rows.asked == [(hashlib.sha256(one.encode()).digest(),) for one in others]


async def test_without_an_issuer_a_jwt_is_nobody() -> None:
    """J15."""
    keys = OneKey()
    assert await refused(resolver(keys), request(("Authorization", "Bearer eyJ.eyJ.x"))) == 401 and keys.asked == []


async def test_a_refusal_says_what_to_send_and_not_what_was_sent() -> None:
    with pytest.raises(ApiError) as error:
        await resolver(OneKey()).caller(request(("Authorization", "Bearer rs_secret")))
    assert "Bearer rs_…" in error.value.message and "secret" not in error.value.message
    assert error.value.headers()["WWW-Authenticate"] == "Bearer"


async def test_who_guesses_too_often_is_told_when_to_come_back() -> None:
    """K04."""
    guarded = resolver(OneKey(), failures=1)
    assert await refused(guarded, request()) == 401
    with pytest.raises(ApiError) as error:
        await guarded.caller(request())
    assert error.value.status == 429 and error.value.headers()["Retry-After"] == "60"
