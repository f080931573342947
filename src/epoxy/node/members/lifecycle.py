"""The state of a node in its cluster, and why it does not serve clients."""

import enum

from msgspec import Struct

from epoxy.model.cluster import ClusterConfig, ReplicaStatus


class LifecycleState(enum.Enum):
    """Nodes serve clients while they are active or leaving."""

    STARTING = "starting"
    STOPPING = "stopping"
    NEW = "new"
    """Never a member so far."""
    JOINING = "joining"
    LEARNING = "learning"
    UNCONFIRMED = "unconfirmed"
    """Its store is unknown to most of the others."""
    ACTIVE = "active"
    LEAVING = "leaving"
    REMOVED = "removed"
    DISPLACED = "displaced"
    """Another store is recorded for its id."""


class Lifecycle(Struct, frozen=True, kw_only=True):
    state: LifecycleState
    reason: str = ""
    """Why clients are not served; empty if they are."""

    @property
    def serves(self) -> bool:
        return not self.reason


STARTING = Lifecycle(state=LifecycleState.STARTING, reason="the node is starting")
STOPPING = Lifecycle(state=LifecycleState.STOPPING, reason="the node is stopping")

FIRST_EPOCH = 1

PROMOTED = {
    ReplicaStatus.JOINING: LifecycleState.JOINING,
    ReplicaStatus.LEARNING: LifecycleState.LEARNING,
    ReplicaStatus.ACTIVE: LifecycleState.ACTIVE,
    ReplicaStatus.LEAVING: LifecycleState.LEAVING,
}


def standing(config: ClusterConfig, me: int, identity: int, *, may_vote: bool) -> Lifecycle:
    """Of replica `me` with the store of this identity."""
    info = config.info(me)
    if info is None:
        return outside(config, me)
    state = PROMOTED[info.status]
    if info.identity not in (0, identity):
        return Lifecycle(state=LifecycleState.DISPLACED, reason=displaced(me))
    if state in (LifecycleState.JOINING, LifecycleState.LEARNING):
        reason = f"replica {me} is {state.value}: it serves clients once it has copied what the others hold"
        return Lifecycle(state=state, reason=reason)
    if not may_vote:
        return Lifecycle(state=LifecycleState.UNCONFIRMED, reason=unconfirmed(me))
    return Lifecycle(state=state)


def outside(config: ClusterConfig, me: int) -> Lifecycle:
    if config.epoch == FIRST_EPOCH:
        reason = f"replica {me} is no member yet: `epoxy members add {me} URL`, at a member, makes it one"
        return Lifecycle(state=LifecycleState.NEW, reason=reason)
    reason = f"replica {me} is no member of epoch {config.epoch}: it was removed, and can be stopped"
    return Lifecycle(state=LifecycleState.REMOVED, reason=reason)


def displaced(me: int) -> str:
    return f"another store is on record for replica {me}: if this one's disk was lost, it must come back under a new id"


def unconfirmed(me: int) -> str:
    return (
        f"most of the others have not met this store of replica {me} yet: they are out of reach, or know another one, "
        "and then it must come back under a new id"
    )
