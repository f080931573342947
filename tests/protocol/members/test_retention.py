"""Which rows of a changelog may go."""

import pytest

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus
from epoxy.model.members import NO_STAMP
from epoxy.protocol.members.retention import (
    FOLLOWER_PATIENCE_MS,
    PINNED_COMMITS,
    Reader,
    Removal,
    RetentionCeiling,
    before,
    ceiling,
    last_of,
    learners,
    removable,
)

JOINING, LEARNING, LEAVING = ReplicaStatus.JOINING, ReplicaStatus.LEARNING, ReplicaStatus.LEAVING
NOW_MS = 1_000_000.0
NEWEST = last_of(100)


def config(*replicas: ReplicaInfo, previous: tuple[int, ...] | None = None) -> ClusterConfig:
    return ClusterConfig(epoch=7, coordinator_id=1, replicas=replicas, previous=previous)


STABLE = config(ReplicaInfo(id=1), ReplicaInfo(id=2))
GROWING = config(ReplicaInfo(id=1), ReplicaInfo(id=2), ReplicaInfo(id=3, status=LEARNING))


def reader(commit: int, *, asked_ms: float = NOW_MS) -> Reader:
    return Reader(cursor=last_of(commit), asked_ms=asked_ms)


def gone(
    members: ClusterConfig, *, newest: bytes = NEWEST, aged: bytes | None = None, commits: int = 0, **readers: Reader
) -> bytes:
    """However little the rows take."""
    spare, surplus, rest = removals(members, newest=newest, aged=aged, commits=commits, kept=0, **readers)
    assert (surplus.size, rest.size, rest.through) == (0, 0, newest)
    assert spare.size >= 1 << 40
    return spare.through


def removals(
    members: ClusterConfig,
    *,
    newest: bytes = NEWEST,
    aged: bytes | None = None,
    commits: int = 0,
    kept: int = 0,
    **readers: Reader,
) -> tuple[Removal, ...]:
    return removable(
        members,
        {int(name[1:]): each for name, each in readers.items()},
        NOW_MS,
        newest=newest,
        aged=newest if aged is None else aged,
        commits=commits,
        kept=kept,
        most=RetentionCeiling(size=1000, pinned_size=4000),
    )


def test_without_readers_everything_may_go() -> None:
    assert gone(STABLE) == NEWEST


def test_a_learner_keeps_what_it_has_not_read_and_one_that_has_not_begun_everything() -> None:
    assert gone(GROWING, r3=reader(40)) == last_of(40)
    assert gone(GROWING) == NO_STAMP
    joining = config(*GROWING.replicas, ReplicaInfo(id=4, status=JOINING))
    assert gone(joining, r3=reader(40)) == NO_STAMP
    assert gone(joining, r3=reader(40), r4=reader(60)) == last_of(40)


def test_a_learner_is_waited_for_however_long_it_is_silent() -> None:
    assert gone(GROWING, r3=reader(40, asked_ms=0.0)) == last_of(40)


def test_a_member_that_follows_is_waited_for_while_it_asks() -> None:
    assert gone(STABLE, r2=reader(40)) == last_of(40)
    assert gone(STABLE, r2=reader(40, asked_ms=NOW_MS - FOLLOWER_PATIENCE_MS)) == NEWEST


def test_the_floor_is_kept_in_commits_and_in_age() -> None:
    assert gone(STABLE, commits=30) == last_of(70)
    assert gone(STABLE, commits=30, aged=last_of(50)) == last_of(50)
    assert gone(STABLE, commits=60, aged=last_of(50)) == last_of(40)
    assert gone(STABLE, commits=101) == gone(STABLE, aged=NO_STAMP) == NO_STAMP


def test_nobody_keeps_everything_for_ever() -> None:
    newest = last_of(PINNED_COMMITS + 500)
    assert gone(GROWING, newest=newest) == last_of(500)


def test_what_is_too_much_goes_in_spite_of_the_floor() -> None:
    spare, surplus, rest = removals(STABLE, commits=101, kept=1300)
    assert (spare.through, surplus, rest.size) == (NO_STAMP, Removal(through=NEWEST, size=300), 0)
    assert [removal.size for removal in removals(STABLE, commits=101, kept=1000)[1:]] == [0, 0]


def test_what_a_reader_wants_is_too_much_later() -> None:
    _, surplus, rest = removals(GROWING, kept=3900, r3=reader(40))
    assert (surplus, rest.size) == (Removal(through=last_of(40), size=2900), 0)
    _, surplus, rest = removals(GROWING, kept=4100)
    assert (surplus.through, rest) == (NO_STAMP, Removal(through=NEWEST, size=100))
    _, surplus, rest = removals(STABLE, kept=4100, r2=reader(40))
    assert (surplus.through, rest) == (last_of(40), Removal(through=NEWEST, size=100))


def test_a_quarter_of_the_store_or_a_gib_or_what_the_operator_says() -> None:
    assert ceiling(0, None) == RetentionCeiling(size=1 << 30, pinned_size=4 << 30)
    assert ceiling(100 << 30, None) == RetentionCeiling(size=25 << 30, pinned_size=100 << 30)
    assert ceiling(100 << 30, 1 << 20) == RetentionCeiling(size=1 << 20, pinned_size=4 << 20)


def test_newcomers_are_those_on_record_and_in_a_joint_epoch_those_who_were_no_voters_before() -> None:
    joint = config(
        ReplicaInfo(id=1, status=LEAVING), ReplicaInfo(id=2), ReplicaInfo(id=3), ReplicaInfo(id=4), previous=(1, 2)
    )
    assert (learners(STABLE), learners(GROWING), learners(joint)) == ([], [3], [3, 4])


@pytest.mark.parametrize("index", [0, 1, 0xFFFF])
def test_stamps_are_counted_by_commits(index: int) -> None:
    newest = (100 << 16 | index).to_bytes(10, "big")
    assert before(newest, 0) == last_of(100) >= newest
    assert before(newest, 1) == last_of(99) < (100 << 16).to_bytes(10, "big")
    assert before(newest, 100) == before(newest, 1000) == NO_STAMP
