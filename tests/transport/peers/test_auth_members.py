"""Nodes that would count differently do not talk, and a node does not forget how it counted."""

import pytest

from epoxy.model.cluster import ClusterConfig, first_epoch
from epoxy.model.quorum import QuorumPolicy
from epoxy.transport.peers.auth import BadSignature, Verifier, peer_secret, sign, wall_ms
from epoxy.transport.peers.signed_header import SignedHeader

SECRET = b"0123456789abcdef"


@pytest.mark.parametrize(
    "other",
    [first_epoch((1, 2, 4)), first_epoch((1, 2)), first_epoch((1, 2, 3), QuorumPolicy.FAST_PAXOS)],
    ids=["another member", "one less", "other quorums"],
)
def test_those_who_count_differently_do_not_understand_each_other(other: ClusterConfig) -> None:
    assert peer_secret(SECRET, first_epoch((1, 2, 3))) != peer_secret(SECRET, other)


def test_a_cluster_made_from_a_backup_understands_only_itself() -> None:
    config = first_epoch((1, 2, 3))
    secrets = {peer_secret(SECRET, config, cluster) for cluster in ("", "00000000000000aa", "00000000000000bb")}
    assert len(secrets) == 3
    verifier = Verifier(1, peer_secret(SECRET, config, "00000000000000aa"), cluster="00000000000000aa")
    header = SignedHeader(sender=2, recipient=1, epoch=1, time_ms=wall_ms(), nonce=1)
    value, _ = sign(peer_secret(SECRET, config), header, b"/x", b"")
    with pytest.raises(BadSignature, match=r"cluster id \(of replica 1: 00000000000000aa\)"):
        verifier.verify({b"authorization": value}, b"/x", b"")


def test_those_who_count_alike_do() -> None:
    assert peer_secret(SECRET, first_epoch((1, 2, 3))) == peer_secret(SECRET, first_epoch((3, 2, 1)))
