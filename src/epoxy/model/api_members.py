"""The JSON records of the routes about the past of the members, and about what a change of them would do."""

from typing import Annotated, Literal

from msgspec import Struct

from epoxy.model.api import Count, QuorumSizes, ReplicaId, documented

Seconds = Annotated[float, documented("Seconds since 1970, by the clock of the node that answers.")]

EpochChangeKind = Literal[
    "first", "recorded", "joins", "copies", "given_up", "moved", "together", "votes", "removed", "replaced", "undone"
]
EpochSource = Literal["seen", "kept"]
MemberEventKind = Literal["away", "back", "restarted"]
FloorSource = Literal["measured", "table", "unknown"]


class EpochMember(Struct, frozen=True, kw_only=True):
    id: ReplicaId
    datacenter: str
    status: Annotated[str, documented("joining, learning, active or leaving")]
    url: str


class EpochChange(Struct, frozen=True, kw_only=True):
    """What is different from the epoch before: `members` are those it happened to, `instead_of` those they replace."""

    what: EpochChangeKind
    members: tuple[int, ...]
    words: str
    instead_of: tuple[int, ...] = ()


class EpochRecord(Struct, frozen=True, kw_only=True):
    """One epoch. `source` "seen": this process was there when this node learned of it, `at` that moment; "kept": from
    this node's disk, which has no times. `missed`: how many epochs lie between this one and the next older one in the
    list; this node was away, or has forgotten them."""

    epoch: Count
    at: Seconds | None
    source: EpochSource
    joint: Annotated[bool, documented("Old and new members decide together.")]
    previous: tuple[int, ...] | None
    coordinator_id: Count
    quorums: QuorumSizes
    members: tuple[EpochMember, ...]
    changes: tuple[EpochChange, ...]
    missed: Count = 0


class MemberEvent(Struct, frozen=True, kw_only=True):
    """`away_s`: of one that is back, for how long it was away."""

    at: Seconds
    id: ReplicaId
    datacenter: str
    what: MemberEventKind
    away_s: float | None = None


class AwayMember(Struct, frozen=True, kw_only=True):
    """A member that this node has not heard for some seconds. `trouble`: the last failure of the link to it."""

    id: ReplicaId
    datacenter: str
    since: Seconds
    trouble: str = ""


class MembersPast(Struct, frozen=True, kw_only=True):
    """What this node knows of its cluster's epochs, newest first, and of members that were away since its process
    started, newest first. `complete`: the list of epochs begins with the first of the cluster."""

    now: Seconds
    started: Annotated[Seconds, documented("When the process of this node began to watch.")]
    complete: bool
    epochs: tuple[EpochRecord, ...]
    events: tuple[MemberEvent, ...]
    away: tuple[AwayMember, ...]


class MemberFloor(Struct, frozen=True, kw_only=True):
    """The least time in which a member can commit a fresh write: `floor_ms` null, if too few round trips are known.
    `at_most`: some are not known, and it may be less. `source` "measured": of round trips between members; "table":
    some are those of the planner's table."""

    id: ReplicaId
    datacenter: str
    floor_ms: float | None
    at_most: bool
    source: FloorSource


class MembersOutlook(Struct, frozen=True, kw_only=True):
    """A set of members. `tolerated_failures`: how many datacenters may fail if all are there; `tolerated_now`: how many
    more, with those that this node reaches now, and newcomers counted as there. `fast_tolerates`: how many may be
    missing while writes take one round trip."""

    members: tuple[MemberFloor, ...]
    quorums: QuorumSizes
    tolerated_failures: Count
    fast_tolerates: Count
    tolerated_now: int


class PreviewObjection(Struct, frozen=True, kw_only=True):
    """Why the change would be refused, as POST /v2/members would say it."""

    code: str
    message: str


class MembersPreview(Struct, frozen=True, kw_only=True):
    """Nothing is changed by asking. `after` null: the change is not possible, as `objection` says; with both, it is
    possible by force. `next_id`: the lowest id above all that are known here."""

    before: MembersOutlook
    after: MembersOutlook | None
    objection: PreviewObjection | None
    next_id: ReplicaId
