"""What comes next, for every phase of a change."""

import pytest
from msgspec.structs import replace

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus, first_epoch
from epoxy.model.members import ChangeRequest, Member, MemberStatus
from epoxy.protocol.members.changes import ChangeDone, ChangeWaiting, Statuses, next_step

A, B, C, D, E = 1, 2, 3, 4, 5
JOINING, LEARNING, ACTIVE, LEAVING = (
    ReplicaStatus.JOINING,
    ReplicaStatus.LEARNING,
    ReplicaStatus.ACTIVE,
    ReplicaStatus.LEAVING,
)


def request(*ids: int) -> ChangeRequest:
    return ChangeRequest(members=tuple(Member(id=i, url=f"http://{i}") for i in ids))


def members(**statuses: ReplicaStatus) -> tuple[ReplicaInfo, ...]:
    """As `members(A=ACTIVE)`: with their addresses and identities."""
    ids = {"A": A, "B": B, "C": C, "D": D, "E": E}
    return tuple(
        ReplicaInfo(id=ids[name], status=status, url=f"http://{ids[name]}", identity=identity_of(ids[name]))
        for name, status in statuses.items()
    )


def identity_of(replica: int) -> int:
    return 100 + replica


def config(
    epoch: int,
    *,
    previous: tuple[int, ...] | None = None,
    sealed: int = 0,
    term: int = 0,
    since: int = 0,
    **statuses: ReplicaStatus,
) -> ClusterConfig:
    return ClusterConfig(
        epoch=epoch,
        coordinator_id=A,
        replicas=members(**statuses),
        previous=previous,
        sealed=sealed,
        term=term,
        since=since,
    )


def heard(epoch: int, *ids: int, sources: tuple[int, ...] = (), synced: tuple[int, ...] = ()) -> Statuses:
    return {i: MemberStatus(identity=identity_of(i), epoch=epoch, sources=sources, synced=i in synced) for i in ids}


STABLE = config(4, A=ACTIVE, B=ACTIVE, C=ACTIVE)
LEARNERS = config(6, A=ACTIVE, B=ACTIVE, C=ACTIVE, D=LEARNING, E=LEARNING)
BOTH = config(7, previous=(A, B, C), A=ACTIVE, B=ACTIVE, C=ACTIVE, D=ACTIVE, E=ACTIVE)
NEW = config(8, sealed=6, term=1, since=1, A=ACTIVE, B=ACTIVE, C=ACTIVE, D=ACTIVE, E=ACTIVE)


def joining(*ids: int) -> tuple[ReplicaInfo, ...]:
    return tuple(ReplicaInfo(id=i, status=JOINING, url=f"http://{i}") for i in ids)


def test_from_three_to_five_step_by_step() -> None:
    five = request(A, B, C, D, E)
    listed = replace(STABLE, epoch=5, replicas=(*STABLE.replicas, *joining(D, E)))
    assert next_step(STABLE, five, {}, A) == listed
    assert next_step(listed, five, heard(5, A, B, C), A) == ChangeWaiting("no word from 4, 5")
    assert next_step(listed, five, heard(5, A, D, E), A) == LEARNERS
    assert next_step(LEARNERS, five, heard(6, A, B, C, D, E, sources=(A, B)), A) == BOTH
    assert next_step(BOTH, five, heard(7, A, B, C, D, E, synced=(A, D, E)), A) == NEW
    assert next_step(NEW, five, heard(8, A, B, C, D, E), A) == ChangeDone()


def test_who_is_heard_first_learns_first() -> None:
    listed = replace(STABLE, epoch=5, replicas=(*STABLE.replicas, *joining(D, E)))
    step = next_step(listed, request(A, B, C, D, E), heard(5, A, E), B)
    assert isinstance(step, ClusterConfig)
    assert [replica.status for replica in step.replicas[3:]] == [JOINING, LEARNING]
    assert (step.epoch, step.coordinator_id) == (6, B)


@pytest.mark.parametrize(
    "statuses",
    [
        heard(6, A, B, C, D, sources=(A, B)),
        {**heard(6, A, B, C, D, sources=(A, B)), **heard(6, E, sources=(A,))},
        heard(6, D, E, sources=(A, B)),
    ],
    ids=["E is silent", "E has copied from one alone", "no quorum of the new members"],
)
def test_no_joint_epoch_before_the_bulk_is_copied(statuses: Statuses) -> None:
    assert isinstance(next_step(LEARNERS, request(A, B, C, D, E), statuses, A), ChangeWaiting)


@pytest.mark.parametrize(
    "statuses",
    [
        heard(7, A, B, C, D, E, synced=(A, B, C, D)),
        heard(7, A, B, C, D, E, synced=(D, E)),
        heard(6, A, B, C, D, E, synced=(A, B, C, D, E)),
        heard(7, A, B, C, D, E),
    ],
    ids=["E is not synced", "too few are", "for another epoch", "none is"],
)
def test_no_promotion_before_enough_are_synced(statuses: Statuses) -> None:
    assert isinstance(next_step(BOTH, request(A, B, C, D, E), statuses, A), ChangeWaiting)


def test_one_dead_old_member_does_not_block_growing() -> None:
    five = request(A, B, C, D, E)
    assert next_step(LEARNERS, five, heard(6, A, B, D, E, sources=(A, B)), A) == BOTH
    assert next_step(BOTH, five, heard(7, A, D, E, synced=(A, D, E)), A) == NEW


def test_a_dead_member_is_replaced() -> None:
    replaced = config(5, A=ACTIVE, B=ACTIVE, C=ACTIVE, D=LEARNING)
    joint = next_step(replaced, request(A, B, D), heard(5, A, B, D, sources=(A, B)), B)
    assert joint == replace(config(6, previous=(A, B, C), A=ACTIVE, B=ACTIVE, C=LEAVING, D=ACTIVE), coordinator_id=B)
    assert isinstance(joint, ClusterConfig)
    stable = next_step(joint, request(A, B, D), heard(6, A, B, D, synced=(A, D)), B)
    assert stable == replace(config(7, sealed=5, term=1, since=1, A=ACTIVE, B=ACTIVE, D=ACTIVE), coordinator_id=B)


def test_shrinking_goes_straight_to_the_joint_epoch() -> None:
    five = config(4, A=ACTIVE, B=ACTIVE, C=ACTIVE, D=ACTIVE, E=ACTIVE)
    step = next_step(five, request(A, B, C), heard(4, A, B, sources=(A, B, C)), A)
    assert step == config(5, previous=(A, B, C, D, E), A=ACTIVE, B=ACTIVE, C=ACTIVE, D=LEAVING, E=LEAVING)


def test_a_newcomer_that_is_no_longer_wanted_goes() -> None:
    assert next_step(LEARNERS, request(A, B, C), {}, A) == replace(STABLE, epoch=7)


def test_a_joint_epoch_is_undone_when_a_newcomer_is_no_longer_wanted() -> None:
    """Nothing is sealed by that: the old members' votes go on counting. But a term is over, with the same members."""
    undone = next_step(BOTH, request(A, B, C), heard(7, A, B, C, D, E, synced=(A, B, C, D, E)), A)
    assert undone == replace(STABLE, epoch=8, term=1)
    kept = next_step(BOTH, request(A, B, C, D), {}, A)
    assert kept == config(8, term=1, A=ACTIVE, B=ACTIVE, C=ACTIVE, D=LEARNING)


def test_a_joint_epoch_is_finished_first_when_more_are_wanted() -> None:
    more = request(A, B, C, D, E, 6)
    assert next_step(BOTH, more, heard(7, A, D, E, synced=(A, D, E)), A) == NEW


def test_a_removal_is_undone_when_the_old_members_are_wanted_back() -> None:
    joint = config(5, previous=(A, B, C), A=ACTIVE, B=ACTIVE, C=LEAVING)
    assert next_step(joint, request(A, B, C), {}, A) == config(6, term=1, A=ACTIVE, B=ACTIVE, C=ACTIVE)


def test_the_status_of_another_store_does_not_count() -> None:
    liar = {D: MemberStatus(identity=666, epoch=7, synced=True)}
    statuses = {**heard(7, A, B, C, E, synced=(A, B, C, E)), **liar}
    assert isinstance(next_step(BOTH, request(A, B, C, D, E), statuses, A), ChangeWaiting)


def test_identities_are_written_down_when_all_voters_were_heard() -> None:
    first = first_epoch((A, B, C))
    assert next_step(first, None, heard(1, A, B), A) == ChangeDone()
    step = next_step(first, None, heard(1, A, B, C), A)
    assert isinstance(step, ClusterConfig)
    assert [replica.identity for replica in step.replicas] == [101, 102, 103]
    assert next_step(step, None, heard(2, A, B, C), A) == ChangeDone()


def test_no_member_stays_without_a_recorded_identity() -> None:
    """Otherwise an empty one could take its place."""
    nameless = replace(STABLE, replicas=(*STABLE.replicas[:2], ReplicaInfo(id=C, url="http://3")))
    grown = replace(nameless, replicas=(*nameless.replicas, *members(D=LEARNING)))
    step = next_step(grown, request(A, B, C, D), heard(4, A, B, D, sources=(A, B)), A)
    assert step == ChangeWaiting("the identity of the store of 3 is not recorded")


def test_a_member_that_moves_gets_its_new_address() -> None:
    moved = ChangeRequest(members=(Member(id=A, url="http://elsewhere"), Member(id=B), Member(id=C)))
    step = next_step(STABLE, moved, {}, A)
    assert isinstance(step, ClusterConfig)
    assert [replica.url for replica in step.replicas] == ["http://elsewhere", "http://2", "http://3"]
