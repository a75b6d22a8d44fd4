"""Certificates for servers of the tests, from an authority of their own."""

from __future__ import annotations

import ssl
import warnings
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Signs what it is asked to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Test authority")
        self._certificate = _built(self._name, self._name, self._key, self._key, authority=True)
        (folder / "authority.pem").write_bytes(_pem(self._certificate))

    def trusting(self) -> ssl.SSLContext:
        """What a client that trusts this authority alone uses, otherwise as strict as the reader's own."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(self._folder / "authority.pem")
        return context

    def server(self, host: str, days: int = 1, self_signed: bool = False, old: bool = False) -> ssl.SSLContext:
        """What a server with a certificate for `host` uses; it ends after `days`, which may have passed."""
        key = ec.generate_private_key(ec.SECP256R1())
        signer, issuer = (key, _name(host)) if self_signed else (self._key, self._name)
        certificate = _built(_name(host), issuer, key, signer, days=days, host=host)
        chain = self._folder / f"{host}-{days}-{self_signed}.pem".replace("*", "any").replace(":", "_")
        chain.write_bytes(_pem(certificate) + _private(key))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        if old:
            _speak_old(context)
        return context


def _speak_old(context: ssl.SSLContext) -> None:
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that it is old is the point
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _built(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey,
    days: int = 1, host: str = "", authority: bool = False,
) -> x509.Certificate:  # fmt: skip
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if host:
        builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(host)]), critical=False)
    return builder.sign(signer, hashes.SHA256())


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())
