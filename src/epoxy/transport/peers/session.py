"""A connection between peers that has been greeted, and what its frames are sealed with.

    secret      what peers sign with (`auth.peer_secret`)
    greeting    the MAC of the request that asked for frames, over both replicas, epoch, time, store and a nonce
    nonce       drawn by whoever was greeted
    proof       HMAC-SHA256(secret, "switched\\n" greeting "\\n" nonce)
    key         HMAC-SHA256(secret, way "\\n" greeting "\\n" nonce)         one for each way: questions, answers
    seal        HMAC-SHA256(key, number u64 | the frame behind its seal)    of the first frame that way, number 0

Both ends have put something new into the keys, so what was recorded of one connection means nothing on another, and a
frame is good at its own place on its own connection, once. Nothing needs to be remembered for that, and no clock.
"""

import hmac
import os

from epoxy.transport.peers import auth
from epoxy.transport.peers.signed_header import Signed, SignedHeader

SEAL_BYTES = 32

NONCE_BYTES = 16
"""Of whoever is greeted. No two of that length are drawn alike."""


class Seals:
    """Of one way of one connection, in order."""

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

    def fits(self, seal: bytes, head: bytes, body: bytes) -> bool:
        """Whether this is the next frame. If it is not, nothing behind it can be trusted either."""
        return hmac.compare_digest(seal, self.next(head, body))


class PeerSession:
    """One end's view. `claim` is that of the one who greeted, and `store` that of the one who was."""

    def __init__(self, secret: bytes, greeting: bytes, nonce: bytes, claim: SignedHeader, store: int = 0) -> None:
        self.claim = claim
        self.store = store
        self.nonce = nonce
        self.proof = derived(secret, b"switched", greeting, nonce)
        self.questions = Seals(derived(secret, b"questions", greeting, nonce))
        self.answers = Seals(derived(secret, b"answers", greeting, nonce))

    def of_epoch(self, epoch: int) -> SignedHeader:
        """Who speaks, now that its epoch is this one."""
        claim = self.claim
        if claim.epoch != epoch:
            claim = SignedHeader(claim.sender, claim.recipient, epoch, claim.time_ms, claim.nonce, claim.store)
            self.claim = claim
        return claim


def derived(secret: bytes, way: bytes, greeting: bytes, nonce: bytes) -> bytes:
    """The words before the nonce hold no line end, so no two derivations read the same."""
    return hmac.digest(secret, b"%b\n%b\n%b" % (way, greeting, nonce), "sha256")


def greeted(secret: bytes, signed: Signed, store: int) -> PeerSession:
    """`signed`: the greeting, which was verified."""
    return PeerSession(secret, signed.mac, os.urandom(NONCE_BYTES), signed.claim, store)
