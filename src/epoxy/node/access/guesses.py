"""Wrong tokens: counted, logged, and answered later and later, for each address that sends them.

A token has 256 random bits, so no rate of guesses finds one. The delay makes a client with a wrong token, which tries
again and again, cheap, and visible in the log. Only refusals wait: a right token is answered at once, whatever else
came from its address, because many clients may share one.
"""

import ipaddress
import logging
import time
from collections import OrderedDict
from collections.abc import Callable

from epoxy.node.access.audit import LineBudget, clipped

log = logging.getLogger(__name__)

FREE_GUESSES = 5
"""Without a delay: a person who pastes the wrong token, a pool of connections that opens with it."""

FIRST_DELAY_S = 0.05
MAX_DELAY_S = 2.0
"""Doubled with each guess up to here: below the timeouts of client libraries, which would open another connection."""

FORGET_S = 10.0
"""One guess is forgotten each time: an hour of silence is not needed to begin afresh."""

MAX_REMEMBERED = 60
"""Guesses of one address: after ten minutes without one there is no delay."""

MAX_NETWORKS = 10_000
"""The least recent is dropped: a megabyte, however many addresses an attacker has."""

LOG_LINES = 20
LOG_LINES_S = 60.0

IPV6_BITS = 64
"""What one host or site may choose its addresses from."""


class Guesses:
    """`wrong_total`: all wrong guesses, `slowed_total`: those that were answered later."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.wrong_total = 0
        self.slowed_total = 0
        self._now = now
        self._networks: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lines = LineBudget(LOG_LINES, LOG_LINES_S, now)

    @property
    def networks(self) -> int:
        """How many are remembered."""
        return len(self._networks)

    def wrong(self, address: str, name: str) -> float:
        """Count a wrong token, and return how many seconds the refusal is to wait. `address`: of the client, with or
        without a port; `name`: what it said it was, if anything."""
        network, now = network_of(address), self._now()
        score, since = self._networks.get(network, (0.0, now))
        score = min(max(0.0, score - (now - since) / FORGET_S) + 1, MAX_REMEMBERED)
        self._networks[network] = score, now
        self._networks.move_to_end(network)
        if len(self._networks) > MAX_NETWORKS:
            self._networks.popitem(last=False)
        delay_s = delay_of(score)
        self.wrong_total += 1
        self.slowed_total += delay_s > 0
        if self._lines.take():
            more = {"unlogged": beyond} if (beyond := self._lines.beyond()) else {}
            log.warning("a wrong token", extra={"address": clipped(address), "grant": clipped(name), **more})
        return delay_s


def delay_of(score: float) -> float:
    excess = round(score) - FREE_GUESSES
    return min(FIRST_DELAY_S * 2 ** (excess - 1), MAX_DELAY_S) if excess > 0 else 0.0


def network_of(address: str) -> str:
    """What is slowed as one: an IPv4 address, the /64 of an IPv6 one. A port, brackets and a zone are left out."""
    host = address
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return clipped(host)
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, IPV6_BITS), strict=False))
