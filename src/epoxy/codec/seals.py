"""Seals of frames: HMAC-SHA256 (RFC 2104) under a key of one direction of one connection, with a running number.

A frame is accepted once, at its own place: a changed, repeated, dropped or inserted one has another number or other
bytes than its seal. Links between replicas and those between agents both use them; how the key is made is theirs.
"""

import hashlib
import hmac

SEAL_BYTES = 32

BLOCK_BYTES = 64
"""Of SHA-256."""


def pads(secret: bytes) -> tuple["hashlib._Hash", "hashlib._Hash"]:
    """The part of HMAC that depends on the key alone, to be copied for each message. It is half the work for a short
    one, and an object of `hmac` takes as long to copy as the other half."""
    key = (hashlib.sha256(secret).digest() if len(secret) > BLOCK_BYTES else secret).ljust(BLOCK_BYTES, b"\x00")
    return hashlib.sha256(bytes([byte ^ 0x36 for byte in key])), hashlib.sha256(bytes([byte ^ 0x5C for byte in key]))


class Seals:
    """Of one direction of one connection, in order."""

    def __init__(self, key: bytes) -> None:
        self._inner, self._outer = pads(key)
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
