"""File descriptors in reserve: clients never keep out peers and operators, and none of them keeps out the store.

The system gives every new file the lowest free number. So the number of a connection just accepted says how many files
are open, of whatever kind: connections of other listeners, TLS handshakes, refused ones that linger, envoys, links, the
store's own. Numbers are divided into bands, the lowest for all:

    0 ... clients | ... peers | ... operators | the store, and links to peers ... limit

A client's connection with a number above its band is closed at once, whatever the others are used for.
"""

import resource

from msgspec import Struct

STORE = 256
"""File descriptors reserved for what no listener accepts: two dozen for the store, three for each of at most 63 peers,
relayed requests. Of a low limit, a quarter."""

RESERVED = 256
"""For connections of peers and operators that find the band of clients full: three of each of 63 peers, and some that
are on trial. Of a low limit, an eighth. A quarter of it is for operators alone."""

NO_LIMIT = 1 << 30
"""More descriptors than any system has."""

MAX_HANDSHAKES = 256
"""TLS handshakes under way at one listener. With one more the oldest of the address with the most is cancelled, so that
handshakes which never end do not keep others out."""


class Room(Struct, frozen=True, kw_only=True):
    """Of one listener. `ceiling`: the lowest number that no connection may have. `reserve`: from this number on a
    connection is on trial until it proves to be a peer's or an operator's. `handshakes`: under way at a time."""

    ceiling: int
    reserve: int
    handshakes: int = MAX_HANDSHAKES


class Bands(Struct, frozen=True, kw_only=True):
    """The lowest number above each band."""

    clients: int
    peers: int
    operators: int

    @property
    def reserved(self) -> int:
        """Connections of peers and operators that fit above those of clients."""
        return self.operators - self.clients


def bands() -> Bands:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        soft = NO_LIMIT
    operators, reserved = soft - min(STORE, soft // 4), min(RESERVED, soft // 8)
    return Bands(clients=operators - reserved, peers=operators - reserved // 4, operators=operators)


def ceiling() -> int:
    """The lowest number that no connection may have at any listener."""
    return bands().operators


def whole_room() -> Room:
    """Of a process with one listener."""
    return Room(ceiling=ceiling(), reserve=ceiling())
