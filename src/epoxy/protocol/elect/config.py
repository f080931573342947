"""What every node of a cluster must agree on. `lists.py` says how the list of nodes may change."""

import hashlib

from msgspec import Struct

from epoxy.model.address import Address

MAX_ID_BYTES = 32
"""The limit of the original text. An id is in every frame."""

MAX_NODES = 15
"""Every node sends to every other: with more of them heartbeats alone would be a load, and 15 nodes tolerate seven
failures."""

DRIFT_PERCENT = 5
"""By how much a lease must be shorter than the silence after which another node is elected. Two clocks that run 1 % off
in opposite directions need 2; the rest is for fencing a server that answers slowly."""

NEVER = 0
"""The priority of a node that votes and is never promoted."""


class ElectNode(Struct, frozen=True, kw_only=True):
    """`control`: where its agent listens for other agents. `server`: where clients reach its server."""

    id: str
    control: Address
    server: Address
    priority: int = 100

    @property
    def promotable(self) -> bool:
        return self.priority != NEVER


class ElectTiming(Struct, frozen=True, kw_only=True):
    """Names and defaults of the original text. `lease_ms` is ours: how long a primary may write after it sent the last
    heartbeat that a majority has answered."""

    hb_interval_ms: int = 200
    down_after_ms: int = 5_000
    lease_ms: int = 3_750
    election_timeout_ms: int = 3_000
    election_backoff_min_ms: int = 1_000
    election_backoff_max_ms: int = 5_000

    @property
    def fresh_ms(self) -> int:
        """How long a heartbeat is taken as its sender's current state before an election: four may be late or lost."""
        return min(4 * self.hb_interval_ms, self.down_after_ms)

    @property
    def rejoin_ms(self) -> int:
        """After this time no promise from before a restart matters any more: no lease runs, and no candidate counts
        votes, even with clocks that drift."""
        longest = max(self.down_after_ms, self.election_timeout_ms)
        return longest + longest * DRIFT_PERCENT // 100 + 1


class ElectConfig(Struct, frozen=True, kw_only=True):
    """`initial_primary` leads epoch 1 without an election. `min_replicas_to_write`: how many replicas must keep up for
    the primary to accept writes."""

    cluster: str
    nodes: tuple[ElectNode, ...]
    initial_primary: str
    timing: ElectTiming = ElectTiming()
    min_replicas_to_write: int = 0

    @property
    def quorum(self) -> int:
        return len(self.nodes) // 2 + 1

    def node(self, node_id: str) -> ElectNode:
        return next(node for node in self.nodes if node.id == node_id)

    def others(self, me: str) -> tuple[str, ...]:
        return tuple(node.id for node in self.nodes if node.id != me)


def fingerprint(config: ElectConfig) -> str:
    """Of what must be equal on all nodes: each waits for the leases of the others."""
    timing = config.timing
    times = " ".join(str(getattr(timing, name)) for name in ElectTiming.__struct_fields__)
    return hashlib.sha256(f"{config.cluster}\n{times}".encode()).hexdigest()
