"""Which addresses are opened: as a literal, as an answer of the resolver and as a redirect's target, each the same."""

from __future__ import annotations

import ipaddress
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.web import addresses, policy
from deployments.web.addresses import is_public, read
from deployments.web.errors import AddressRefused, ConnectFailed
from deployments.web.policy import PublicOnly
from deployments.web.reader import PageReader
from deployments.web.settings import WebSettings
from tests.web.conftest import GOOD, Web, redirect, response, trust, words

REFUSED = words("""
0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.254 100.100.100.200 127.0.0.1 127.255.255.255 169.254.169.254
169.254.170.2 169.254.170.23 169.254.42.42 168.63.129.16 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.8 192.0.0.9
192.0.0.170 192.0.0.192 192.0.2.1 192.31.196.1 192.52.193.0 192.88.99.1 192.168.0.1 192.175.48.1 198.18.0.1
198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 ::127.0.0.1
::a9fe:a9fe ::ffff:127.0.0.1 ::ffff:a9fe:a9fe ::ffff:8.8.8.8 ::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b::808:808
64:ff9b:1:a00:0:100:: 64:ff9b:1:a00:0:100:808:808 64:ff9b:1:a9fe:a9:fe00:: 64:ff9b:1::7f00:1 100::1 100:0:0:1::1
2001:0:4136:e378:8000:63bf:3f57:fdf2 2001:2::1 2001:10::1 2001:20::1 2001:db8::1 2002:7f00:1:: 2002:c0a8:101::1
2002:808:808::1 2606:4700::5efe:10.0.0.1 2606:4700::200:5efe:10.0.0.1 2620:4f:8000::1 3fff::1 5f00::1 fc00::1
fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fd00:42::42 fe80::1 fe80::a9fe:a9fe fec0::1 ff02::1 ff0e::1 4000::1
""")
PUBLIC = words("""
8.8.8.8 1.1.1.1 100.63.255.255 100.128.0.1 172.15.255.255 172.32.0.1 192.0.1.1 198.17.255.255 198.20.0.1
223.255.255.255 168.63.129.15 2001:4860:4860::8888 2606:4700:4700::1111 2001:200::1
""")


def as_host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


@pytest.mark.parametrize("address", REFUSED)
async def test_a_private_literal_is_refused_before_any_lookup(address: str, web: Web) -> None:
    """U1."""
    with pytest.raises(AddressRefused):
        await web.open(f"http://{as_host(address)}/")
    assert (web.names.asked, web.network.attempts) == ([], [])


@pytest.mark.parametrize("address", REFUSED)
async def test_a_name_with_a_private_address_is_refused(address: str, web: Web) -> None:
    web.names.known["evil.example"] = [address]
    with pytest.raises(AddressRefused) as error:
        await web.open("http://evil.example/")
    assert web.network.attempts == []
    assert address not in str(error.value) and error.value.args == ("evil.example",)


@pytest.mark.parametrize("address", REFUSED)
async def test_a_redirect_to_a_private_address_is_refused_at_that_hop(address: str, web: Web) -> None:
    """R01, R12."""
    web.answer("/", redirect(f"http://{as_host(address)}/latest/meta-data"))
    with pytest.raises(AddressRefused):
        await web.open()
    assert web.network.attempts == [(GOOD, 80)]


@pytest.mark.parametrize("address", PUBLIC)
async def test_a_public_address_is_opened_as_literal_answer_and_redirect(address: str, web: Web) -> None:
    await web.listen([(address, 80)])
    web.answer("/", response(b"<p>Here it is"))
    web.names.known["public.example"] = [address]
    web.answer("good.example/go", redirect(f"http://{as_host(address)}/"))
    for url in (f"http://{as_host(address)}/", "http://public.example/", "http://good.example/go"):
        assert (await web.open(url)).text == "Here it is"
    assert set(web.network.attempts) == {(address, 80), (GOOD, 80)}


@pytest.mark.parametrize(
    "answer", ["", "localhost", "8.8.8.8 ", "8.8.8.8:80", "8.8.8", "::1%lo", "2606:4700::1%1", "8.8.8.8\0", "0x8080808"]
)
async def test_an_answer_that_is_no_plain_address_is_refused(answer: str, web: Web) -> None:
    """A01, D10."""
    web.names.known["evil.example"] = ["8.8.8.8", answer]
    with pytest.raises(AddressRefused):
        await web.open("http://evil.example/")
    assert web.network.attempts == []


async def test_this_machines_own_public_address_is_refused(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """A02: interfaces are read for each opening."""
    web.answer("/", response(b"<p>Here it is"))
    assert (await web.open()).text
    monkeypatch.setattr(policy, "own_addresses", lambda: {ipaddress.ip_address(GOOD)})
    with pytest.raises(AddressRefused):
        await web.open()


def test_the_interfaces_of_this_machine_are_seen() -> None:
    assert ipaddress.ip_address("127.0.0.1") in policy.own_addresses()


@pytest.mark.parametrize("network", ["8.8.8.0/24", "8.8.8.8", "8.0.0.0/6"])
async def test_what_the_operator_denies_stays_denied(network: str, web: Web) -> None:
    """A03."""
    with pytest.raises(AddressRefused):
        await web.open(denied=(network, "2001:4860::/32"))
    assert web.network.attempts == []


def test_a_denied_network_that_is_none_is_an_error_at_start() -> None:
    with pytest.raises(ValueError, match="has host bits set"):
        PublicOnly(["10.0.0.1/8"])


async def test_the_policy_can_be_replaced_only_where_the_reader_is_made(web: Web) -> None:
    """U3."""
    web.network.ports["127.0.0.1", 80] = web.network.ports[GOOD, 80]
    web.answer("/", response(b"<p>Here it is"))
    everything = PageReader(WebSettings(), web.names, allow=lambda address: True, network=web.network, tls=trust)
    assert (await everything.open("http://127.0.0.1/")).text == "Here it is"


@pytest.mark.parametrize(
    "name", ["RECALL_ALLOW_PRIVATE", "ALLOW_PRIVATE_NETWORKS", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "LANGCHAIN_ENV"]
)
async def test_no_environment_variable_opens_a_private_address(
    name: str, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U3."""
    for value in ("1", "*", "local_test", "http://127.0.0.1:1"):
        monkeypatch.setenv(name, value)
        with pytest.raises(AddressRefused):
            await web.open("http://127.0.0.1/")


# A04: written from the registries as ranges of numbers, apart from the tables of the code.
SPECIAL_V4 = {
    "0.0.0.0": "0.255.255.255", "10.0.0.0": "10.255.255.255", "100.64.0.0": "100.127.255.255", "127.0.0.0": "127.255.255.255",
    "168.63.129.16": "168.63.129.16", "169.254.0.0": "169.254.255.255", "172.16.0.0": "172.31.255.255",
    "192.0.0.0": "192.0.0.255", "192.0.2.0": "192.0.2.255", "192.31.196.0": "192.31.196.255",
    "192.52.193.0": "192.52.193.255", "192.88.99.0": "192.88.99.255", "192.168.0.0": "192.168.255.255",
    "192.175.48.0": "192.175.48.255", "198.18.0.0": "198.19.255.255", "198.51.100.0": "198.51.100.255",
    "203.0.113.0": "203.0.113.255", "224.0.0.0": "255.255.255.255",
}  # fmt: skip
SPECIAL_V6 = {
    "::": "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001::": "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:db8::": "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2002::": "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "2620:4f:8000::": "2620:4f:8000:ffff:ffff:ffff:ffff:ffff", "3fff::": "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
    "4000::": "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
}  # fmt: skip


def in_a_special_range(address: addresses.Address) -> bool:
    ranges = SPECIAL_V4 if address.version == 4 else SPECIAL_V6
    spans = ((int(ipaddress.ip_address(first)), int(ipaddress.ip_address(last))) for first, last in ranges.items())
    isatap = address.version == 6 and f"{int(address):032x}"[16:24] in ("00005efe", "02005efe")
    return isatap or any(first <= int(address) <= last for first, last in spans)


def around_the_edges(ranges: dict[str, str]) -> list[int]:
    ends = [int(ipaddress.ip_address(end)) for span in ranges.items() for end in span]
    return [end + step for end in ends for step in (-1, 0, 1) if end + step >= 0]


@given(st.one_of(st.integers(0, 2**32 - 1), st.sampled_from([n for n in around_the_edges(SPECIAL_V4) if n < 2**32])))
def test_every_ipv4_address_is_decided_as_the_registry_has_it(number: int) -> None:
    """A04."""
    address = ipaddress.IPv4Address(number)
    assert is_public(address) is not in_a_special_range(address)


@given(
    st.one_of(
        st.integers(0, 2**128 - 1),
        st.integers(2**125, 2**126 - 1),
        st.builds(
            lambda high, low: (high << 64) | (0x5EFE << 32) | low,
            st.integers(2**61, 2**62 - 1),
            st.integers(0, 2**32 - 1),
        ),
        st.sampled_from([n for n in around_the_edges(SPECIAL_V6) if n < 2**128]),
    )
)
def test_every_ipv6_address_is_decided_as_the_registry_has_it(number: int) -> None:
    """A04."""
    address = ipaddress.IPv6Address(number)
    assert is_public(address) is not in_a_special_range(address)


def test_no_way_to_write_an_ipv4_address_inside_an_ipv6_one_is_public() -> None:
    """RFC 4291 (compatible, mapped), 2765 (translated), 6052 (NAT64, both prefixes), 3056 (6to4), 4380 (Teredo), 5214."""
    chooser = random.Random(7)
    for _ in range(200):
        v4 = chooser.getrandbits(32)
        host = 0x2606470000000000 << 64
        forms = [v4, (0xFFFF << 32) | v4, (0xFFFF << 48) | v4, (0x64FF9B << 96) | v4, (0x64FF9B0001 << 80) | v4,
                 (0x2002 << 112) | (v4 << 80) | 1, (0x20010000 << 96) | (v4 ^ 0xFFFFFFFF), host | (0x5EFE << 32) | v4,
                 host | (0x02005EFE << 32) | v4]  # fmt: skip
        assert not any(is_public(ipaddress.IPv6Address(form)) for form in forms)


def test_a_scope_is_no_address() -> None:
    assert read("fe80::1%eth0") is None and read("2606:4700::1%eth0") is None
    assert not is_public(ipaddress.IPv6Address("2606:4700::1%eth0"))


async def test_what_takes_no_connection_is_said_without_its_address(web: Web) -> None:
    web.names.known["gone.example"] = ["9.9.9.9"]
    with pytest.raises(ConnectFailed) as error:
        await web.open("http://gone.example/secret")
    assert "9.9.9.9" not in str(error.value) and "secret" not in str(error.value)
