"""What a set of members means for its clients: the floor of each, and how many may fail."""

from collections.abc import Callable, Container, Sequence

from msgspec import Struct

from epoxy.model.api import QuorumSizes
from epoxy.model.api_members import MemberFloor, MembersOutlook
from epoxy.model.floors import quorum_ms
from epoxy.model.members import Member
from epoxy.model.quorum import QuorumPolicy, quorums


class KnownTrip(Struct, frozen=True):
    """A round trip, as it was measured or as the planner's table has it."""

    ms: float
    measured: bool


TripOf = Callable[[Member, Member], KnownTrip | None]
"""Between two members; None: not known."""


def outlook(members: Sequence[Member], policy: QuorumPolicy, trip_of: TripOf, there: Container[int]) -> MembersOutlook:
    """`there`: those that are reached now, or that come."""
    sizes = quorums(len(members), policy)
    return MembersOutlook(
        members=tuple([floor_of(member, members, sizes.fast, trip_of) for member in members]),
        quorums=QuorumSizes(fast=sizes.fast, slow=sizes.slow),
        tolerated_failures=sizes.f,
        fast_tolerates=sizes.e,
        tolerated_now=sum(member.id in there for member in members) - sizes.slow,
    )


def floor_of(home: Member, members: Sequence[Member], fast: int, trip_of: TripOf) -> MemberFloor:
    """A round trip that is not known may be shorter than all others, or longer: what is known bounds the floor from
    above if it suffices for a quorum, and says nothing otherwise."""
    trips = [trip_of(home, other) for other in members if other.id != home.id]
    known = [trip for trip in trips if trip is not None]
    floor = quorum_ms([trip.ms for trip in known], fast)
    if floor is None:
        return MemberFloor(id=home.id, datacenter=home.datacenter, floor_ms=None, at_most=False, source="unknown")
    counted = [trip for trip in known if trip.ms <= floor and fast > 1]
    return MemberFloor(
        id=home.id,
        datacenter=home.datacenter,
        floor_ms=round(floor, 3),
        at_most=len(known) < len(trips) and fast > 1,
        source="measured" if all(trip.measured for trip in counted) else "table",
    )
