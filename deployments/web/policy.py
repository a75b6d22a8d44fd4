"""Which addresses this machine may open: the public ones, less what its operator denies and less its own."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable

import psutil

from deployments.web.addresses import Address, is_public

Allow = Callable[[Address], bool]


class PublicOnly:
    """The policy: public, not in a network the operator denies, not an address of this very machine."""

    def __init__(self, denied: Iterable[str] = ()) -> None:
        self._denied = [ipaddress.ip_network(network) for network in denied]

    def __call__(self, address: Address) -> bool:
        return (
            is_public(address)
            and not any(address in network for network in self._denied)
            and address not in own_addresses()
        )


def own_addresses() -> set[Address]:
    """The addresses of this machine's interfaces, as they are now."""
    families = (socket.AF_INET, socket.AF_INET6)
    found = (one for interface in psutil.net_if_addrs().values() for one in interface if one.family in families)
    return {ipaddress.ip_address(one.address.partition("%")[0]) for one in found}
