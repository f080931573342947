"""The secrets that requests between replicas are signed with: the first is spoken, all are accepted.

So a secret is replaced without a stop, in three steps over all nodes: [old, new], [new, old], [new]. At every moment
each node accepts what each other one speaks. What was made with a secret that is in no file any more has to end:
sessions look at `retired` of their key.
"""

import hmac
from collections.abc import Iterable

FINGERPRINT_BYTES = 3
"""Enough to tell a handful of secrets apart, and far too little to find one of 128 bits by it."""


class SigningKey:
    """One secret. `fingerprint` may be shown."""

    __slots__ = ("fingerprint", "retired", "secret")

    def __init__(self, secret: bytes, fingerprint: str = "") -> None:
        self.secret = secret
        self.retired = False
        self.fingerprint = fingerprint or fingerprint_of(secret)


class Keyring:
    """`keys` is replaced as a whole, and never empty."""

    def __init__(self, *keys: SigningKey) -> None:
        assert keys, "a request has to be signed with something"
        self.keys = keys

    @property
    def spoken(self) -> SigningKey:
        return self.keys[0]

    def replace(self, keys: Iterable[SigningKey]) -> None:
        """A secret that stays keeps its key, and sessions made with it go on."""
        known = {key.secret: key for key in self.keys}
        kept = tuple([known.pop(key.secret, key) for key in keys])
        assert kept, "a request has to be signed with something"
        for gone in known.values():
            gone.retired = True
        self.keys = kept


def keyring_of(secret: bytes | Keyring) -> Keyring:
    """Of one secret, which is never replaced; or as given."""
    return secret if isinstance(secret, Keyring) else Keyring(SigningKey(secret))


def fingerprint_of(secret: bytes) -> str:
    return hmac.digest(secret, b"fingerprint", "sha256")[:FINGERPRINT_BYTES].hex()
