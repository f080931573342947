"""A bounded set of connections that have proved nothing yet: when it is full, which one goes.

The oldest of the address that has the most. So a crowd from one address does not push out a connection from another,
and connections that stay silent do not keep others out.
"""

from ipaddress import IPv6Address, ip_address
from typing import Generic, TypeVar

T = TypeVar("T")

NETWORK = 64
"""Bits of an IPv6 address that one customer of a provider has to choose from freely."""


def source_of(peername: object) -> str:
    """What a connection's address is counted under: IPv4 addresses, and networks of IPv6."""
    host = str(peername[0]) if isinstance(peername, tuple) and peername else ""
    if ":" not in host:
        return host
    address = ip_address(host.partition("%")[0])
    assert isinstance(address, IPv6Address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{int(address) >> (128 - NETWORK):x}"


class UnprovenSet(Generic[T]):
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._sources: dict[T, str] = {}
        self._by_source: dict[str, dict[T, None]] = {}

    def __len__(self) -> int:
        return len(self._sources)

    def __contains__(self, one: T) -> bool:
        return one in self._sources

    def add(self, one: T, source: str) -> T | None:
        """The one that has to go, if there are too many now. It is no longer in the set."""
        self._sources[one] = source
        self._by_source.setdefault(source, {})[one] = None
        if len(self._sources) <= self.limit:
            return None
        most = max(self._by_source.values(), key=len)
        gone = next(iter(most))
        self.discard(gone)
        return gone

    def discard(self, one: T) -> None:
        source = self._sources.pop(one, None)
        if source is None:
            return
        those = self._by_source[source]
        del those[one]
        if not those:
            del self._by_source[source]
