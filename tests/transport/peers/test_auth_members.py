"""Nodes that would count differently do not talk, and a node does not forget how it counted."""

import pytest

from epoxy.model.cluster import ClusterConfig, first_epoch
from epoxy.model.quorum import QuorumPolicy
from epoxy.transport.peers.auth import peer_secret

SECRET = b"0123456789abcdef"


@pytest.mark.parametrize(
    "other",
    [first_epoch((1, 2, 4)), first_epoch((1, 2)), first_epoch((1, 2, 3), QuorumPolicy.FAST_PAXOS)],
    ids=["another member", "one less", "other quorums"],
)
def test_those_who_count_differently_do_not_understand_each_other(other: ClusterConfig) -> None:
    assert peer_secret(SECRET, first_epoch((1, 2, 3))) != peer_secret(SECRET, other)


def test_those_who_count_alike_do() -> None:
    assert peer_secret(SECRET, first_epoch((1, 2, 3))) == peer_secret(SECRET, first_epoch((3, 2, 1)))
