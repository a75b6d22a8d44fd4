"""Callers with a JWT of an OpenID Connect issuer. The algorithms are pinned and keys come from a file alone."""

from __future__ import annotations

import json
from typing import Any

import jwt

from configs.settings import ALL_RIGHTS, Limits, Oidc
from tools.caller import Caller

_REQUIRED = ["iss", "aud", "sub", "iat", "exp"]
_MOST_SUBJECT_BYTES = 255


class OidcVerifier:
    """Verifies signature, issuer, audience and times; reads rights and limits from their claims."""

    def __init__(self, settings: Oidc, defaults: Limits) -> None:
        self._settings = settings
        self._defaults = defaults
        self._read_at_ns = 0
        self._keys: dict[str, jwt.PyJWK] = {}

    def caller(self, token: str) -> Caller | None:
        """The caller, or None for any token that is not entirely in order."""
        try:
            return self._caller(token)
        except Exception:  # whatever is wrong with a token or the key file, it lets nobody in
            return None

    def _caller(self, token: str) -> Caller:
        claims = self._claims(token)
        subject = claims["sub"]
        if (
            not isinstance(subject, str)
            or not subject
            or "\x00" in subject
            or len(subject.encode()) > _MOST_SUBJECT_BYTES
        ):
            raise ValueError("subject")
        rights = claims.get(self._settings.rights_claim, self._settings.default_rights)
        if not isinstance(rights, list) or not set(rights) <= set(ALL_RIGHTS):
            raise ValueError("rights")
        limits = self._defaults.with_own(claims.get(self._settings.limits_claim, {}))
        return Caller(f"{self._settings.issuer}|{subject}", frozenset(rights), limits)

    def _claims(self, token: str) -> dict[str, Any]:
        header = jwt.get_unverified_header(token)
        key = self._key(header.get("kid"))
        if key.algorithm_name != header["alg"]:
            raise ValueError("algorithm")
        claims: dict[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=list(self._settings.algorithms),
            audience=self._settings.audience,
            issuer=self._settings.issuer,
            options={"require": _REQUIRED, "strict_aud": True},
        )
        if claims["exp"] - claims["iat"] > self._settings.max_age_seconds:
            raise ValueError("life")
        _refuse_duplicates(token)
        return claims

    def _key(self, kid: object) -> jwt.PyJWK:
        """The issuer's key of that id; the file is read again when it has changed."""
        changed_at_ns = self._settings.jwks.stat().st_mtime_ns
        if changed_at_ns != self._read_at_ns:
            keys = jwt.PyJWKSet.from_json(self._settings.jwks.read_text()).keys
            self._keys = {key.key_id: key for key in keys if key.key_id}
            self._read_at_ns = changed_at_ns
        if not isinstance(kid, str):
            raise ValueError("kid")
        return self._keys[kid]


def _refuse_duplicates(token: str) -> None:
    """A claim that stands twice could be read differently by two readers."""
    payload = jwt.utils.base64url_decode(token.split(".")[1])

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("duplicate claim")
        return dict(pairs)

    json.loads(payload, object_pairs_hook=unique)
