"""Which URLs are opened, read once.

Parsers disagree about the host of a strange URL, so that one checks a host and another connects to it. Here one pattern
matches the whole text or refuses it; the lookup, the connection, the Host header and the certificate's name all come from
that one reading. What browsers would mend (backslashes, missing slashes, odd IPv4 forms, userinfo) is refused instead.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, urljoin

import idna

from deployments.web.addresses import Address
from deployments.web.errors import AddressRefused, BadUrl, PortRefused

URL_BYTES = 2048
USUAL_PORTS = {"http": 80, "https": 443}
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[^\[\]/?#:@%\\]+)(?::(?P<port>[0-9]*))?"
    r"(?P<path>/[^?#\\]*)?(?P<query>\?[^#]*)?(?:#.*)?",
    re.IGNORECASE | re.ASCII,
)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE | re.ASCII)
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_SENT_AS_IS = "!$%&'()*+,-./:;=?@[]_|~"
_JOINERS = "\u200c\u200d"  # Persian and Indian words need them
_PRIVATE_SUFFIXES = (
    *("localhost", "localdomain", "local", "internal", "intranet", "private", "corp", "home", "lan", "arpa"),
    *("svc", "onion", "i2p", "alt", "invalid"),
)
_METADATA_NAMES = ("metadata.tencentyun.com", "metadata.packet.net", "metadata.platformequinix.com")


@dataclass(frozen=True)
class Url:
    """A URL in the form that is sent. `host` is a lower-case ASCII name or an address without brackets."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    target: str  # path and query, percent-encoded; never a fragment
    address: Address | None  # where the host is one

    @property
    def netloc(self) -> str:
        """As the Host header wants it: brackets around IPv6, the port unless it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == USUAL_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc}{self.target}"


def parse(text: str, ports: Collection[int]) -> Url:
    """Raises BadUrl, PortRefused, or AddressRefused for a name that cannot be on the public internet."""
    _check_characters(text)
    found = _URL.fullmatch(text)
    if found is None:
        raise BadUrl("it must look like https://host/path, without a user name or backslashes")
    scheme: Literal["http", "https"] = "https" if found["scheme"].lower() == "https" else "http"
    host, address = _host(found["host"])
    port = _port(found["port"], USUAL_PORTS[scheme])
    if port not in ports:
        raise PortRefused(host)
    target = quote((found["path"] or "/") + (found["query"] or ""), safe=_SENT_AS_IS)
    return Url(scheme, host, port, target, address)


def join(base: Url, reference: str, ports: Collection[int]) -> Url:
    """Where `reference`, a redirect or a link, leads from `base` (RFC 3986, strictly). Raises what `parse` raises."""
    reference = reference.strip(" \t\r\n\f").replace(" ", "%20")  # as every browser reads a link
    _check_characters(reference)
    if "\\" in re.split(r"[?#]", reference, maxsplit=1)[0]:
        raise BadUrl("it has a backslash")
    if _SCHEME.match(reference):
        return parse(reference, ports)
    if reference.startswith("//"):
        return parse(f"{base.scheme}:{reference}", ports)
    return parse(urljoin(str(base), reference), ports)


def _check_characters(text: str) -> None:
    if len(text.encode("utf-8", "surrogatepass")) > URL_BYTES:
        raise BadUrl(f"it has more than {URL_BYTES} bytes")
    if any(_is_unseen(char) for char in text):
        raise BadUrl("it has a space or an invisible character; write them percent-encoded")


def _is_unseen(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zs", "Zl", "Zp") and char not in _JOINERS


def _port(text: str | None, usual: int) -> int:
    if not text:
        return usual
    if not _PORT.fullmatch(text) or int(text) > 65535:
        raise BadUrl("its port is not a number from 1 to 65535")
    return int(text)


def _host(text: str) -> tuple[str, Address | None]:
    if text.startswith("["):
        return _ipv6(text[1:-1])
    name = _name(text)
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        return _ipv4(name)
    _check_name(name)
    return name, None


def _ipv6(text: str) -> tuple[str, Address]:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        raise BadUrl("the host is no IPv6 address") from None
    return str(address), address


def _ipv4(text: str) -> tuple[str, Address]:
    """Decimal, octal, hexadecimal and short forms are read differently by each library, so only the plain one passes."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        raise BadUrl("an IPv4 address is four decimal numbers") from None
    return str(address), address


def _name(text: str) -> str:
    """`text` as DNS has it (IDNA 2008 with UTS 46 mapping, non-transitional), without the dot of an absolute name."""
    plain = text.isascii() and "xn--" not in text.lower()
    name = (text.lower() if plain else _ascii_form(text)).removesuffix(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise BadUrl("its host is no name that DNS can hold")
    return name


def _ascii_form(text: str) -> str:
    try:
        return idna.encode(text, uts46=True, std3_rules=True, transitional=False).decode().lower()
    except (idna.IDNAError, UnicodeError):
        raise BadUrl("its host is no name that DNS can hold") from None


def _check_name(name: str) -> None:
    """Names that only a private network answers are refused without asking a resolver."""
    suffix = name.rpartition(".")[2]
    if "." not in name or suffix in _PRIVATE_SUFFIXES or name.endswith(_METADATA_NAMES):
        raise AddressRefused(name)
