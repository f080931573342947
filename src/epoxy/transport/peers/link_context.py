"""What all links of a node share. In a module of its own because `peer` is compiled, and records cannot be."""

from collections.abc import Callable

from msgspec import Struct

from epoxy.model.versions import PeerVersions
from epoxy.ports import Clock, Dice
from epoxy.transport.peers import auth
from epoxy.transport.peers.keyring import Keyring
from epoxy.transport.peers.signed_header import SignedHeader
from epoxy.transport.peers.store_gate import StoreGate
from epoxy.transport.tls import ContextOf
from epoxy.transport.wan.emulation import Link


class Identity(Struct):
    """This node as a sender: its id, its secrets, its epoch, its store. `gate` is set before the first link is made."""

    me: int
    keys: Keyring
    epoch: Callable[[], int]
    gate: StoreGate
    wall_ms: Callable[[], int] = auth.wall_ms
    versions: PeerVersions | None = None
    """Of the wire. None: of links that are not frames between replicas."""

    def header(self, recipient: int, nonce: int) -> SignedHeader:
        return SignedHeader(self.me, recipient, self.epoch(), self.wall_ms(), nonce, self.gate.greeting(recipient))


class LinkContext(Struct, frozen=True):
    clock: Clock
    dice: Dice
    link: Link
    ssl: ContextOf | None
