"""What all links of a node share. In a module of its own because `peer` is compiled, and records cannot be."""

import ssl as tls
from collections.abc import Callable

from msgspec import Struct

from epoxy.ports import Clock, Dice
from epoxy.transport.peers import auth
from epoxy.transport.peers.signed_header import SignedHeader
from epoxy.transport.wan.emulation import Link

AcceptsAnswer = Callable[[int, int], bool]
"""Called for each answer, with the peer and the store it came from. False: the answer is ignored."""


def no_store() -> int:
    return 0


def accept_any_store(peer: int, store: int) -> bool:  # noqa: ARG001
    return True


class Identity(Struct, frozen=True):
    """This node as a sender: its id, its keys, its epoch."""

    me: int
    secret: bytes
    epoch: Callable[[], int]
    store: Callable[[], int] = no_store
    """The identity of this node's store, part of every signed header: see `protocol.members.identity`."""
    accepts_answer: AcceptsAnswer = accept_any_store
    wall_ms: Callable[[], int] = auth.wall_ms

    def header(self, recipient: int, nonce: int) -> SignedHeader:
        return SignedHeader(self.me, recipient, self.epoch(), self.wall_ms(), nonce, self.store())


class LinkContext(Struct, frozen=True):
    clock: Clock
    dice: Dice
    link: Link
    ssl: tls.SSLContext | None
