"""The JSON records of `/v2/plan`: a part of `api.py`."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from epoxy.model.round_trips import MAX_NAME, MAX_REGIONS, MAX_RTT_MS

RegionName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
RegionNames = Annotated[list[RegionName], Meta(max_length=MAX_REGIONS)]
Added = Annotated[int, Meta(ge=0, le=MAX_REGIONS)]
Milliseconds = Annotated[float, Meta(ge=0)]
RegionCount = Annotated[int, Meta(ge=0)]
PolicyName = Literal["optimal", "fast-paxos"]
WritePath = Literal["fast", "slow"]

Trip = Annotated[float, Meta(ge=0, le=MAX_RTT_MS)]
TripsFrom = Annotated[dict[RegionName, Trip], Meta(max_length=MAX_REGIONS)]
TripTable = Annotated[dict[RegionName, TripsFrom], Meta(max_length=MAX_REGIONS)]
TripText = Annotated[str, Meta(min_length=1)]


class PlanRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`round_trips`: milliseconds from region to region, one direction is enough; or the text of a file with them, as
    `epoxy plan --rtt` takes it, JSON or CSV. `regions`: the choice among them; null: all of them, or if `add` is given
    the best so many. `down`: of these, those that have failed. `add`: how many regions to add; null: as many as make
    the next odd number."""

    round_trips: TripTable | TripText
    regions: RegionNames | None = None
    policy: PolicyName = "optimal"
    down: RegionNames = []
    add: Added | None = None


class FailureEffect(Struct, frozen=True, kw_only=True):
    """What so many more failures of other regions do to the commits of one, at the worst. `down`: which failures are
    the worst. `commit_ms` null: nothing can be decided any more, whichever they are."""

    failures: RegionCount
    commit_ms: Milliseconds | None
    path: WritePath | None
    down: list[str]


class PlannedRegion(Struct, frozen=True, kw_only=True):
    """`floor_ms`: of the commit of a fresh key while all regions are up. The others are with those `down` that the
    request names, and null where nothing can be decided: `commit_ms`, in one round trip to the nearest fast quorum, or
    by the slow path if none is left (`path`); `slow_path_ms`, a key that others write, too: two round trips to the
    nearest majority; `read_ms`, a linearizable read: one. `waits_for`: the regions whose answers a commit waits for.
    `leader_ms`: a write through the best leader. `more_failures`: one more, and two."""

    region: str
    down: bool
    floor_ms: Milliseconds
    commit_ms: Milliseconds | None
    path: WritePath | None
    slow_path_ms: Milliseconds | None
    read_ms: Milliseconds | None
    waits_for: list[str]
    leader_ms: Milliseconds | None
    more_failures: list[FailureEffect]


class LeaderCost(Struct, frozen=True, kw_only=True):
    """What writes cost in a system with a leader in this region: from the client's region to the leader, and from there
    to its nearest majority. `regions_ms`: by the client's region."""

    leader: str
    mean_ms: Milliseconds
    worst_ms: Milliseconds
    regions_ms: dict[str, Milliseconds]


class Addition(Struct, frozen=True, kw_only=True):
    """Regions that may be added, and the floors with them: their mean and the worst of all regions then, and the mean
    of those that were there before (null: there were none)."""

    regions: list[str]
    mean_ms: Milliseconds
    worst_ms: Milliseconds
    before_mean_ms: Milliseconds | None
    tolerated_failures: RegionCount
    tolerated_fast_failures: RegionCount


class PlanReport(Struct, frozen=True, kw_only=True):
    """Floors are round trips, in milliseconds: what no system of this kind can be quicker than. Disks and processors
    come on top. `tolerated_failures`: how many more regions may fail while writes and linearizable reads go on;
    `tolerated_fast_failures`: while fresh keys still commit in one round trip. Mean and worst are of `commit_ms`, over
    the regions that are up. `leaders`: the best first, by their mean. `additions`: the best first, by mean and then by
    worst; if no regions were named, the choices that were compared, of which the first was taken. `known`: all regions
    of the table; `choices`: those that `epoxy demo` runs."""

    policy: PolicyName
    replicas: RegionCount
    slow_quorum: RegionCount
    fast_quorum: RegionCount
    tolerated_failures: RegionCount
    tolerated_fast_failures: RegionCount
    available: bool
    mean_ms: Milliseconds | None
    worst_ms: Milliseconds | None
    regions: list[PlannedRegion]
    leaders: list[LeaderCost]
    additions: list[Addition]
    known: list[str]
    choices: list[list[str]]
