"""The fields a request between replicas is signed with, as records; `auth` signs and verifies. In a module of its own
because `auth` is compiled, and records cannot be."""

from msgspec import Struct


class SignedHeader(Struct, frozen=True):
    sender: int
    recipient: int
    epoch: int
    time_ms: int
    nonce: int
    store: int = 0
    """The identity of the sender's store: see `protocol.members.identity`. The operator has none."""

    def text(self) -> bytes:
        fields = (self.sender, self.recipient, self.epoch, self.time_ms, self.nonce, self.store)
        return b"%d,%d,%d,%d,%016x,%016x" % fields


class Signed(Struct, frozen=True):
    """A request that was verified, and the MAC that its answer's MAC covers."""

    header: SignedHeader
    mac: bytes
    known: bool = True
    """Whether the sender's store is on record here; if not, the answer does not name our store."""
