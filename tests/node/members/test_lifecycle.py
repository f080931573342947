"""The state of a node: only voters serve clients, and the others say why not."""

import pytest
from msgspec.structs import replace

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus, first_epoch
from epoxy.node.members.lifecycle import LifecycleState, lifecycle_of

ME, STORE = 1, 77
FIRST = first_epoch((1, 2, 3))


def with_me(status: ReplicaStatus, identity: int = STORE) -> ClusterConfig:
    others = tuple(ReplicaInfo(id=i) for i in (2, 3))
    return replace(FIRST, epoch=5, replicas=(ReplicaInfo(id=ME, status=status, identity=identity), *others))


WITHOUT_ME = replace(FIRST, epoch=5, replicas=FIRST.replicas[1:], coordinator_id=2)


@pytest.mark.parametrize(
    ("config", "is_known", "state", "words"),
    [
        (FIRST, True, LifecycleState.ACTIVE, ""),
        (FIRST, False, LifecycleState.UNCONFIRMED, "most of the others have no record of this store of replica 1"),
        (with_me(ReplicaStatus.ACTIVE), True, LifecycleState.ACTIVE, ""),
        (with_me(ReplicaStatus.LEAVING), True, LifecycleState.LEAVING, ""),
        (with_me(ReplicaStatus.JOINING), True, LifecycleState.JOINING, "replica 1 is joining"),
        (with_me(ReplicaStatus.LEARNING), True, LifecycleState.LEARNING, "it serves clients once it has copied"),
        (with_me(ReplicaStatus.ACTIVE, identity=78), False, LifecycleState.DISPLACED, "must come back under a new id"),
        (WITHOUT_ME, False, LifecycleState.REMOVED, "it was removed, and can be stopped"),
        (replace(WITHOUT_ME, epoch=1), False, LifecycleState.NEW, "`epoxy members add 1 URL`"),
    ],
)
def test_every_state(config: ClusterConfig, is_known: bool, state: LifecycleState, words: str) -> None:
    found = lifecycle_of(config, ME, STORE, is_known=is_known)
    assert (found.state, found.serves) == (state, not words)
    assert words in found.reason
    assert found.reads is found.serves


def test_a_start_that_waits_for_others_serves_reads() -> None:
    found = lifecycle_of(FIRST, ME, STORE, is_known=True, waits_for="no answer")
    assert (found.state, found.serves, found.reads) == (LifecycleState.CONFIRMING, False, True)
    assert "not an older copy: no answer" in found.reason


def test_a_refused_store_serves_nothing_whatever_else_it_is() -> None:
    for config in (FIRST, WITHOUT_ME):
        found = lifecycle_of(config, ME, STORE, is_known=True, waits_for="no answer", refused="an older copy")
        assert (found.state, found.reason, found.reads) == (LifecycleState.REFUSED, "an older copy", False)
