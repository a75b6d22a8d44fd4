"""Identity tokens: each service takes only what was made for it."""

from __future__ import annotations

import base64
import hmac
import json
import stat
import time
from pathlib import Path
from typing import Any

import jwt
import pytest

from deployments.identity import Identity, IdentityRefused, Signer, Verifier, make_keys

RIGHTS = frozenset({"chat", "memory"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secrets")
    make_keys(folder)
    return folder


@pytest.fixture
def good(folder: Path) -> str:
    return Signer("caller", folder).mint("key|ana", RIGHTS, "memory", "gen_1", 60)


def verified(folder: Path, token: object) -> Identity:
    return Verifier("caller", folder, "memory").verify(token)


def resigned(folder: Path, good: str, headers: dict[str, Any] | None = None, **claims: Any) -> str:
    """The good token with other claims or headers, signed with the true key."""
    signer = Signer("caller", folder)
    body = jwt.decode(good, options={"verify_signature": False}) | claims
    body = {key: value for key, value in body.items() if value is not None}
    return jwt.encode(body, signer._key, "EdDSA", headers={"typ": "caller+jwt", "kid": signer._kid} | (headers or {}))


def test_a_good_token_says_who_it_is(folder: Path, good: str) -> None:
    assert verified(folder, good) == Identity("key|ana", RIGHTS, "gen_1")
    assert verified(folder, resigned(folder, good)).subject == "key|ana", "the helper below makes good tokens too"


@pytest.mark.parametrize("token", ["key|ana", "", None, 5, b"x", {"sub": "key|ana"}, "a.b.c"], ids=str)
def test_a_bare_subject_or_rubbish_is_refused(folder: Path, token: object) -> None:
    with pytest.raises(IdentityRefused):
        verified(folder, token)


@pytest.mark.parametrize(
    "change",
    [
        {"aud": "platform"}, {"aud": ["memory", "platform"]}, {"aud": ["memory"]}, {"aud": "memor"},
        {"aud": None}, {"iss": "other"}, {"iss": None},
        {"exp": int(time.time()) - 1}, {"exp": None}, {"iat": None}, {"iat": int(time.time()) + 86_400}, {"sub": ""},
        {"sub": None}, {"sub": 5}, {"sub": ["key|ana"]},
        {"rights": ["everything"]}, {"rights": "chat"}, {"rights": [["chat"]]}, {"rights": None}, {"gen": None},
        {"headers": {"typ": "service+jwt"}}, {"headers": {"typ": "JWT"}}, {"headers": {"kid": "0" * 16}},
        {"nbf": int(time.time()) + 86_400}, {"exp": float("inf")}, {"headers": {"crit": ["x"], "x": 1}},
    ],
    ids=str,
)  # fmt: skip
def test_one_thing_wrong_is_enough(folder: Path, good: str, change: dict[str, Any]) -> None:
    with pytest.raises(IdentityRefused):
        verified(folder, resigned(folder, good, **change))


def test_a_forged_signature_is_refused(folder: Path, good: str, tmp_path: Path) -> None:
    make_keys(tmp_path)
    forged = Signer("caller", tmp_path).mint("key|ana", RIGHTS, "memory", "gen_1", 60)
    kid = jwt.get_unverified_header(good)["kid"]
    body = jwt.decode(forged, options={"verify_signature": False})
    same_kid = jwt.encode(body, Signer("caller", tmp_path)._key, "EdDSA", headers={"typ": "caller+jwt", "kid": kid})
    for token in (forged, same_kid, good[:-4] + "AAAA"):
        with pytest.raises(IdentityRefused):
            verified(folder, token)


def test_a_service_cannot_speak_as_a_caller(folder: Path) -> None:
    token = Signer("service", folder).mint("key|ana", RIGHTS, "memory", "", 60)
    with pytest.raises(IdentityRefused):
        verified(folder, token)
    assert Verifier("service", folder, "memory").verify(token).subject == "key|ana"


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ["none", "nOnE", "HS256", "HS512"])
def test_no_other_algorithm_is_taken(folder: Path, good: str, algorithm: str) -> None:
    """J01, J02: unsigned, and signed with the public key as secret."""
    header = encoded(json.dumps(jwt.get_unverified_header(good) | {"alg": algorithm}).encode())
    said = f"{header}.{good.split('.')[1]}"
    public = (folder / "caller.pub").read_bytes()
    digest = "sha512" if algorithm == "HS512" else "sha256"
    signatures = {"", encoded(hmac.digest(public, said.encode(), digest)), good.split(".")[2]}
    for signature in signatures:
        with pytest.raises(IdentityRefused):
            verified(folder, f"{said}.{signature}")


def test_a_header_nested_too_deeply_is_refused(folder: Path) -> None:
    with pytest.raises(IdentityRefused):
        verified(folder, f"{encoded(b'[' * 100_000)}.{encoded(b'{}')}.x")


def test_a_token_ends_with_its_turn_and_half_a_minute(folder: Path) -> None:
    signer = Signer("caller", folder)
    claims = jwt.decode(signer.mint("key|ana", RIGHTS, "memory", "", 60), options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == 90
    with pytest.raises(IdentityRefused):
        verified(folder, signer.mint("key|ana", RIGHTS, "memory", "", -31))


@pytest.mark.parametrize("audience", ["sandbox", "web", "platform", "gateway"])
def test_a_token_is_for_one_service(folder: Path, audience: Any) -> None:
    token = Signer("caller", folder).mint("key|ana", RIGHTS, audience, "", 60)
    with pytest.raises(IdentityRefused):
        verified(folder, token)
    assert Verifier("caller", folder, audience).verify(token).subject == "key|ana"


def test_a_refusal_says_nothing_of_the_token(folder: Path, good: str) -> None:
    with pytest.raises(IdentityRefused) as refused:
        verified(folder, good[:-4] + "AAAA")
    assert refused.value.args == ("identity_refused",) and refused.value.__suppress_context__


def test_private_halves_are_closed_and_kept(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    make_keys(folder)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}
    for role in ("caller", "service"):
        assert stat.S_IMODE((folder / f"{role}.key").stat().st_mode) == 0o600
        assert b"PRIVATE" not in (folder / f"{role}.pub").read_bytes()
