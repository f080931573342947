"""The keys of one connection between peers, made in its handshake, and the seals of its frames.

    secret      what peers sign with (`auth.peer_secret`)
    mac         the MAC of the request that asked for frames: it covers both replicas, epoch, time, store and a nonce
    nonce       drawn by the server
    proof       HMAC-SHA256(secret, "switched\\n" mac "\\n" nonce)
    key         HMAC-SHA256(secret, direction "\\n" mac "\\n" nonce)      for each direction: "questions", "answers"
    seal        HMAC-SHA256(key, number u64 | the frame behind its seal)  numbers count from 0 in each direction

Both ends contribute a fresh number to the keys, so bytes recorded on one connection are refused on any other, and a
frame is accepted once, at its own place. No nonces have to be remembered for that, and no clock is read.
"""

import hmac
import os

from epoxy.transport.peers import auth
from epoxy.transport.peers.signed_header import Signed, SignedHeader

SEAL_BYTES = 32

NONCE_BYTES = 16
"""Of the server. No two of this length are drawn alike."""


class Seals:
    """Of one direction of one connection, in order."""

    def __init__(self, key: bytes) -> None:
        self._inner, self._outer = auth.pads(key)
        self._number = 0

    def next(self, head: bytes, body: bytes) -> bytes:
        digest = self._inner.copy()
        digest.update(self._number.to_bytes(8, "little") + head)
        digest.update(body)
        seal = self._outer.copy()
        seal.update(digest.digest())
        self._number += 1
        return seal.digest()

    def matches(self, seal: bytes, head: bytes, body: bytes) -> bool:
        """Whether this is the next frame. If not, no later one can be trusted either."""
        return hmac.compare_digest(seal, self.next(head, body))


class PeerSession:
    """Either end of a connection. `header` is the client's."""

    def __init__(self, secret: bytes, mac: bytes, nonce: bytes, header: SignedHeader) -> None:
        self.header = header
        self.nonce = nonce
        self.proof = derive_key(secret, b"switched", mac, nonce)
        self.request_seals = Seals(derive_key(secret, b"questions", mac, nonce))
        self.answer_seals = Seals(derive_key(secret, b"answers", mac, nonce))

    def header_at(self, epoch: int) -> SignedHeader:
        """The client's header with the epoch of its latest frame."""
        header = self.header
        if header.epoch != epoch:
            header = SignedHeader(header.sender, header.recipient, epoch, header.time_ms, header.nonce, header.store)
            self.header = header
        return header


def derive_key(secret: bytes, purpose: bytes, mac: bytes, nonce: bytes) -> bytes:
    """What stands before the nonce holds no line end, so no two derivations have the same input."""
    return hmac.digest(secret, b"%b\n%b\n%b" % (purpose, mac, nonce), "sha256")


def accept_handshake(secret: bytes, signed: Signed) -> PeerSession:
    """`signed`: the request that asked for frames, verified."""
    return PeerSession(secret, signed.mac, os.urandom(NONCE_BYTES), signed.header)
