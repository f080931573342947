"""The configuration of a cluster: its members in one epoch. How members change: docs/protocol/membership.md."""

import enum
from collections.abc import Container
from functools import cached_property

from msgspec import Struct

from epoxy.model.node_urls import split_urls
from epoxy.model.quorum import MAX_REPLICAS, QuorumPolicy, Quorums, quorums

CONFIG_KEY = b"\xff/config"
"""The key of the configuration. Its version is the epoch, so version e + 1 is decided by the members of epoch e."""

CHANGE_REQUEST_KEY = b"\xff/wish"
"""The key of the last change request: the members an operator wants. (The name of the key is older than the term.)"""

FIRST_SYSTEM_KEY = b"\xff"
"""Keys from here on are the cluster's own, and refused to clients. No UTF-8 text begins with this byte."""


def cluster_name(cluster: str) -> str:
    """In words; `cluster` is the id of one that was made from a backup, and empty for all others."""
    return f"cluster {cluster}" if cluster else "a cluster that was not made from a backup"


class ReplicaStatus(enum.Enum):
    """joining -> learning -> active -> leaving (-> gone)"""

    JOINING = "joining"
    LEARNING = "learning"
    ACTIVE = "active"
    LEAVING = "leaving"


class ReplicaInfo(Struct, frozen=True, kw_only=True):
    """`identity` is that of its store, 0 until it is recorded: a replica that lost its disk must not come back under
    its old id. `url`: its addresses, with commas between them (`node_urls`)."""

    id: int
    status: ReplicaStatus = ReplicaStatus.ACTIVE
    url: str = ""
    identity: int = 0
    datacenter: str = ""

    @property
    def urls(self) -> tuple[str, ...]:
        return split_urls(self.url)


class Side(Struct, frozen=True):
    """One of the two groups of which a joint epoch needs a quorum each."""

    members: frozenset[int]
    need: int


class ClusterConfig(Struct, frozen=True, kw_only=True, dict=True):
    """The members of one epoch. `previous`: the old voters, in a joint epoch. Votes of epochs up to `sealed` no longer
    count: what those epochs chose was copied before they were closed. `term` is that of the ordered engine, and rises
    with each joint epoch that ends; its electorate is the same in all terms from `since` on.

    Invariants: 1. epoch >= 1.  2. Replica ids are unique, positive and sorted.  3. At least one replica is active.
    4. sealed < epoch.  5. since <= term < epoch.

    Properties are computed once (`dict` makes room for them), because every message needs them.
    """

    epoch: int
    coordinator_id: int
    replicas: tuple[ReplicaInfo, ...]
    previous: tuple[int, ...] | None = None
    quorum_policy: QuorumPolicy = QuorumPolicy.OPTIMAL
    sealed: int = 0
    term: int = 0
    since: int = 0

    def __post_init__(self) -> None:
        ids = [replica.id for replica in self.replicas]
        assert self.epoch >= 1, self
        assert ids == sorted(set(ids)), "replica ids are unique and sorted"
        assert 1 <= len(ids) <= MAX_REPLICAS, self
        assert ids[0] > 0, "replica id 0 belongs to legacy values"
        assert 0 <= self.sealed < self.epoch, self
        assert 0 <= self.since <= self.term < self.epoch, self
        assert self.active, "a cluster without active replicas decides nothing"

    @cached_property
    def active(self) -> tuple[int, ...]:
        """The members that vote; in a joint epoch, the new side."""
        return tuple(replica.id for replica in self.replicas if replica.status is ReplicaStatus.ACTIVE)

    @cached_property
    def replica_ids(self) -> tuple[int, ...]:
        """All members, learners too: the recipients of commits."""
        return tuple(replica.id for replica in self.replicas)

    @cached_property
    def electorate(self) -> tuple[int, ...]:
        """The members whose fast votes count: in a joint epoch, the old side."""
        return self.active if self.previous is None else self.previous

    @cached_property
    def voters(self) -> tuple[int, ...]:
        """All members that are asked for votes: in a joint epoch, both sides."""
        return self.active if self.previous is None else tuple(sorted({*self.previous, *self.active}))

    @cached_property
    def quorums(self) -> Quorums:
        """The sizes for the electorate."""
        return quorums(len(self.electorate), self.quorum_policy)

    @cached_property
    def sides(self) -> tuple[Side, ...] | None:
        """None, unless the epoch is joint."""
        if self.previous is None:
            return None
        return tuple(
            Side(frozenset(members), quorums(len(members), self.quorum_policy).slow)
            for members in (self.previous, self.active)
        )

    @property
    def is_joint(self) -> bool:
        return self.previous is not None

    def others(self, me: int) -> tuple[int, ...]:
        """The voters without `me`."""
        return self._others.get(me, self.voters)

    @cached_property
    def _others(self) -> dict[int, tuple[int, ...]]:
        return {me: tuple(voter for voter in self.voters if voter != me) for me in self.voters}

    def info(self, replica_id: int) -> ReplicaInfo | None:
        return next((replica for replica in self.replicas if replica.id == replica_id), None)


def both_sides(sides: tuple[Side, ...], replicas: Container[int]) -> bool:
    """Whether these contain a slow quorum of the old members and one of the new."""
    return all(sum(member in replicas for member in side.members) >= side.need for side in sides)


def first_epoch(ids: tuple[int, ...], policy: QuorumPolicy = QuorumPolicy.OPTIMAL) -> ClusterConfig:
    """Epoch 1 of a cluster whose members all vote."""
    members = tuple(ReplicaInfo(id=replica_id) for replica_id in sorted(ids))
    return ClusterConfig(epoch=1, coordinator_id=members[0].id, replicas=members, quorum_policy=policy)
