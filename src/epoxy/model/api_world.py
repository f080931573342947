"""The JSON records of `/v2/world` and `/v2/commits/samples`, for the HTTP API and between members."""

from typing import Annotated

from msgspec import Struct

from epoxy.model.api import Count, ReplicaId, SpelledKey, documented
from epoxy.model.regions import RegionPlace

# The world


class MemberFigures(Struct, frozen=True, kw_only=True):
    """A node on its last commits.

    `floor_ms`: the round trip to the nearest fast quorum, below which no fresh key commits. `p50_ms` and `p99_ms`: of
    its clients' writes that were committed in the last `window_s` seconds with the votes of others, of which `measured`
    are counted; null: there were none. `commits_per_s`: of the last seconds; `fast_share`: of the commits in the
    window. `tolerated_failures`: how many more replicas may fail, as it sees them; negative: nothing can be decided.
    `longest_sync_ms`: at its disk, of the last seconds. `state` and `reason`: whether it serves clients, and why not.
    """

    state: str = ""
    reason: str = ""
    floor_ms: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    measured: Count = 0
    window_s: float = 0.0
    commits_per_s: float | None = None
    fast_share: float | None = None
    tolerated_failures: int = 0
    longest_sync_ms: float | None = None


class MeasuredLink(Struct, frozen=True, kw_only=True):
    """To another member, as a node has measured it."""

    to: ReplicaId
    rtt_ms: float | None = None
    reachable: bool = False


class MemberReport(Struct, frozen=True, kw_only=True):
    """What a member answers when another one asks for its figures."""

    figures: MemberFigures
    links: list[MeasuredLink] = []


class WorldMember(Struct, frozen=True, kw_only=True):
    """`reachable`: from the node that was asked. `state`: in words. `age_s`: of the figures; null: none were heard yet.
    `old`: they were not heard for longer than a few seconds, or never. `place`: of a datacenter that has the name of an
    AWS region; else null."""

    id: ReplicaId
    datacenter: str
    url: str
    place: RegionPlace | None
    status: str
    reachable: bool
    state: str
    age_s: float | None
    old: bool
    figures: MemberFigures


class WorldLink(Struct, frozen=True, kw_only=True):
    """Between two members. `rtt_ms`: the mean of what both have measured, or of the one that was heard. `reachable`:
    no end that was heard says otherwise."""

    a: ReplicaId
    b: ReplicaId
    rtt_ms: float | None
    reachable: bool


class World(Struct, frozen=True, kw_only=True):
    """The cluster as the node `id` sees it. `tolerated_failures`: how many more datacenters may fail before nothing can
    be decided; negative: nothing can now. `clock_s`: seconds since 1970, by this node's clock."""

    id: ReplicaId
    datacenter: str
    epoch: Count
    clock_s: float
    available: bool
    tolerated_failures: int
    replicas: Count
    slow_quorum: Count
    fast_quorum: Count
    members: list[WorldMember]
    links: list[WorldLink]


# Samples of commits


class SampledMessage(Struct, frozen=True, kw_only=True):
    """A request to one replica. `kind`: `vote` (in the fast round, or at a ballot), `promise` (asks for one),
    `commit` (tells the decision, without an answer), `carry` (hands the write to the replica that folds it).
    `heard_ms`: when its answer came; null: none did. `answer`: the name of the answer, `AcceptOk` for a vote."""

    kind: str
    to: ReplicaId
    fast: bool = False
    sent_ms: float
    heard_ms: float | None = None
    answer: str = ""


class CommitSample(Struct, frozen=True, kw_only=True):
    """One write of this node's clients. Times are milliseconds since it began.

    `at`: when it began, in seconds since 1970. `home`: the node that tells. `outcome`: `Committed`, or the name of
    another end. `path`: `fast`, `slow` or `local` (no message was needed); `none`: it was not decided. `carried_to`:
    the replica that folded it, if that was another. `writes`: how many were decided together. `floor_ms`: at that time.
    `voted_ms`: this node's own vote was durable, and others were asked. `decided_ms`: the vote that completed the
    quorum was here. `told_ms`: the commit was durable here, and others were told. `answered_ms`: the client was
    answered.
    """

    key: SpelledKey
    at: float
    home: ReplicaId
    outcome: str
    path: Annotated[str, documented(enum=["fast", "slow", "local", "none"])]
    carried_to: ReplicaId | None
    writes: Count
    floor_ms: float | None
    voted_ms: float | None
    decided_ms: float | None
    told_ms: float | None
    answered_ms: float
    messages: list[SampledMessage]
