"""Configurations: who votes, who hears, and what no configuration may be."""

import pytest

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus, first_epoch
from epoxy.model.quorum import MAX_REPLICAS, QuorumPolicy, quorums

ACTIVE, JOINING, LEARNING, LEAVING = (
    ReplicaStatus.ACTIVE,
    ReplicaStatus.JOINING,
    ReplicaStatus.LEARNING,
    ReplicaStatus.LEAVING,
)


def members(*statuses: ReplicaStatus) -> tuple[ReplicaInfo, ...]:
    return tuple(ReplicaInfo(id=i, status=status) for i, status in enumerate(statuses, start=1))


def test_only_active_replicas_vote() -> None:
    config = ClusterConfig(epoch=4, coordinator_id=2, replicas=members(ACTIVE, JOINING, LEARNING, LEAVING, ACTIVE))
    assert config.active == (1, 5)
    assert config.replica_ids == (1, 2, 3, 4, 5)
    assert config.quorums == quorums(2)


def test_the_policy_sets_the_quorums() -> None:
    assert first_epoch((1, 2, 3)).quorums.fast == 2
    assert first_epoch((1, 2, 3), QuorumPolicy.FAST_PAXOS).quorums.fast == 3


def test_the_first_epoch_sorts_its_members_and_all_of_them_vote() -> None:
    config = first_epoch((3, 1, 2))
    assert (config.epoch, config.coordinator_id, config.active, config.previous) == (1, 1, (1, 2, 3), None)


@pytest.mark.parametrize(
    ("epoch", "replicas"),
    [
        (0, members(ACTIVE)),
        (1, ()),
        (1, members(JOINING, LEARNING)),
        (1, (ReplicaInfo(id=2), ReplicaInfo(id=1))),
        (1, (ReplicaInfo(id=1), ReplicaInfo(id=1))),
        (1, (ReplicaInfo(id=0), ReplicaInfo(id=1))),
        (1, (ReplicaInfo(id=-1), ReplicaInfo(id=1))),
        (1, members(*[ACTIVE] * (MAX_REPLICAS + 1))),
    ],
    ids=["epoch 0", "no replica", "no voter", "unsorted", "twice", "legacy's id", "negative", "too many"],
)
def test_invalid_configurations_are_refused(epoch: int, replicas: tuple[ReplicaInfo, ...]) -> None:
    with pytest.raises(AssertionError):
        ClusterConfig(epoch=epoch, coordinator_id=1, replicas=replicas)
