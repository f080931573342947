"""Who belongs to the cluster, and since which epoch. How members change: docs/protocol/membership.md."""

import enum
from collections.abc import Container
from functools import cached_property

from msgspec import Struct

from epoxy.model.quorum import MAX_REPLICAS, QuorumPolicy, Quorums, quorums

CONFIG_KEY = b"\xff/config"
"""The register that holds the configuration. Its version is the epoch, so version e + 1 is decided by epoch e alone."""

CHANGE_REQUEST_KEY = b"\xff/wish"
"""The register that holds the members somebody wants."""

FIRST_SYSTEM_KEY = b"\xff"
"""Keys from here on are the cluster's own: no text begins with this byte, and no client may use it."""


class ReplicaStatus(enum.Enum):
    """joining -> learning -> active -> leaving (-> gone)"""

    JOINING = "joining"
    LEARNING = "learning"
    ACTIVE = "active"
    LEAVING = "leaving"


class ReplicaInfo(Struct, frozen=True, kw_only=True):
    """`identity` is that of its store, 0 while nobody has written it down: a replica that lost its disk must not come
    back under its old id."""

    id: int
    status: ReplicaStatus = ReplicaStatus.ACTIVE
    url: str = ""
    identity: int = 0
    datacenter: str = ""


class Side(Struct, frozen=True):
    """One of the two groups that must both agree while an epoch is joint."""

    members: frozenset[int]
    need: int


class ClusterConfig(Struct, frozen=True, kw_only=True, dict=True):
    """The members of one epoch. `previous` names the old voters while an epoch is joint. Votes of epochs up to `sealed`
    no longer count: whatever those epochs chose was copied before they were closed. `term` is that of the ordered
    engine, one for each joint epoch that is over; its electorate is the same in all terms from `since` on.

    Invariants: 1. epoch >= 1.  2. Replica ids are unique, positive and sorted.  3. At least one replica is active.
    4. sealed < epoch.  5. since <= term < epoch.

    What follows from the fields is worked out once (`dict` makes room for it): every message asks for it.
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
        """Those who vote; the new side, while joint."""
        return tuple(replica.id for replica in self.replicas if replica.status is ReplicaStatus.ACTIVE)

    @cached_property
    def replica_ids(self) -> tuple[int, ...]:
        """Those who hear of commits: learners too."""
        return tuple(replica.id for replica in self.replicas)

    @cached_property
    def electorate(self) -> tuple[int, ...]:
        """Those among whom the fast votes that count were cast: the old side, while joint."""
        return self.active if self.previous is None else self.previous

    @cached_property
    def voters(self) -> tuple[int, ...]:
        """Everybody who is asked for a vote."""
        return self.active if self.previous is None else tuple(sorted({*self.previous, *self.active}))

    @cached_property
    def quorums(self) -> Quorums:
        """The sizes for the electorate."""
        return quorums(len(self.electorate), self.quorum_policy)

    @cached_property
    def sides(self) -> tuple[Side, ...] | None:
        """None, unless joint."""
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
        """The voters without me."""
        return self._others.get(me, self.voters)

    @cached_property
    def _others(self) -> dict[int, tuple[int, ...]]:
        return {me: tuple(voter for voter in self.voters if voter != me) for me in self.voters}

    def info(self, replica_id: int) -> ReplicaInfo | None:
        return next((replica for replica in self.replicas if replica.id == replica_id), None)


def both_sides(sides: tuple[Side, ...], replicas: Container[int]) -> bool:
    """A slow quorum of the old members and one of the new."""
    return all(sum(member in replicas for member in side.members) >= side.need for side in sides)


def first_epoch(ids: tuple[int, ...], policy: QuorumPolicy = QuorumPolicy.OPTIMAL) -> ClusterConfig:
    """Epoch 1 of a cluster whose members all vote."""
    members = tuple(ReplicaInfo(id=replica_id) for replica_id in sorted(ids))
    return ClusterConfig(epoch=1, coordinator_id=members[0].id, replicas=members, quorum_policy=policy)
