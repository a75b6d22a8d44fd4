"""One graph with the real models for the whole session."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import openai
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.serve.gateway import TOOLS, Gateway
from tests.serve.running import RunningService, write_profile
from tests.store.conftest import passable_folder

ISSUER, AUDIENCE = "https://issuer.example", "recall-serve-tests"


class Issuer:
    """An OpenID Connect issuer of the tests' own: a key and the file with its public half."""

    def __init__(self, folder: Path) -> None:
        self._key = Ed25519PrivateKey.generate()
        self.jwks = folder / "jwks.json"
        public = json.loads(jwt.algorithms.OKPAlgorithm.to_jwk(self._key.public_key()))
        self.jwks.write_text(json.dumps({"keys": [{**public, "kid": "one", "alg": "EdDSA", "use": "sig"}]}))

    def token(self, **claims: Any) -> str:
        now = int(time.time())
        body = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ana", "iat": now, "exp": now + 600} | claims
        return jwt.encode(
            {key: value for key, value in body.items() if value is not None}, self._key, "EdDSA", {"kid": "one"}
        )


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    with passable_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def issuer(folder: Path) -> Issuer:
    return Issuer(folder)


@pytest.fixture(scope="session")
def gateway() -> Iterator[Gateway]:
    one = Gateway()
    yield one
    one.close()


@pytest.fixture(scope="session")
def service(folder: Path, issuer: Issuer, gateway: Gateway) -> Iterator[RunningService]:
    """The local profile, real models and all; only ports, folders, the rate and an operator's own tools differ."""
    oidc = {
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "jwks": str(issuer.jwks),
        "algorithms": ["EdDSA"],
        "default_rights": ["chat", "memory"],
    }
    changes = {
        "auth": {"oidc": oidc, "failures_per_minute": 10_000},
        "limits": {"requests_per_minute": 5000},
        "gateway": {"base_url": gateway.url},
        "remote_tools": TOOLS,
    }
    service = RunningService.start(folder, write_profile(folder, changes))
    gateway.secrets = service.home / "secrets"
    try:
        yield service
    finally:
        assert service.stop() == 0, service.log.read_text()[-2000:]


@pytest.fixture
def key(service: RunningService) -> str:
    """A key of a subject that nobody used before."""
    return service.key(f"t-{secrets.token_hex(6)}")


@pytest.fixture
def http(service: RunningService, key: str) -> Iterator[httpx.Client]:
    with service.client(key) as client:
        yield client


@pytest.fixture
def client(service: RunningService, key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{service.root}/v1", api_key=key, max_retries=0, timeout=180)


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Ask until the answer is true or the time is over; the last answer is returned."""

    def ask(question: Callable[[], Any], seconds: float = 10) -> Any:
        deadline = time.monotonic() + seconds
        while not (answer := question()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return answer

    return ask
