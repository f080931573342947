"""Whether a node asks its clients for tokens.

Without a setting it does not, as long as no other machine can reach it. Otherwise the operator has to choose: a node
that is open to a network by mistake is worse than one that does not start.
"""

import ipaddress
from functools import cache
from typing import Literal

from epoxy.model.address import Address
from epoxy.model.errors import ConfigError
from epoxy.node.process.address_checks import resolved
from epoxy.node.process.config import NodeSettings, Settings


def auth_of(settings: Settings) -> Literal["tokens", "open"]:
    """Raises ConfigError if the choice is the operator's, and was not made."""
    given, exposed = settings.access.auth, exposed_listeners(settings.node)
    if given is None and exposed:
        name, address = next(iter(exposed.items()))
        raise ConfigError(
            f"access.auth is missing, and other machines can reach {name} {address}: "
            'in section [access], auth = "tokens" lets in only clients with a token (the first one: epoxy auth init), '
            'auth = "open" lets every client do everything'
        )
    return given or "open"


def exposed_listeners(node: NodeSettings) -> dict[str, Address]:
    """Addresses to listen on, by setting, that are not loopback addresses."""
    return {name: address for name, address in node.listeners.items() if not is_loopback(address.host)}


@cache
def is_loopback(host: str) -> bool:
    """A host name is, if all its addresses are. They are looked up once: the status of a node needs this, too."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        found = resolved(host)
        return bool(found) and all(ipaddress.ip_address(each).is_loopback for each in found)
