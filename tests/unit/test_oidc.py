"""JWTs of an issuer: entirely in order, or nobody."""

from __future__ import annotations

import hmac
import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from configs.settings import Limits, Oidc
from serve.oidc import OidcVerifier

KEYS: dict[str, Any] = {
    "RS256": rsa.generate_private_key(65537, 2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": Ed25519PrivateKey.generate(),
}


def jwks(names: list[str]) -> str:
    keys = []
    for name in names:
        algorithm = jwt.get_algorithm_by_name(name)
        keys.append({**json.loads(algorithm.to_jwk(KEYS[name].public_key())), "kid": name, "alg": name})
    return json.dumps({"keys": keys})


@pytest.fixture
def verifier(tmp_path: Path) -> OidcVerifier:
    (tmp_path / "jwks.json").write_text(jwks(list(KEYS)))
    settings = Oidc(
        issuer="https://issuer.example", audience="recall", jwks=tmp_path / "jwks.json", algorithms=["RS256", "ES256", "EdDSA"],
        default_rights=["chat"],
    )  # fmt: skip
    return OidcVerifier(settings, Limits())


def token(algorithm: str = "EdDSA", key: Any = None, headers: dict[str, Any] | None = None, **claims: Any) -> str:
    now = int(time.time())
    body = {"iss": "https://issuer.example", "aud": "recall", "sub": "ana", "iat": now, "exp": now + 600} | claims
    body = {name: value for name, value in body.items() if value is not None}
    return jwt.encode(
        body, KEYS[algorithm] if key is None else key, algorithm, headers={"kid": algorithm} | (headers or {})
    )


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_good_token_is_its_subject_with_default_rights_and_limits(verifier: OidcVerifier, algorithm: str) -> None:
    caller = verifier.caller(token(algorithm))
    assert caller is not None and caller.subject == "https://issuer.example|ana"
    assert caller.rights == {"chat"} and caller.limits == Limits()


def test_rights_and_limits_come_from_their_claims(verifier: OidcVerifier) -> None:
    caller = verifier.caller(token(recall_rights=["memory"], recall_limits={"tokens_per_day": 5}))
    assert caller is not None and caller.rights == {"memory"} and caller.limits.tokens_per_day == 5


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"exp": 1}, id="J03-expired"),
        pytest.param({"nbf": int(time.time()) + 86_400}, id="J03-not-yet"),
        pytest.param({"iat": int(time.time()) + 86_400}, id="J03-issued-later"),
        pytest.param({"exp": None}, id="J03-no-exp"),
        pytest.param({"iat": None}, id="J03-no-iat"),
        pytest.param({"exp": "later"}, id="J03-exp-a-text"),
        pytest.param({"exp": float("inf")}, id="J03-exp-without-end"),
        pytest.param({"sub": None}, id="J03-no-sub"),
        pytest.param({"aud": None}, id="J03-no-aud"),
        pytest.param({"iss": None}, id="J03-no-iss"),
        pytest.param({"aud": "recall-other"}, id="J05-prefix"),
        pytest.param({"aud": ["recall", "other"]}, id="J05-list"),
        pytest.param({"aud": ["recall"]}, id="J05-list-of-ours-alone"),
        pytest.param({"aud": "recal"}, id="J05-part"),
        pytest.param({"iss": "https://issuer.example/"}, id="J06-slash"),
        pytest.param({"iss": "https://other.example"}, id="J06-other"),
        pytest.param({"iss": "issuer.example"}, id="J06-part"),
        pytest.param({"sub": ""}, id="J07-empty"),
        pytest.param({"sub": "a\x00b"}, id="J07-nul"),
        pytest.param({"sub": 5}, id="J07-int"),
        pytest.param({"sub": ["ana"]}, id="J07-list"),
        pytest.param({"sub": "a" * 10_000}, id="J07-10-KB"),
        pytest.param({"sub": "\ud800"}, id="J07-surrogate"),
        pytest.param({"headers": {"kid": "unknown"}}, id="J09-unknown"),
        pytest.param({"headers": {"kid": "../../etc/passwd"}}, id="J09-path"),
        pytest.param({"headers": {"kid": "x' or 1=1"}}, id="J09-sql"),
        pytest.param({"headers": {"kid": "k" * 1024}}, id="J09-1-KB"),
        pytest.param({"headers": {"kid": "RS256"}}, id="J12-other-keys-algorithm"),
        pytest.param({"headers": {"crit": ["x"], "x": 1}}, id="J11-crit"),
        pytest.param({"exp": int(time.time()) + 10**7}, id="too-long-a-life"),
        pytest.param({"recall_rights": ["root"]}, id="unknown-right"),
        pytest.param({"recall_rights": "admin"}, id="rights-not-a-list"),
        pytest.param({"recall_rights": [["chat"]]}, id="rights-nested"),
        pytest.param({"recall_limits": [["tokens_per_day", 1]]}, id="limits-not-an-object"),
        pytest.param({"recall_limits": {"tokens_per_day": True}}, id="limit-true"),
        pytest.param({"recall_limits": {"tokens_per_day": -1}}, id="limit-below-0"),
        pytest.param({"recall_limits": {"unknown": 1}}, id="unknown-limit"),
        pytest.param({"recall_limits": {"tokens_per_day": "9"}}, id="limit-no-number"),
    ],
)
def test_one_thing_wrong_is_nobody(verifier: OidcVerifier, change: dict[str, Any]) -> None:
    assert verifier.caller(token(**change)) is None


def test_no_algorithm_but_those_pinned(verifier: OidcVerifier, tmp_path: Path) -> None:
    """J01, J02: none, and HS256 with the public key as secret."""
    public = KEYS["RS256"].public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )  # fmt: skip
    for none in ("none", "nOnE"):
        header = jwt.utils.base64url_encode(json.dumps({"alg": none, "kid": "EdDSA"}).encode()).decode()
        assert verifier.caller(f"{header}.{token().split('.')[1]}.") is None
    body = jwt.decode(token(), options={"verify_signature": False})
    for kid in KEYS:
        parts = [jwt.utils.base64url_encode(json.dumps(one).encode()) for one in ({"alg": "HS256", "kid": kid}, body)]
        signature = jwt.utils.base64url_encode(hmac.digest(public, b".".join(parts), "sha256"))
        assert verifier.caller(b".".join([*parts, signature]).decode()) is None


def test_an_embedded_key_is_not_used(verifier: OidcVerifier) -> None:
    """J10."""
    mine = Ed25519PrivateKey.generate()
    own = json.loads(jwt.get_algorithm_by_name("EdDSA").to_jwk(mine.public_key()))
    for header in ({"jwk": own}, {"jku": "http://127.0.0.1:1/x"}, {"x5u": "http://127.0.0.1:1/x"}, {"x5c": ["MIIB"]}):
        assert verifier.caller(token(key=mine, headers=header)) is None
        assert verifier.caller(token(headers=header)) is not None, "ignored, so a good token stays good"


def test_a_claim_that_stands_twice_is_nobody(verifier: OidcVerifier) -> None:
    """J08."""
    now = int(time.time())
    for inner in ('"sub":"bob"', '"iat":1', '"recall_limits":{"tokens_per_day":1,"tokens_per_day":9}'):
        body = f'{{"iss":"https://issuer.example","aud":"recall","sub":"ana","iat":{now},"exp":{now + 60},{inner}}}'
        made = jwt.api_jws.encode(body.encode(), KEYS["EdDSA"], "EdDSA", headers={"kid": "EdDSA"})
        assert verifier.caller(made) is None


def signed(header: dict[str, Any], **claims: Any) -> str:
    """A token as no library would write it, with a good signature."""
    body = jwt.decode(token(), options={"verify_signature": False}) | claims
    parts = [jwt.utils.base64url_encode(json.dumps(part).encode()) for part in (header, body)]
    return b".".join([*parts, jwt.utils.base64url_encode(KEYS["EdDSA"].sign(b".".join(parts)))]).decode()


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"kid": 5}, id="J09-int"),
        pytest.param({"kid": None}, id="J09-null"),
        pytest.param({"kid": ["EdDSA"]}, id="J09-list"),
        pytest.param({"b64": False, "crit": ["b64"]}, id="J11-b64"),
        pytest.param({"crit": []}, id="J11-empty-crit"),
        pytest.param({"alg": ["EdDSA"]}, id="J12-list"),
        pytest.param({"alg": "ES256"}, id="J12-other"),
    ],
)
def test_a_header_out_of_order_is_nobody(verifier: OidcVerifier, more: dict[str, Any]) -> None:
    assert verifier.caller(signed({"alg": "EdDSA", "kid": "EdDSA"})) is not None
    assert verifier.caller(signed({"alg": "EdDSA", "kid": "EdDSA"} | more)) is None


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param({"iss": ["https://issuer.example"]}, id="J06-list"),
        pytest.param({"iss": 5}, id="J06-int"),
        pytest.param({"sub": None}, id="J07-null"),
        pytest.param({"sub": {"a": 1}}, id="J07-object"),
        pytest.param({"aud": {"recall": 1}}, id="J05-object"),
        pytest.param({"exp": True}, id="J03-exp-true"),
        pytest.param({"iat": "now"}, id="J03-iat-a-text"),
        pytest.param({"recall_rights": None}, id="rights-null"),
        pytest.param({"recall_limits": None}, id="limits-null"),
    ],
)
def test_a_claim_of_another_type_is_nobody(verifier: OidcVerifier, claims: dict[str, Any]) -> None:
    assert verifier.caller(signed({"alg": "EdDSA", "kid": "EdDSA"}, **claims)) is None


def test_an_algorithm_that_is_not_listed_is_nobody(tmp_path: Path) -> None:
    """J02: the key is the issuer's, the operator does not accept its algorithm."""
    (tmp_path / "jwks.json").write_text(jwks(list(KEYS)))
    settings = Oidc(
        issuer="https://issuer.example", audience="recall", jwks=tmp_path / "jwks.json", algorithms=["ES256"]
    )
    strict = OidcVerifier(settings, Limits())
    assert strict.caller(token("ES256")) is not None
    assert strict.caller(token("RS256")) is None and strict.caller(token("EdDSA")) is None


def test_a_key_is_used_with_its_own_algorithm_alone(tmp_path: Path) -> None:
    """J12: both are listed and fit the key, which is for one."""
    (tmp_path / "jwks.json").write_text(jwks(["RS256"]))
    settings = Oidc(
        issuer="https://issuer.example", audience="recall", jwks=tmp_path / "jwks.json", algorithms=["RS256", "RS384"]
    )
    other = token("RS384", KEYS["RS256"], {"kid": "RS256"})
    assert OidcVerifier(settings, Limits()).caller(token("RS256")) is not None
    assert OidcVerifier(settings, Limits()).caller(other) is None


def test_without_a_claim_and_defaults_there_are_no_rights(tmp_path: Path) -> None:
    (tmp_path / "jwks.json").write_text(jwks(["EdDSA"]))
    settings = Oidc(
        issuer="https://issuer.example", audience="recall", jwks=tmp_path / "jwks.json", algorithms=["EdDSA"]
    )
    caller = OidcVerifier(settings, Limits(tokens_per_day=7)).caller(token())
    assert caller is not None and caller.rights == frozenset() and caller.limits.tokens_per_day == 7


def test_subjects_are_their_exact_bytes(verifier: OidcVerifier) -> None:
    """T12: none is folded into another."""
    alike = ["admin", "Admin", "\uff41dmin", "admin ", "c\u030caj", "\u010daj", "\ufb01", "fi", "K", "\u212a"]
    callers = [verifier.caller(token(sub=subject)) for subject in alike]
    assert [caller and caller.subject for caller in callers] == [f"https://issuer.example|{one}" for one in alike]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"keys": 5}', '{"keys": [5]}', "[" * 5000, "\xff"], ids=lambda text: text[:12]
)
def test_a_broken_key_file_lets_nobody_in_and_breaks_nothing(verifier: OidcVerifier, tmp_path: Path, text: str) -> None:
    (tmp_path / "jwks.json").write_bytes(text.encode("latin-1"))
    assert verifier.caller(token()) is None
    (tmp_path / "jwks.json").unlink()
    assert verifier.caller(token()) is None
    (tmp_path / "jwks.json").write_text(jwks(["EdDSA"]))
    assert verifier.caller(token()) is not None


def test_a_changed_key_file_is_read_again(verifier: OidcVerifier, tmp_path: Path) -> None:
    assert verifier.caller(token("RS256")) is not None
    (tmp_path / "jwks.json").write_text(jwks(["ES256"]))
    assert verifier.caller(token("RS256")) is None and verifier.caller(token("ES256")) is not None


@pytest.mark.parametrize(
    "rubbish",
    ["", "a.b.c", "....", "a" * 5000, "ey.ey.ey", "W1tb" * 1900 + ".e30.x", "rs_" + "a" * 43],
    ids=lambda text: text[:12],
)
def test_rubbish_is_nobody(verifier: OidcVerifier, rubbish: str) -> None:
    assert verifier.caller(rubbish) is None
