"""Where a node stands in its cluster, in words for its clients and its operator."""

import enum

from msgspec import Struct

from epoxy.model.cluster import ClusterConfig, ReplicaStatus


class State(enum.Enum):
    """Only those who are active or leaving serve clients."""

    STARTING = "starting"
    STOPPING = "stopping"
    NEW = "new"
    """No member yet, and never was."""
    JOINING = "joining"
    LEARNING = "learning"
    UNCONFIRMED = "unconfirmed"
    """A store that most of the others have not met."""
    ACTIVE = "active"
    LEAVING = "leaving"
    REMOVED = "removed"
    DISPLACED = "displaced"
    """Another store is on record for this id."""


class Standing(Struct, frozen=True, kw_only=True):
    state: State
    reason: str = ""
    """Why clients are not served; empty if they are."""

    @property
    def serves(self) -> bool:
        return not self.reason


STARTING = Standing(state=State.STARTING, reason="the node is starting")
STOPPING = Standing(state=State.STOPPING, reason="the node is stopping")

FIRST_EPOCH = 1

PROMOTED = {
    ReplicaStatus.JOINING: State.JOINING,
    ReplicaStatus.LEARNING: State.LEARNING,
    ReplicaStatus.ACTIVE: State.ACTIVE,
    ReplicaStatus.LEAVING: State.LEAVING,
}


def standing(config: ClusterConfig, me: int, identity: int, *, may_vote: bool) -> Standing:
    """Of replica `me` with the store of this identity."""
    info = config.info(me)
    if info is None:
        return outside(config, me)
    state = PROMOTED[info.status]
    if info.identity not in (0, identity):
        return Standing(state=State.DISPLACED, reason=displaced(me))
    if state in (State.JOINING, State.LEARNING):
        reason = f"replica {me} is {state.value}: it serves clients once it has copied what the others hold"
        return Standing(state=state, reason=reason)
    if not may_vote:
        return Standing(state=State.UNCONFIRMED, reason=unconfirmed(me))
    return Standing(state=state)


def outside(config: ClusterConfig, me: int) -> Standing:
    if config.epoch == FIRST_EPOCH:
        reason = f"replica {me} is no member yet: `epoxy members add {me} URL`, at a member, makes it one"
        return Standing(state=State.NEW, reason=reason)
    reason = f"replica {me} is no member of epoch {config.epoch}: it was removed, and can be stopped"
    return Standing(state=State.REMOVED, reason=reason)


def displaced(me: int) -> str:
    return f"another store is on record for replica {me}: if this one's disk was lost, it must come back under a new id"


def unconfirmed(me: int) -> str:
    return (
        f"most of the others have not met this store of replica {me} yet: they are out of reach, or know another one, "
        "and then it must come back under a new id"
    )
