"""What a set of members means: floors as the planner's table has them, and what is said where distances are missing."""

import pytest

from epoxy.model.members import Member
from epoxy.model.quorum import QuorumPolicy
from epoxy.protocol.members.preview import KnownTrip, TripOf, outlook
from epoxy.transport.wan import aws

FIVE = ("us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1", "sa-east-1")


def members(names: tuple[str, ...]) -> list[Member]:
    return [Member(id=i, datacenter=name) for i, name in enumerate(names, start=1)]


def by_table(one: Member, other: Member) -> KnownTrip | None:
    return KnownTrip(aws.rtt_ms(one.datacenter, other.datacenter), False)


def measured_but(*unknown: int) -> TripOf:
    """All are measured but those of some members."""

    def trip(one: Member, other: Member) -> KnownTrip | None:
        return None if {one.id, other.id} & set(unknown) else KnownTrip(10.0 * (one.id + other.id), True)

    return trip


@pytest.mark.parametrize("names", [FIVE[:1], FIVE[:2], FIVE[:3], FIVE])
def test_floors_are_those_of_the_planner(names: tuple[str, ...]) -> None:
    seen = outlook(members(names), QuorumPolicy.OPTIMAL, by_table, range(1, 10))
    assert [row.floor_ms for row in seen.members] == [aws.floor_ms(name, names) for name in names]
    assert not any(row.at_most for row in seen.members)
    assert {row.source for row in seen.members} == ({"table"} if len(names) > 1 else {"measured"})


def test_how_many_may_fail_and_how_many_more_now() -> None:
    seen = outlook(members(FIVE), QuorumPolicy.OPTIMAL, by_table, (1, 2, 3, 4))
    assert (seen.tolerated_failures, seen.tolerated_now, seen.fast_tolerates) == (2, 1, 2)
    assert (seen.quorums.fast, seen.quorums.slow) == (3, 3)
    lost = outlook(members(FIVE[:3]), QuorumPolicy.OPTIMAL, by_table, (1,))
    assert (lost.tolerated_failures, lost.tolerated_now) == (1, -1)


def test_a_member_whose_distances_are_not_known_has_no_floor_and_bounds_those_of_others() -> None:
    seen = outlook(members(FIVE[:4]), QuorumPolicy.OPTIMAL, measured_but(4), ())
    *known, unknown = seen.members
    assert (unknown.floor_ms, unknown.source, unknown.at_most) == (None, "unknown", False)
    assert [(row.floor_ms, row.at_most, row.source) for row in known] == [
        (40.0, True, "measured"),
        (50.0, True, "measured"),
        (50.0, True, "measured"),
    ]


def test_a_floor_says_whether_a_round_trip_of_the_table_decides_it() -> None:
    def trip(one: Member, other: Member) -> KnownTrip:
        return KnownTrip(1.0, True) if {one.id, other.id} == {1, 2} else KnownTrip(100.0, False)

    first, second, third = outlook(members(FIVE[:3]), QuorumPolicy.OPTIMAL, trip, ()).members
    assert (first.source, second.source, third.source) == ("measured", "measured", "table")
