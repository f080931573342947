"""Only those who hold the cluster's secret are heard, and only once.

    authorization: Epoxy v2,<sender>,<recipient>,<epoch>,<time_ms>,<nonce>,<store>,<mac>
    epoxy-mac: <store>,<mac>                                                            of an answer

The MAC is HMAC-SHA256 under the secret over all of that, the address and the body. A request that is repeated is
refused while its time is within the window, by its nonce, and afterwards by its time. The MAC of an answer covers that
of its request, so an answer cannot be made up or moved to another question either. What is said stays readable: that
is what TLS is for.
"""

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from functools import lru_cache

from epoxy.model.cluster import ClusterConfig
from epoxy.transport.peers.signed_header import Signed, SignedHeader

WINDOW_MS = 30_000
"""How far two clocks may be apart, with what a request spends on its way. Unattended, they drift a second a day."""

MAX_NONCES = 1 << 13
"""Remembered of one sender, in each of two generations: 2 MB. A sender makes 2,000 batches a second at most, so what it
refuses for its age is 4 seconds old, twice what the sender waits for an answer."""

MAX_SENDERS = 256
"""Whose nonces are remembered: every replica a cluster can have, all of them replaced a few times."""

BLOCK_BYTES = 64
"""Of SHA-256."""

MAX_SECRETS = 4
"""A process has two: the cluster's, and the one made of it that peers sign with."""

OPERATOR = 0
"""The sender of requests that no replica makes. Ids of replicas are positive."""

SCHEME = b"Epoxy v2,"
MAC_HEADER = b"epoxy-mac"
NO_STORE = b"%016x" % 0

Admits = Callable[[int, int], bool]
"""Whether a sender may speak, by its id and its epoch."""


class Unauthenticated(Exception):
    """Says which of the rules failed: an operator whose clocks differ must be able to see that."""


def peer_secret(secret: bytes, config: ClusterConfig) -> bytes:
    """What replicas sign with: the cluster's secret, and who was in it and how they counted when it began. Replicas
    whose files disagree on that would count quorums that do not meet, so they must not understand each other."""
    ids = ",".join(map(str, config.replica_ids))
    return hmac.digest(secret, f"peers\n{ids}\n{config.quorum_policy.value}".encode(), "sha256")


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def sign(secret: bytes, claim: SignedHeader, path: bytes, body: bytes) -> tuple[bytes, bytes]:
    """The value of the authorization header, and the MAC in it that the answer's is made with."""
    words = claim.words()
    mac = request_mac(secret, words, path, body)
    return b"%b%b,%b" % (SCHEME, words, mac), mac


def request_mac(secret: bytes, words: bytes, path: bytes, body: bytes) -> bytes:
    """The parts before the body hold no line end, so no two requests read the same."""
    return mac_of(secret, b"request\n%b\n%b\n" % (path, words), body)


def answer_mac(secret: bytes, mac: bytes, status: int, store: bytes, body: bytes) -> bytes:
    return mac_of(secret, b"answer\n%b\n%d\n%b\n" % (mac, status, store), body)


def store_of(secret: bytes, mac: bytes, status: int, header: bytes, body: bytes) -> int | None:
    """Whose store has answered; None: nobody with our secret has, or not this question."""
    store, _, answered = header.partition(b",")
    if not hmac.compare_digest(answered, answer_mac(secret, mac, status, store, body)):
        return None
    return int(store, 16)


def mac_of(secret: bytes, head: bytes, body: bytes) -> bytes:
    """HMAC-SHA256 (RFC 2104)."""
    inner, outer = keyed(secret)
    digest = inner.copy()
    digest.update(head)
    digest.update(body)
    mac = outer.copy()
    mac.update(digest.digest())
    return mac.hexdigest().encode("ascii")


@lru_cache(maxsize=MAX_SECRETS)
def keyed(secret: bytes) -> tuple["hashlib._Hash", "hashlib._Hash"]:
    return pads(secret)


def pads(secret: bytes) -> tuple["hashlib._Hash", "hashlib._Hash"]:
    """What depends on the secret alone is half the work for a short message, and an object of `hmac` takes as long to
    copy as the rest of it."""
    key = (hashlib.sha256(secret).digest() if len(secret) > BLOCK_BYTES else secret).ljust(BLOCK_BYTES, b"\x00")
    return hashlib.sha256(bytes([byte ^ 0x36 for byte in key])), hashlib.sha256(bytes([byte ^ 0x5C for byte in key]))


def anybody(sender: int, epoch: int) -> bool:  # noqa: ARG001
    """Whoever holds the secret."""
    return True


class Verifier:
    """Lets requests in, each once. The cheap checks come first and touch nothing."""

    def __init__(
        self,
        me: int,
        secret: bytes,
        *,
        admits: Admits = anybody,
        store: int = 0,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        """`store`: the identity of ours, for those we answer."""
        self.me = me
        self.store = store
        self._named = b"%016x" % store
        self.secret = secret
        self._admits = admits
        self._now_ms = now_ms
        self._seen: dict[int, Nonces] = {}

    def verify(self, headers: Mapping[bytes, bytes], path: bytes, body: bytes) -> Signed:
        claim, words, mac = read_authorization(headers.get(b"authorization", b""))
        if not hmac.compare_digest(mac, request_mac(self.secret, words, path, body)):
            raise Unauthenticated("not signed with our secret by a node with our members and quorum_policy")
        if claim.recipient != self.me:
            raise Unauthenticated(f"meant for replica {claim.recipient}; this is {self.me}")
        if abs(self._now_ms() - claim.time_ms) > WINDOW_MS:
            apart_s = (claim.time_ms - self._now_ms()) / 1000
            how_far = f"{abs(apart_s):.0f} s {'ahead of' if apart_s > 0 else 'behind'} that of replica {self.me}"
            raise Unauthenticated(f"the sender's clock is {how_far}, more than {WINDOW_MS // 1000}: compare them")
        self.check_part(claim)
        if not self._nonces(claim.sender).add(claim.nonce, claim.time_ms, self._now_ms()):
            raise Unauthenticated("a repetition")
        return Signed(claim, mac)

    def check_part(self, claim: SignedHeader) -> None:
        if claim.sender != OPERATOR and not self._admits(claim.sender, claim.epoch):
            raise Unauthenticated(f"replica {claim.sender} has no part in epoch {claim.epoch}")

    def _nonces(self, sender: int) -> "Nonces":
        found = self._seen.get(sender)
        if found is None:
            if len(self._seen) >= MAX_SENDERS:
                raise Unauthenticated(f"{MAX_SENDERS} other senders are remembered already")
            found = self._seen[sender] = Nonces()
        return found

    def answer(self, signed: Signed, status: int, body: bytes) -> tuple[bytes, bytes]:
        """The header that proves the answer."""
        store = self._named if signed.known else NO_STORE
        mac = answer_mac(self.secret, signed.mac, status, store, body)
        return MAC_HEADER, b"%b,%b" % (store, mac)


def read_authorization(value: bytes) -> tuple[SignedHeader, bytes, bytes]:
    """The claim, the words it was read from, and the MAC. One spelling only, so the words may be signed as they are."""
    words, _, mac = value.removeprefix(SCHEME).rpartition(b",")
    fields = words.split(b",")
    if not value.startswith(SCHEME) or len(fields) != 6:
        raise Unauthenticated("peers sign their requests with the cluster's secret; this one is not signed")
    try:
        sender, recipient, epoch, time_ms = map(int, fields[:4])
        claim = SignedHeader(sender, recipient, epoch, time_ms, int(fields[4], 16), int(fields[5], 16))
    except ValueError:
        raise Unauthenticated("a signature that cannot be read") from None
    if claim.words() != words:
        raise Unauthenticated("a signature in an unusual spelling")
    return claim, words, mac


class Nonces:
    """The nonces of one sender, of the last while, in two generations. What is not younger than the last one forgotten
    is a repetition for all we know, and refused. By the sender's own clock: another's may be ahead."""

    def __init__(self) -> None:
        self._young: set[int] = set()
        self._old: set[int] = set()
        self._began_ms = 0
        self._young_newest_ms = self._old_newest_ms = self._forgotten_ms = 0

    def add(self, nonce: int, time_ms: int, now_ms: int) -> bool:
        """False: it was there, or may have been."""
        if time_ms <= self._forgotten_ms or nonce in self._young or nonce in self._old:
            return False
        # A nonce is wanted while its time is within the window, on either side of now: for two windows.
        if len(self._young) >= MAX_NONCES or now_ms - self._began_ms > 2 * WINDOW_MS:
            self._age(now_ms)
        self._young.add(nonce)
        self._young_newest_ms = max(self._young_newest_ms, time_ms)
        return True

    def _age(self, now_ms: int) -> None:
        self._forgotten_ms = max(self._forgotten_ms, self._old_newest_ms)
        self._old, self._old_newest_ms = self._young, self._young_newest_ms
        self._young, self._young_newest_ms = set(), 0
        self._began_ms = now_ms
