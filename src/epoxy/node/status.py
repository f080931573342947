"""How a node is doing, as values. Apart from `service`, which is compiled, as records cannot be."""

from msgspec import Struct

from epoxy import __compiled__
from epoxy.model.messages import Inspected


class PeerStatus(Struct, frozen=True, kw_only=True):
    id: int
    datacenter: str
    url: str
    rtt_ms: float | None
    reachable: bool
    status: str = "active"
    trouble: str = ""
    """Why it is not reachable, in the words of the last failure."""


class NodeReport(Struct, frozen=True, kw_only=True):
    """`tolerated_failures`: how many more replicas may fail before nothing can be decided; negative: nothing can now.
    `floor_ms`: the round trip to the nearest fast quorum, below which no fresh key commits. `state` and `reason`: see
    `standing`. `joint`: two sets of members must agree, for a moment. `epoch_age_s`: since when this process knows of
    the epoch. `txn_term` and `txn_state`: where this node's part of the ordered engine is; when it is "open" it orders
    transactions (docs/protocol/ordered.md). `txn_behind`: how many decisions about them it is known to have missed.
    `txn_kept` and `txn_kept_for`: how many it keeps because not all have executed them, and who lacks a great deal.
    `longest_sync_ms`: at the disk, of the last seconds. `invariant_violations`: seen by this process; not 0 is the
    worst news there is. `compiled`: whether the hot modules are (decision 0015)."""

    id: int
    datacenter: str
    pid: int
    epoch: int
    ready: bool
    state: str
    reason: str
    joint: bool
    epoch_age_s: float
    available: bool
    tolerated_failures: int
    fast_path_share: float | None
    floor_ms: float | None
    quorum_policy: str
    replicas: int
    slow_quorum: int
    fast_quorum: int
    txn_fast_path_share: float | None
    txn_term: int
    txn_state: str
    txn_behind: int
    txn_kept: int
    txn_kept_for: list[int]
    writes_in_flight: int
    uptime_s: float
    peers: list[PeerStatus]
    longest_sync_ms: float | None = None
    invariant_violations: int = 0
    compiled: bool = __compiled__


class ReplicaView(Struct, frozen=True, kw_only=True):
    """What one replica holds for a key; `held` None: it did not answer."""

    id: int
    datacenter: str
    held: Inspected | None
    reason: str = ""
