"""Who belongs to the cluster, and since which epoch."""

import enum

from msgspec import Struct

from epoxy.model.quorum import MAX_REPLICAS, QuorumPolicy, Quorums, quorums


class ReplicaStatus(enum.Enum):
    """joining -> learning -> active -> leaving (-> gone)"""

    JOINING = "joining"
    LEARNING = "learning"
    ACTIVE = "active"
    LEAVING = "leaving"


class ReplicaInfo(Struct, frozen=True, kw_only=True):
    id: int
    status: ReplicaStatus = ReplicaStatus.ACTIVE
    url: str = ""


class ClusterConfig(Struct, frozen=True, kw_only=True):
    """The members of one epoch. `previous` names the old voters while an epoch is joint.

    Invariants: 1. epoch >= 1.  2. Replica ids are unique, positive and sorted.  3. At least one replica is active.
    """

    epoch: int
    coordinator_id: int
    replicas: tuple[ReplicaInfo, ...]
    previous: tuple[int, ...] | None = None
    quorum_policy: QuorumPolicy = QuorumPolicy.OPTIMAL

    def __post_init__(self) -> None:
        ids = [replica.id for replica in self.replicas]
        assert self.epoch >= 1, self
        assert ids == sorted(set(ids)), "replica ids are unique and sorted"
        assert 1 <= len(ids) <= MAX_REPLICAS, self
        assert ids[0] > 0, "replica id 0 belongs to legacy values"
        assert self.active, "a cluster without active replicas decides nothing"

    @property
    def active(self) -> tuple[int, ...]:
        """Those who vote."""
        return tuple(replica.id for replica in self.replicas if replica.status is ReplicaStatus.ACTIVE)

    @property
    def everybody(self) -> tuple[int, ...]:
        """Those who hear of commits: learners too."""
        return tuple(replica.id for replica in self.replicas)

    @property
    def quorums(self) -> Quorums:
        return quorums(len(self.active), self.quorum_policy)


def first_epoch(ids: tuple[int, ...], policy: QuorumPolicy = QuorumPolicy.OPTIMAL) -> ClusterConfig:
    """Epoch 1 of a cluster whose members all vote."""
    members = tuple(ReplicaInfo(id=replica_id) for replica_id in sorted(ids))
    return ClusterConfig(epoch=1, coordinator_id=members[0].id, replicas=members, quorum_policy=policy)
