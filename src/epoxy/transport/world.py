"""What all links of a node share. Apart from `peer`, which is compiled, as records cannot be."""

import ssl as tls
from collections.abc import Callable

from msgspec import Struct

from epoxy.ports import Clock, Dice
from epoxy.transport import auth
from epoxy.transport.link import Link


class Identity(Struct, frozen=True):
    """Who speaks, and how it proves that."""

    me: int
    secret: bytes
    epoch: Callable[[], int]
    wall_ms: Callable[[], int] = auth.wall_ms


class World(Struct, frozen=True):
    """What the link needs from outside."""

    clock: Clock
    dice: Dice
    link: Link
    ssl: tls.SSLContext | None
