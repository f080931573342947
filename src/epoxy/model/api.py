"""The JSON records of the HTTP API. Routes encode them, the Python clients decode them, and the OpenAPI document is
generated from them (decision 0036): a docstring here is a description there.

A field with a default is left out of an answer only where the record says `omit_defaults`, or where it is UNSET.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from epoxy.model.actors import MAX_NAME_BYTES
from epoxy.model.integers import LEAST_INTEGER, MOST_INTEGER
from epoxy.model.messages import Inspected
from epoxy.model.node_urls import MAX_NODE_URLS, NODE_URL
from epoxy.model.records import MAX_KEY_BYTES, MAX_TTL_MS
from epoxy.model.writes import Path, Source

MAX_VERSION = (1 << 64) - 1
"""Versions travel as 64-bit numbers."""

MAX_LIMIT, DEFAULT_LIMIT = 1000, 100
"""Rows on a page: what a person scrolls through, and what a scan holds up the event loop for, some milliseconds."""

LEAST_SESSION_TTL_MS, MAX_SESSION_TTL_MS = 100, 24 * 3600 * 1000
"""A heartbeat needs a round trip in a third of it; what is silent for a day is not alive."""

DEFAULT = "default"
"""The namespace and the pool of a cluster that needs only one."""

MAX_REPLICA_ID = (1 << 32) - 1
MAX_DATACENTER_BYTES = 255
"""What the schema of the peers' messages carries."""

BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


def documented(description: str = "", **schema: Any) -> Meta:
    """For the document alone. What is decoded is not checked by it: limits in bytes cannot be said in JSON Schema, and
    errors about a request are better in our own words."""
    return Meta(description=description or None, extra_json_schema=schema or None)


Count = Annotated[int, documented(minimum=0)]
Version = Annotated[int, documented(minimum=0, maximum=MAX_VERSION)]
ReplicaId = Annotated[int, documented(minimum=1, maximum=MAX_REPLICA_ID)]
KeyPart = Annotated[str, documented(maxLength=MAX_KEY_BYTES)]
"""The beginning of a key, or a whole one."""
KeyInPath = Annotated[str, documented(minLength=1, maxLength=MAX_KEY_BYTES)]
Cursor = Annotated[str, documented(pattern="^([0-9a-fA-F]{20}|now)?$")]
Amount = Annotated[int, documented(minimum=LEAST_INTEGER, maximum=MOST_INTEGER)]
Milliseconds = Annotated[int, documented(minimum=0, maximum=MAX_TTL_MS)]
SessionTtl = Annotated[int, documented(minimum=LEAST_SESSION_TTL_MS, maximum=MAX_SESSION_TTL_MS)]
SessionId = Annotated[str, documented(pattern="^[0-9a-f]{32}$")]
Limit = Annotated[int, documented(minimum=1, maximum=MAX_LIMIT)]
WriteMode = Literal["reserve", "put"]
Engine = Literal["transactions"]
Flag = Literal["true", "false"]
SpelledKey = Annotated[str, documented("Percent-encoded.")]
Base64 = Annotated[bytes, documented(pattern=BASE64)]
Name = Annotated[str, documented(minLength=1, maxLength=MAX_NAME_BYTES)]
ActorId = Annotated[str, documented(pattern="^01[0-9a-f]{36}$")]

# Errors


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    code: str
    message: str
    definite: Annotated[bool, documented("False: it may have happened, or may still.")]
    retry_after_ms: Count | None = None


class Failure(Struct, frozen=True, kw_only=True):
    """Every error has this shape."""

    error: Problem


# Keys


class ReplacedValue(Struct, frozen=True, kw_only=True):
    """What was there before a write."""

    value: Annotated[str | None, documented("The value as text, if it is UTF-8.")]
    value_base64: Annotated[bytes, documented("The value exactly.")]
    version: Version


class KeyRecord(Struct, frozen=True, kw_only=True):
    """A committed key."""

    key: SpelledKey
    value: Annotated[str | None, documented("The value as text, if it is UTF-8.")] = None
    value_base64: Annotated[bytes | None, documented("The value exactly.")]
    version: Version
    mutable: bool
    deleted: bool = False
    mine: bool | UnsetType = UNSET
    path: Path | UnsetType = UNSET
    source: Source | UnsetType = UNSET
    first_version: Annotated[
        Version | UnsetType, documented("Of a change: the first version that the decision made; `version` is the last.")
    ] = UNSET
    previous: Annotated[
        ReplacedValue | UnsetType | None, documented("With returning: what was there; null, if nothing was.")
    ] = UNSET
    ttl: Annotated[Milliseconds | UnsetType, documented("Of a value that expires: the time to live it was given.")] = (
        UNSET
    )
    remaining: Annotated[
        Milliseconds | UnsetType, documented("Of its time to live, what is left by this replica's count.")
    ] = UNSET
    since: Annotated[Version | UnsetType, documented("The version at which its expiry was given.")] = UNSET
    session: Annotated[SessionId | UnsetType, documented("The session that it ends with.")] = UNSET
    engine: Annotated[
        Engine | UnsetType, documented("Of a key that belongs to transactions, which has no versions.")
    ] = UNSET


class SessionRecord(Struct, frozen=True, kw_only=True):
    """A session: keys that name it end after it."""

    session: SessionId
    ttl: Annotated[Milliseconds, documented("How long it lasts after each renewal.")]
    remaining: Annotated[Milliseconds | UnsetType, documented("What is left, by this replica's count.")] = UNSET


class KeyConflict(Struct, frozen=True, kw_only=True):
    """Not written, because of what is committed."""

    error: Problem
    committed: KeyRecord | None


class KeyPage(Struct, frozen=True, kw_only=True):
    """`next` is what `after` takes for the next page; null: this was the last."""

    keys: list[KeyRecord]
    next: str | None


class DecisionView(Struct, frozen=True, kw_only=True):
    """How a committed version came about: replica `proposer` took the key from version `base` to `version`, with as
    many writes as `writes` says."""

    proposer: int
    base: int
    version: int
    writes: int


class Explanation(Struct, frozen=True, kw_only=True):
    """A sentence on a key. `kind`: "good"; "warn", it is slow or may be stuck; "bad", something is broken."""

    kind: Literal["info", "good", "warn", "bad"]
    text: str


class ReplicaView(Struct, frozen=True, kw_only=True):
    """What one replica holds for a key. `held` null: it did not answer, and `reason` says why. `decision`: the one that
    made the version it holds. `remaining`: of a value that ends, the milliseconds that are left by the count of this
    replica; only of the one that was asked."""

    id: int
    datacenter: str
    held: Inspected | None
    reason: str = ""
    decision: DecisionView | None = None
    remaining: int | None = None


class Inspection(Struct, frozen=True, kw_only=True):
    """What every replica holds for a key, which is percent-encoded, and what that means."""

    key: str
    replicas: list[ReplicaView]
    explanation: list[Explanation] = []


class HistoryRow(Struct, frozen=True, kw_only=True):
    """One change of a key, as the changelog of a replica has it: `first_version` to `version` in one decision. `value`:
    its first bytes, `size`: how many there are. `writer`: the datacenter whose write is the last one in it."""

    cursor: Annotated[str, documented(pattern="^[0-9a-f]{20}$")]
    version: Version
    first_version: Version
    value_base64: Annotated[bytes | None, documented("Its first bytes.")]
    size: Count
    mutable: bool
    deleted: bool
    writer: str
    ttl: Milliseconds | None = None
    session: str | None = None


class KeyHistory(Struct, frozen=True, kw_only=True):
    """Changes of a key, the newest first, as this replica learned them. `looked_at`: rows of the changelog that were
    looked through; `complete`: those are all that are kept, or `limit` changes were found."""

    key: SpelledKey
    changes: list[HistoryRow]
    looked_at: Count
    complete: bool


class ChangeEvent(Struct, frozen=True, kw_only=True):
    """One server-sent event: `data` is the record of a key."""

    id: Annotated[str, documented(pattern="^[0-9a-f]{20}$")]
    data: Annotated[
        str, documented(contentMediaType="application/json", contentSchema={"$ref": "#/components/schemas/KeyRecord"})
    ]


class ChangesGone(Struct, frozen=True, kw_only=True):
    """The data of the last event of a stream whose reader fell too far behind."""

    message: str


# A node


class PeerStatus(Struct, frozen=True, kw_only=True):
    """`trouble`: the last failure of the link, if the peer is not reachable. `starts` and `position`: what this node
    remembers of the peer's store, 0 if nothing. `refused`: why this node refused a process that says it is the peer, in
    the last ten minutes; empty if it did not. `silent_s`: of a peer that is not reachable, since its last answer, or
    since this process has looked for one. `version`: the release it runs, as it said last; empty if this process has
    not heard it; "0.1" of releases before 0.2, which do not say. `wire`: the version of the wire that is spoken with
    it; 0 if it was not heard, or there is none that both speak."""

    id: Count
    datacenter: str = ""
    url: str | None = None
    rtt_ms: float | None = None
    reachable: bool = False
    status: str = "active"
    trouble: str = ""
    starts: Count = 0
    position: Count = 0
    refused: str = ""
    silent_s: float | None = None
    version: str = ""
    wire: Count = 0


class StoreStart(Struct, frozen=True, kw_only=True):
    """The start of a store that a process is (docs/protocol/incarnations.md): how often the store was started, how much
    of it is durable, and whether it votes: "starting", "confirming" until enough others have recorded it, "cleared", or
    "refused"."""

    starts: Count
    position: Count
    state: str


class SyncReport(Struct, frozen=True, kw_only=True):
    """Syncs of the disk in the last minute, at most 512 of them: how long half of them took at the most, and 99 of
    100."""

    count: Count
    p50_ms: float
    p99_ms: float


class DiskUsage(Struct, frozen=True, kw_only=True):
    """Of the data directory: its log, its tree, and what is free beside them; `syncs`: how long its disk takes."""

    log_bytes: Count
    tree_bytes: Count
    free_bytes: Count
    syncs: SyncReport | None = None


class SessionReport(Struct, frozen=True, kw_only=True):
    """A node of a datacenter that has several, by the table in their database. `gateway`: it speaks with other
    datacenters. `lease_ms`: what is left of its lease, by the table as it was read last; negative: it is silent. A node
    that is silent itself by what it says does not reach the database."""

    session: Count
    url: str
    version: str = ""
    shards: Count = 0
    gateway: bool = False
    lease_ms: float = 0.0


class NodeReport(Struct, frozen=True, kw_only=True):
    """A node on itself and on its peers.

    `cluster`: the id of a cluster that was made from a backup.
    `tolerated_failures`: how many more replicas may fail before nothing can be decided; negative: nothing can now.
    `floor_ms`: the round trip to the nearest fast quorum, below which no fresh key commits. `state` and `reason`:
    whether it serves clients, and why not. `joint`: two sets of members must agree, for a moment. `epoch_age_s`: since
    when this process knows of the epoch. `txn_term` and `txn_state`: where this node's part of the ordered engine is;
    when it is "open" it orders transactions (docs/protocol/ordered.md); empty: another node, the gateway of its
    datacenter, does. `txn_behind`: how many decisions about them it
    is known to have missed. `txn_kept` and `txn_kept_for`: how many it keeps because not all replicas have executed
    them, and which replicas lack a great deal. `longest_sync_ms`: at the disk, of the last seconds. `disk`: what the
    data directory takes. `changelog_bytes`, `changelog_limit`: what the changelog takes of it, and may take.
    `rotten_rows`: rows whose checksum was wrong, since the node started; `unrepaired_rows`: those that still are.
    `scrub_ended_at`: when all rows had been read and checked, in seconds since 1970.
    `clock_s`: seconds since 1970, by this node's clock. `invariant_violations`: seen by this process; not 0 means that
    data may be wrong. `flow_failures`: exceptions that only a bug explains. `compiled`: whether the hot
    modules are (decision 0015). `url`: where others reach it, by its own file; `addresses`: of all nodes of its
    datacenter, by the configuration in force. `auth`: "tokens", or "open": every client may do everything;
    `open_listeners`: the addresses that are open like that and not on loopback. `grants` and
    `access_version`: of the table of grants in force; `access_age_s`: since it was last confirmed by a quorum.
    `version`: the release it runs; `wire_oldest` and `wire_newest`: the versions of the wire it speaks.
    `readable_secrets`: files of secrets and keys, each after its setting, that other users of the machine can read.
    `session` and `nodes`: of a datacenter with several nodes, which one this is, and all of them.
    `certificates`: when those of [tls] end, in seconds since 1970, by the name of the setting. `secrets`: fingerprints
    of the cluster's secrets that this node accepts; it speaks the first. `certificate_flaw`: why peers with its files
    refuse its certificate, empty if they do not; `authorities`: fingerprints of those that it trusts (tls.ca).
    `store_lease_ms`: of a datacenter with several nodes, the lease that this one renews in their database.
    `fast_rounds_wait_for`: replicas that must answer a node that was killed, and started again, before its clients'
    writes take one round trip again.
    """

    id: Count
    datacenter: str = ""
    cluster: str = ""
    pid: Count = 0
    epoch: Count = 0
    ready: bool = False
    state: str = ""
    reason: str = ""
    joint: bool = False
    epoch_age_s: float | None = None
    available: bool = False
    tolerated_failures: int = 0
    fast_path_share: float | None = None
    floor_ms: float | None = None
    quorum_policy: str | None = None
    replicas: int | None = None
    slow_quorum: int | None = None
    fast_quorum: int | None = None
    txn_fast_path_share: float | None = None
    txn_term: int = 0
    txn_state: str = ""
    txn_behind: int = 0
    txn_kept: int = 0
    txn_kept_for: list[int] = []
    writes_in_flight: int = 0
    uptime_s: float | None = None
    peers: list[PeerStatus] = []
    longest_sync_ms: float | None = None
    fast_rounds_wait_for: list[Count] = []
    disk: DiskUsage | None = None
    changelog_bytes: int | None = None
    changelog_limit: int | None = None
    clock_s: float | None = None
    rotten_rows: int = 0
    unrepaired_rows: int = 0
    scrub_ended_at: float | None = None
    session: Count = 0
    nodes: list[SessionReport] = []
    invariant_violations: int = 0
    flow_failures: int = 0
    compiled: bool = False
    url: str = ""
    addresses: list[str] = []
    start: StoreStart | None = None
    auth: str = ""
    open_listeners: list[str] = []
    grants: Count = 0
    access_version: Count = 0
    access_age_s: float | None = None
    readable_secrets: list[str] = []
    certificates: dict[str, float] = {}
    secrets: list[str] = []
    certificate_flaw: str = ""
    authorities: list[str] = []
    store_lease_ms: float | None = None
    version: str = ""
    wire_oldest: Count = 0
    wire_newest: Count = 0


# Members

NodeUrls = Annotated[str, documented(pattern=f"^{NODE_URL}(,{NODE_URL}){{0,{MAX_NODE_URLS - 1}}}$")]
"""The addresses of a member, one for each node of its datacenter, with commas between them."""


class QuorumSizes(Struct, frozen=True, kw_only=True):
    fast: Count
    slow: Count


class MemberProgress(Struct, frozen=True, kw_only=True):
    """What a member says of itself; `heard` false: it did not answer."""

    heard: bool
    epoch: Count = 0
    keys: Count = 0
    copied: Count = 0
    sources: tuple[int, ...] = ()
    synced: bool = False


class MemberRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`status`: joining, learning, active or leaving. `url`: of each node of its datacenter, with commas between them.
    `version`: the release that its node runs, as far as the node that answers has heard it. `progress` comes with
    progress=true."""

    id: Count
    status: str
    url: str
    identity: Count
    datacenter: str
    version: str = ""
    progress: MemberProgress | None = None


class Members(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`wanted`: the members after the change that is under way or waits for its turn. With progress=true come
    `settled`, no change is under way, and `waiting`, what the change waits for."""

    epoch: Count
    coordinator_id: Count
    quorum_policy: str
    quorums: QuorumSizes
    joint: bool
    previous: tuple[int, ...] | None
    wanted: tuple[int, ...]
    replicas: tuple[MemberRow, ...]
    settled: bool | None = None
    waiting: str | None = None


class Newcomer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node to be added: it runs, and waits for this."""

    id: ReplicaId
    url: NodeUrls
    datacenter: Annotated[str, documented(maxLength=63)] = ""


class NodeProbe(Struct, frozen=True, kw_only=True):
    """What a node says of itself to a holder of the cluster's secret. `url`: where others reach it, by its own file.
    `cluster`: the id of a cluster that was made from a backup."""

    id: ReplicaId
    datacenter: str
    url: str
    cluster: str
    state: str
    members: Members


class MovedMember(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A member that others reach at another address from now on."""

    id: ReplicaId
    url: NodeUrls


class MembersOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`force`: even if too few of the members that stay can be reached now."""

    add: list[Newcomer] = []
    remove: list[ReplicaId] = []
    move: list[MovedMember] = []
    force: bool = False


class Ordered(Struct, frozen=True, kw_only=True):
    """`queued`: another change is finished first."""

    wanted: tuple[int, ...]
    epoch: Count
    queued: bool
