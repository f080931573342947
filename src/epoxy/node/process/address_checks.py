"""What the addresses in a node's file must not be: of two schemes, or of two listeners on one address."""

import socket
from collections.abc import Iterable, Mapping
from itertools import combinations
from urllib.parse import urlsplit

from epoxy.model.address import Address
from epoxy.model.errors import ConfigError
from epoxy.node.process.toml_file import TomlSource

EVERYWHERE = {"0.0.0.0", "::"}


def check_schemes(source: TomlSource, members: Iterable[tuple[int, str]], *, tls: bool) -> None:
    """All listeners of a node use TLS, or none. `members`: each address of each of them."""
    scheme, reason = ("https", "there is [tls]") if tls else ("http", "there is no [tls]")
    for replica, url in members:
        if urlsplit(url).scheme != scheme:
            where = source.where("cluster", "members")
            raise ConfigError(f"{where}: member {replica} is at {url}, but {reason}: allowed: {scheme}://")


def check_listeners(source: TomlSource, listeners: Mapping[str, Address]) -> None:
    """Two listeners on one address: the second would fail as if another process held it, at every start."""
    for (first, one), (second, other) in combinations(listeners.items(), 2):
        if one.port == other.port != 0 and is_same_host(one.host, other.host):
            where = source.where(*second.split("."))
            raise ConfigError(f"{where}: {second} {other} is where {first} {one} listens")


def is_same_host(one: str, other: str) -> bool:
    return bool({one, other} & EVERYWHERE) or one == other or bool(resolved(one) & resolved(other))


def resolved(host: str) -> set[str]:
    """The addresses of a host name; none if it is not found, which fails later, when the node listens there."""
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return set()
