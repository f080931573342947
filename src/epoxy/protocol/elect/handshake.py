"""Who may speak on the control port: a handshake of three lines, in which both sides prove the cluster's secret.

    dialer    HELLO 2 <cluster> <dialer> <acceptor> <config hash> <lists> <nonce>
    acceptor  HELLO 2 <cluster> <acceptor> <dialer> <config hash> <lists> <nonce> <proof>
    dialer    PROOF <proof>

A proof is an HMAC-SHA256 under the secret over both HELLOs and the side it is from, so it can be neither replayed nor
sent back to where it came from. The hash of the config and the lists of nodes are compared before anything is proved:
nodes with other times, or that count lists which do not follow each other, do not listen to each other, and the
operator must read which is which.
"""

import hmac

from msgspec import Struct

from epoxy.protocol.elect.config import ElectConfig, fingerprint
from epoxy.protocol.elect.lists import Lists, applied, compatible, unknown

VERSION = "2"
NONCE_BYTES = 16
"""128 bits are never drawn twice."""


class HandshakeRefused(Exception):
    """Why a connection was closed before anything was said. It names the setting to look at."""


class Party(Struct, frozen=True, kw_only=True):
    """One side's view of who it is."""

    cluster: str
    me: str
    config_hash: str
    lists: str
    secret: bytes
    known: frozenset[str]
    """The ids it would speak to."""


def party_of(config: ElectConfig, me: str, secret: bytes, lists: Lists | None) -> Party:
    """`lists`: those that count, as far as this node knows; None: it has no memory, and knows its file alone."""
    return Party(
        cluster=config.cluster,
        me=me,
        config_hash=fingerprint(config),
        lists=lists.words() if lists is not None else unknown(config),
        secret=secret,
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

    def words(self) -> list[str]:
        return [self.version, self.cluster, self.sender, self.receiver, self.config_hash, self.lists, self.nonce]


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
        raise HandshakeRefused(f"version {theirs.version!r} of the protocol; this node speaks {VERSION}")
    if theirs.cluster != party.cluster:
        raise HandshakeRefused(f"cluster.name: {theirs.cluster!r}; this node is in {party.cluster!r}")
    if theirs.receiver != party.me:
        raise HandshakeRefused(f"nodes.control: looking for {theirs.receiver!r}; this is {party.me!r}")
    if theirs.sender not in party.known:
        raise HandshakeRefused(f"nodes.id: {theirs.sender!r} is no other node of this cluster")
    if theirs.config_hash != party.config_hash:
        raise HandshakeRefused(f"timing: {theirs.sender!r} has other times (hash {theirs.config_hash[:12]}...)")
    if not same_lists(party, theirs):
        raise HandshakeRefused(
            f"nodes: {theirs.sender!r} counts another list ({theirs.lists}; here {party.lists}): give all the same "
            f"file, one after the other"
        )


def same_lists(party: Party, theirs: ElectHello) -> bool:
    return compatible(party.lists, theirs.lists)


def prove(secret: bytes, side: str, first: ElectHello, second: ElectHello) -> str:
    said = "\n".join(["elect", side, *first.words(), *second.words()])
    return hmac.digest(secret, said.encode(), "sha256").hex()


def check_proof(secret: bytes, side: str, first: ElectHello, second: ElectHello, proof: str) -> None:
    if not hmac.compare_digest(prove(secret, side, first, second).encode(), proof.encode()):
        raise HandshakeRefused("cluster.secret_file: the other side has another secret")
