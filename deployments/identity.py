"""Identity tokens: the edge signs who is calling, and each service verifies it for itself.

A token is a JWS (EdDSA) of a few seconds' life for one audience. Callers and services have separate keys, so neither can
speak as the other. The caller's own key or JWT is never sent onward.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from configs import private
from configs.settings import ALL_RIGHTS

Audience = Literal["memory", "sandbox", "web", "platform", "gateway"]
Role = Literal["caller", "service"]
ISSUER = "recall-serve"
EPISODES = "service|episodes"  # the subject of the service token that may write episodes
SLACK_SECONDS = 30
_CLAIMS = ["iss", "aud", "sub", "rights", "gen", "iat", "exp"]


class IdentityRefused(Exception):
    """A token that is not for this service, not valid any more, or not ours. Says no more on purpose."""


@dataclass(frozen=True)
class Identity:
    """Who a verified token speaks for. `generation` is the turn it was made for, empty outside turns."""

    subject: str
    rights: frozenset[str]
    generation: str


class Signer:
    """Mints tokens with the private key of a role."""

    def __init__(self, role: Role, folder: Path) -> None:
        self._role = role
        self._key = _load_private(folder / f"{role}.key")
        self._kid = _kid(self._key.public_key())

    def mint(self, subject: str, rights: frozenset[str], audience: Audience, generation: str, seconds: float) -> str:
        """A token for one audience that ends `seconds` from now plus 30 s of slack."""
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": audience,
            "sub": subject,
            "rights": sorted(rights),
            "gen": generation,
            "iat": now,
            "exp": now + int(seconds) + SLACK_SECONDS,
        }
        return jwt.encode(claims, self._key, "EdDSA", headers={"typ": f"{self._role}+jwt", "kid": self._kid})


class Verifier:
    """Checks tokens of a role for one audience, with the public key alone."""

    def __init__(self, role: Role, folder: Path, audience: Audience) -> None:
        self._role = role
        self._audience = audience
        self._key = _load_public(folder / f"{role}.pub")
        self._kid = _kid(self._key)

    def verify(self, token: object) -> Identity:
        """The identity in a token. Raises IdentityRefused for anything else, a bare subject included."""
        try:
            return self._verify(token)
        except (jwt.InvalidTokenError, TypeError, ValueError, OverflowError):
            raise IdentityRefused("identity_refused") from None

    def _verify(self, token: object) -> Identity:
        if not isinstance(token, str):
            raise TypeError
        header = jwt.get_unverified_header(token)
        if header.get("typ") != f"{self._role}+jwt" or header.get("kid") != self._kid:
            raise jwt.InvalidTokenError
        claims: dict[str, Any] = jwt.decode(
            token,
            self._key,
            algorithms=["EdDSA"],
            audience=self._audience,
            issuer=ISSUER,
            options={"require": _CLAIMS, "strict_aud": True},
        )
        if not claims["sub"] or not set(claims["rights"]) <= set(ALL_RIGHTS):
            raise ValueError
        return Identity(claims["sub"], frozenset(claims["rights"]), claims["gen"])


def make_keys(folder: Path) -> None:
    """The key pairs of both roles, made where missing; private halves have mode 0600."""
    for role in get_args(Role):
        if not (folder / f"{role}.pub").exists():
            _write_pair(folder, role)


def _write_pair(folder: Path, role: Role) -> None:
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    private.write(folder / f"{role}.key", secret)
    private.write(folder / f"{role}.pub", public)  # last: its presence says that the pair is whole


def _load_private(path: Path) -> Ed25519PrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    assert isinstance(key, Ed25519PrivateKey)
    return key


def _load_public(path: Path) -> Ed25519PublicKey:
    key = serialization.load_pem_public_key(path.read_bytes())
    assert isinstance(key, Ed25519PublicKey)
    return key


def _kid(key: Ed25519PublicKey) -> str:
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()[:16]
