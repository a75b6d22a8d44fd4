"""Which addresses are on the public internet.

`ipaddress.is_global` is not the answer: it passes multicast, a cloud's metadata address and most ways to write an IPv4
address inside an IPv6 one. So these tables refuse, whatever the Python version knows, and an address must pass both. For
IPv6 only the one block that is handed out (2000::/3) can pass, which leaves all that is odd outside by construction.

Sources: IANA's special-purpose address registries for IPv4 and IPv6 (RFC 6890), and vendors' documentation for the
addresses of cloud metadata services.
"""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_IPV4_REFUSED = [
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT; Alibaba's metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # Azure's platform address, which looks public
        "169.254.0.0/16",  # link-local; most clouds' metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # IETF protocols; Oracle's old metadata
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
]
_IPV6_HANDED_OUT = ipaddress.IPv6Network("2000::/3")
_IPV6_REFUSED = [
    ipaddress.IPv6Network(network)
    for network in (
        "2001::/23",  # IETF protocols: Teredo, benchmarks, AMT, ORCHID, drone ids
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
]
_ISATAP = (0x00005EFE, 0x02005EFE)  # the upper half of an interface id that carries an IPv4 address


def is_public(address: Address) -> bool:
    """Whether `address` belongs to the public internet."""
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not any(address in network for network in _IPV4_REFUSED)
    return (
        address.scope_id is None
        and address in _IPV6_HANDED_OUT
        and address.is_global
        and not any(address in network for network in _IPV6_REFUSED)
        and (int(address) >> 32) & 0xFFFFFFFF not in _ISATAP
    )


def read(text: str) -> Address | None:
    """An address as a resolver writes it; None for anything else, a scope included."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return None if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None else address
