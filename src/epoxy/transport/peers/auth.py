"""Requests between replicas are signed with the cluster's secret, and accepted once.

    authorization: Epoxy v3,<sender>,<recipient>,<epoch>,<time_ms>,<nonce>,<greeting>,<mac>
    epoxy-mac: <greeting>,<mac>                                                         of an answer

A greeting names the store of its sender and what the sender remembers of the other's: `signed_header`. The MAC is
HMAC-SHA256 under the secret over all of that, the address and the body. A repeated request is refused by its nonce
while its time is within the window, and afterwards by its time. The MAC of an answer covers that of its request, so an
answer can neither be forged nor moved to another request. Nothing is encrypted: that is what TLS is for.
"""

import hashlib
import hmac
import time
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache

from epoxy.codec.seals import pads
from epoxy.model.cluster import ClusterConfig
from epoxy.model.incarnation import Greeting
from epoxy.transport.peers.keyring import Keyring, SigningKey, keyring_of
from epoxy.transport.peers.signed_header import NO_GREETING, Signed, SignedHeader, greeting_text, read_greeting

WINDOW_MS = 30_000
"""How far two clocks may be apart, including a request's time in the network. Without NTP they drift a second a day."""

MAX_NONCES = 1 << 13
"""Remembered of one sender, in each of two generations: 2 MB. A sender makes 2,000 batches a second at most, so a
request that is refused for its age is at least 4 seconds old, twice what the sender waits for an answer."""

MAX_SENDERS = 256
"""Senders whose nonces are remembered: every replica a cluster can have, each replaced a few times."""

MAX_SECRETS = 8
"""A process has two, the cluster's and the one derived from it that peers sign with; and while they are replaced, four.
As many again were in use just before."""

OPERATOR = 0
"""The sender's id in requests of an operator. Ids of replicas are positive."""

SCHEME = b"Epoxy v3,"
ANY_SCHEME = b"Epoxy v"
MAC_HEADER = b"epoxy-mac"

Admits = Callable[[int, int], bool]
"""Whether a sender is accepted, by its id and its epoch."""


class BadSignature(Exception):
    """Names the rule that failed, so that an operator can see, for one, that clocks differ."""


def peer_secret(secret: bytes, config: ClusterConfig, cluster: str = "") -> bytes:
    """The key replicas sign with: derived from the cluster's secret, its first members and its quorum policy. Replicas
    whose files disagree on these would count quorums that do not intersect, so they must refuse each other. The id of a
    cluster that was made from a backup keeps it apart from the cluster that the backup is of."""
    ids = ",".join(map(str, config.replica_ids))
    name = f"peers\n{ids}\n{config.quorum_policy.value}" + (f"\n{cluster}" if cluster else "")
    return hmac.digest(secret, name.encode(), "sha256")


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def sign(secret: bytes, header: SignedHeader, path: bytes, body: bytes) -> tuple[bytes, bytes]:
    """The value of the authorization header, and the MAC in it, which the answer's MAC covers."""
    text = header.text()
    mac = request_mac(secret, text, path, body)
    return b"%b%b,%b" % (SCHEME, text, mac), mac


def request_mac(secret: bytes, text: bytes, path: bytes, body: bytes) -> bytes:
    """The parts before the body hold no line end, so no two requests have the same input."""
    return mac_of(secret, b"request\n%b\n%b\n" % (path, text), body)


def answer_mac(secret: bytes, mac: bytes, status: int, greeting: bytes, body: bytes) -> bytes:
    return mac_of(secret, b"answer\n%b\n%d\n%b\n" % (mac, status, greeting), body)


def greeting_of(secret: bytes, mac: bytes, status: int, header: bytes, body: bytes) -> Greeting | None:
    """Of the node that answered; None: the MAC is not one of our secret for this request."""
    greeting, _, answered = header.rpartition(b",")
    if not hmac.compare_digest(answered, answer_mac(secret, mac, status, greeting, body)):
        return None
    try:
        return read_greeting(greeting.split(b","))
    except ValueError:
        return None


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


def admit_all(sender: int, epoch: int) -> bool:  # noqa: ARG001
    return True


class Verifier:
    """Accepts each signed request once. The checks that change no state come first."""

    def __init__(
        self,
        me: int,
        secret: bytes | Keyring,
        *,
        admits: Admits = admit_all,
        cluster: str = "",
        since_ms: int = 0,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        """`cluster`: as `peer_secret` has it. `since_ms`: requests that were signed earlier are refused: nonces are
        remembered by a process, so the one before it may have accepted them."""
        self.me = me
        self.keys = keyring_of(secret)
        self._admits = admits
        self._cluster = cluster or "none, it was not made from a backup"
        self._since_ms = since_ms
        self._now_ms = now_ms
        self._seen: dict[int, Nonces] = {}

    def verify(self, headers: Mapping[bytes, bytes], path: bytes, body: bytes) -> Signed:
        header, text, mac = read_authorization(headers.get(b"authorization", b""))
        key = self._key_of(mac, text, path, body)
        if key is None:
            raise BadSignature(
                "not signed with our secret by a node with our members, quorum_policy and cluster id "
                f"(of replica {self.me}: {self._cluster})"
            )
        if header.recipient != self.me:
            raise BadSignature(f"meant for replica {header.recipient}; this is {self.me}")
        if abs(self._now_ms() - header.time_ms) > WINDOW_MS:
            apart_s = (header.time_ms - self._now_ms()) / 1000
            how_far = f"{abs(apart_s):.0f} s {'ahead of' if apart_s > 0 else 'behind'} that of replica {self.me}"
            raise BadSignature(f"the sender's clock is {how_far}, more than {WINDOW_MS // 1000}: compare them")
        if header.time_ms < self._since_ms:
            raise BadSignature(f"signed before replica {self.me} started, by the clocks: sign and send it again")
        self.check_membership(header)
        if not self._nonces(header.sender).add(header.nonce, header.time_ms, self._now_ms()):
            raise BadSignature("a repetition")
        return Signed(header, mac, key)

    def _key_of(self, mac: bytes, text: bytes, path: bytes, body: bytes) -> SigningKey | None:
        """The key a request was signed with. None: it is not one of ours."""
        for key in self.keys.keys:
            if hmac.compare_digest(mac, request_mac(key.secret, text, path, body)):
                return key
        return None

    def check_membership(self, header: SignedHeader) -> None:
        if header.sender != OPERATOR and not self._admits(header.sender, header.epoch):
            raise BadSignature(f"replica {header.sender} has no part in epoch {header.epoch}")

    def _nonces(self, sender: int) -> "Nonces":
        found = self._seen.get(sender)
        if found is None:
            if len(self._seen) >= MAX_SENDERS:
                raise BadSignature(f"{MAX_SENDERS} other senders are remembered already")
            found = self._seen[sender] = Nonces()
        return found

    def forget_all_but(self, senders: Collection[int]) -> None:
        """Of senders whose ids never come back. What they signed may be repeated within the window, so this is for
        requests that open a session, which nothing but the secret can use."""
        for gone in [sender for sender in self._seen if sender not in senders]:
            del self._seen[gone]

    def answer(self, signed: Signed, status: int, body: bytes, greeting: Greeting = NO_GREETING) -> tuple[bytes, bytes]:
        """The header line that authenticates the answer."""
        text = greeting_text(greeting)
        mac = answer_mac(signed.key.secret, signed.mac, status, text, body)
        return MAC_HEADER, b"%b,%b" % (text, mac)


def read_authorization(value: bytes) -> tuple[SignedHeader, bytes, bytes]:
    """The header, the text it was read from, and the MAC. Numbers have one spelling, so the text is what was signed."""
    if not value.startswith(SCHEME):
        if value.startswith(ANY_SCHEME):
            raise BadSignature(f"signed as another release does: this one speaks {SCHEME[:-1].decode()}")
        raise BadSignature("peers sign their requests with the cluster's secret; this one is not signed")
    text, _, mac = value.removeprefix(SCHEME).rpartition(b",")
    fields = text.split(b",")
    try:
        sender, recipient, epoch, time_ms = map(int, fields[:4])
        header = SignedHeader(sender, recipient, epoch, time_ms, int(fields[4], 16), read_greeting(fields[5:]))
    except (ValueError, IndexError):
        raise BadSignature("a signature that cannot be read") from None
    if header.text() != text:
        raise BadSignature("a signature in an unusual spelling")
    return header, text, mac


class Nonces:
    """The recent nonces of one sender, in two generations. A request not younger than the last forgotten one may be a
    repetition, and is refused. Ages are by the sender's own clock: another sender's may be ahead."""

    def __init__(self) -> None:
        self._young: set[int] = set()
        self._old: set[int] = set()
        self._began_ms = 0
        self._young_newest_ms = self._old_newest_ms = self._forgotten_ms = 0

    def add(self, nonce: int, time_ms: int, now_ms: int) -> bool:
        """False: it was there before, or may have been."""
        if time_ms <= self._forgotten_ms or nonce in self._young or nonce in self._old:
            return False
        # A nonce matters while its time is within the window on either side of now: for two windows.
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
