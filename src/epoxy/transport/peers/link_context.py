"""What all links of a node share. Apart from `peer`, which is compiled, as records cannot be."""

import ssl as tls
from collections.abc import Callable

from msgspec import Struct

from epoxy.ports import Clock, Dice
from epoxy.transport.peers import auth
from epoxy.transport.peers.signed_header import SignedHeader
from epoxy.transport.wan.emulation import Link

Heard = Callable[[int, int], bool]
"""Told of an answer: of which peer, and of which store. False: it does not count."""


def nobodys() -> int:
    return 0


def from_anybody(peer: int, store: int) -> bool:  # noqa: ARG001
    return True


class Identity(Struct, frozen=True):
    """Who speaks, and how it proves that."""

    me: int
    secret: bytes
    epoch: Callable[[], int]
    store: Callable[[], int] = nobodys
    """The identity of our store, which everything we send names: see `membership.identity`."""
    heard: Heard = from_anybody
    wall_ms: Callable[[], int] = auth.wall_ms

    def claim(self, recipient: int, nonce: int) -> SignedHeader:
        return SignedHeader(self.me, recipient, self.epoch(), self.wall_ms(), nonce, self.store())


class LinkContext(Struct, frozen=True):
    """What the link needs from outside."""

    clock: Clock
    dice: Dice
    link: Link
    ssl: tls.SSLContext | None
