"""What a signed request says of itself. Who signs and who verifies: `auth`, which is compiled, as records cannot be."""

from msgspec import Struct


class SignedHeader(Struct, frozen=True):
    """What a request says of itself."""

    sender: int
    recipient: int
    epoch: int
    time_ms: int
    nonce: int
    store: int = 0
    """The identity of the sender's store: see `membership.identity`. The operator has none."""

    def words(self) -> bytes:
        return b"%d,%d,%d,%d,%016x,%016x" % (
            self.sender,
            self.recipient,
            self.epoch,
            self.time_ms,
            self.nonce,
            self.store,
        )


class Signed(Struct, frozen=True):
    """A request as it was let in, and what its answer is signed with."""

    claim: SignedHeader
    mac: bytes
    known: bool = True
    """Whether the sender's store is on record here; an answer to one that is not names no store of ours."""
