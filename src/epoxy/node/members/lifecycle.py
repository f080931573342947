"""The state of a node in its cluster, and why it does not serve clients."""

import enum

from msgspec import Struct

from epoxy.model.cluster import ClusterConfig


class LifecycleState(enum.Enum):
    """Nodes serve clients while they are active or leaving, and reads of what they hold while they are confirming."""

    STARTING = "starting"
    STOPPING = "stopping"
    NEW = "new"
    """Never a member so far."""
    JOINING = "joining"
    LEARNING = "learning"
    UNCONFIRMED = "unconfirmed"
    """Its store is unknown to most of the others."""
    CONFIRMING = "confirming"
    """Its store is known, and this start of it not yet: it may be an older copy."""
    ACTIVE = "active"
    LEAVING = "leaving"
    REMOVED = "removed"
    DISPLACED = "displaced"
    """Another store is recorded for its id."""
    REFUSED = "refused"
    """Others know a later state of its store."""


class Lifecycle(Struct, frozen=True, kw_only=True):
    state: LifecycleState
    reason: str = ""
    """Why clients are not served; empty if they are."""

    @property
    def serves(self) -> bool:
        return not self.reason

    @property
    def reads(self) -> bool:
        """Whether clients may read what this node holds: names that were reserved, and values that may be old."""
        return self.serves or self.state is LifecycleState.CONFIRMING


STARTING = Lifecycle(state=LifecycleState.STARTING, reason="the node is starting")
STOPPING = Lifecycle(state=LifecycleState.STOPPING, reason="the node is stopping")

FIRST_EPOCH = 1


def lifecycle_of(
    config: ClusterConfig, me: int, identity: int, *, is_known: bool, waits_for: str = "", refused: str = ""
) -> Lifecycle:
    """Of replica `me` with the store of this identity. `is_known`: the others have this store on record; `waits_for`:
    why this start of it is not cleared; `refused`: why it never will be."""
    info, reason = config.info(me), ""
    if refused:
        state, reason = LifecycleState.REFUSED, refused
    elif info is None and config.epoch == FIRST_EPOCH:
        state = LifecycleState.NEW
        reason = f"replica {me} is no member yet: `epoxy members add {me} URL`, at a member, makes it one"
    elif info is None:
        state = LifecycleState.REMOVED
        reason = f"replica {me} is no member of epoch {config.epoch}: it was removed, and can be stopped"
    elif info.identity not in (0, identity):
        state = LifecycleState.DISPLACED
        reason = f"another store is on record for replica {me}: if this one's disk was lost, it must come back under "
        reason += "a new id"
    elif (state := LifecycleState(info.status.value)) in (LifecycleState.JOINING, LifecycleState.LEARNING):
        reason = f"replica {me} is {state.value}: it serves clients once it has copied what the others hold"
    elif not is_known:
        state = LifecycleState.UNCONFIRMED
        reason = f"most of the others have no record of this store of replica {me}: they are unreachable, or have "
        reason += "another on record, and then it must come back under a new id"
    elif waits_for:
        state = LifecycleState.CONFIRMING
        reason = f"replica {me} has started, and others must confirm that its store is not an older copy: {waits_for}"
    return Lifecycle(state=state, reason=reason)
