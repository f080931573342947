"""The handshake on the control port: three lines, in which both sides prove that they hold the cluster's secret.

    dialer    HELLO 3 <cluster> <dialer> <acceptor> <config hash> <lists> <nonce>
    acceptor  HELLO 3 <cluster> <acceptor> <dialer> <config hash> <lists> <nonce> <proof>
    dialer    PROOF <proof>

A proof is an HMAC-SHA256 under the secret over both HELLOs and the side it is from, so it can be neither replayed nor
reflected. The key of the frames that follow is made in the same way. While a secret is being replaced a node holds two:
the acceptor proves with its first one, the dialer takes any of its own and answers with the same. The hash of the
config and the lists of nodes are compared first: nodes with different timing, or whose lists do not follow each other,
refuse each other, and the error names the setting for the operator.
"""

import hmac
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import astuple

from epoxy.protocol.elect.config import ElectConfig, fingerprint
from epoxy.protocol.elect.lists import Lists, applied, compatible, unknown

VERSION = "3"
"""2 had no seals. An agent of another version is told this one, and logs it."""

NONCE_BYTES = 16
"""128 bits are never drawn twice."""


class HandshakeRefused(Exception):
    """Why a handshake failed. Names the setting to look at."""


class OtherVersion(HandshakeRefused):
    """The other side speaks another version of the protocol."""


class Party(Struct, frozen=True, kw_only=True):
    """One side of a handshake."""

    cluster: str
    me: str
    config_hash: str
    lists: str
    secrets: tuple[bytes, ...]
    """The first is spoken, all are accepted."""
    known: frozenset[str]
    """The ids of the nodes it accepts."""


def party_of(config: ElectConfig, me: str, secrets: tuple[bytes, ...], lists: Lists | None) -> Party:
    """`lists`: those that count; None for a node without a record, which knows only its file."""
    return Party(
        cluster=config.cluster,
        me=me,
        config_hash=fingerprint(config),
        lists=lists.words() if lists is not None else unknown(config),
        secrets=secrets,
        known=frozenset((applied(lists, config) if lists is not None else config).others(me)),
    )


class ElectHello(Struct, frozen=True, kw_only=True):
    version: str
    cluster: str
    sender: str
    receiver: str
    config_hash: str
    lists: str
    nonce: str

    def words(self) -> tuple[str, ...]:
        """In the order of the wire."""
        words: tuple[str, ...] = astuple(self)
        return words


def hello(party: Party, receiver: str, nonce: bytes) -> ElectHello:
    return ElectHello(
        version=VERSION,
        cluster=party.cluster,
        sender=party.me,
        receiver=receiver,
        config_hash=party.config_hash,
        lists=party.lists,
        nonce=nonce.hex(),
    )


def check_hello(party: Party, theirs: ElectHello) -> None:
    if theirs.version != VERSION:
        raise OtherVersion(
            f"version {theirs.version!r} of the protocol; this node speaks {VERSION}: run the same release everywhere"
        )
    if theirs.cluster != party.cluster:
        raise HandshakeRefused(f"cluster.name: {theirs.cluster!r}; this node is in {party.cluster!r}")
    if theirs.receiver != party.me:
        raise HandshakeRefused(f"nodes.control: looking for {theirs.receiver!r}; this is {party.me!r}")
    if theirs.sender not in party.known:
        raise HandshakeRefused(f"nodes.id: {theirs.sender!r} is not another node of this cluster")
    if theirs.config_hash != party.config_hash:
        raise HandshakeRefused(f"timing: {theirs.sender!r} has other timing (hash {theirs.config_hash[:12]}...)")
    if not compatible(party.lists, theirs.lists):
        raise HandshakeRefused(
            f"nodes: {theirs.sender!r} counts another list ({theirs.lists}; here {party.lists}): give all "
            f"agents the same file, by a rolling restart"
        )


def other_version() -> ElectHello:
    """The answer to a HELLO of another version: a HELLO that tells nothing but the version of this node. All versions
    look at it first."""
    return ElectHello(version=VERSION, cluster="", sender="", receiver="", config_hash="", lists="", nonce="")


def prove(secret: bytes, side: str, first: ElectHello, second: ElectHello) -> str:
    return derive(secret, side, first, second).hex()


def derive(secret: bytes, purpose: str, first: ElectHello, second: ElectHello) -> bytes:
    """Words of a HELLO hold no line end, so no two handshakes and purposes have the same input."""
    said = "\n".join(["elect", purpose, *first.words(), *second.words()])
    return hmac.digest(secret, said.encode(), "sha256")


def check_proof(secrets: Sequence[bytes], side: str, first: ElectHello, second: ElectHello, proof: str) -> bytes:
    """The secret that the proof was made with."""
    for secret in secrets:
        if hmac.compare_digest(prove(secret, side, first, second).encode(), proof.encode()):
            return secret
    raise HandshakeRefused("cluster.secret_file: the other side has a different secret")
