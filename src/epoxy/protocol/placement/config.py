"""The settings of placement. A value out of its range is refused before anything starts."""

import enum

from msgspec import Struct

from epoxy.model.errors import ConfigError
from epoxy.protocol.placement.records import EnvoyPool


class Strategy(enum.Enum):
    HASH = "hash"
    RANDOM_PING_TIMESTAMP = "random_ping_timestamp"
    RANDOM_FULL_RANGE = "random_full_range"


class Upgrade(enum.Enum):
    """What becomes of actors when envoys of a higher version connect: they stay until theirs drains, or move."""

    DRAIN = "drain"
    MOVE = "move"


RANGES: dict[str, tuple[int, int]] = {
    "samples": (1, 8),
    "virtual_nodes": (1, 64),
    "max_scan": (1, 256),
    "slot_jitter": (0, 64),
    "eligible_threshold_ms": (100, 3_600_000),
    "load_bound_percent": (0, 1000),
    "sweep_every_s": (1, 86_400),
    "rebalance_at_once": (0, 1000),
    "home_lease_ms": (5_000, 3_600_000),
}
"""The first four are those of the original design. An envoy pings several times within its threshold, so it is at least
a tenth of a second; a sweep is due at least once a day. A lease as a home is renewed three times in its time, by
writes that may take a second."""


RENAMED = {"envoy_eligible_threshold": "placement.eligible_threshold_ms, in milliseconds"}
"""Settings of the original design that have another name here."""

OF_POOLS = (
    "strategy",
    "samples",
    "virtual_nodes",
    "max_scan",
    "slot_jitter",
    "use_snapshot_read",
    "reserve_slots",
    "load_bound_percent",
    "upgrade",
)
"""The settings that a pool may override. The others concern all envoys of a node: how they are timed, swept and
moved."""


class PlacementConfig(Struct, frozen=True, kw_only=True):
    """`pools` are settings of single pools, under "pool" or "namespace/pool".

    `samples` is K of the power of K choices. `load_bound_percent` 25 keeps every envoy below 1.25 times its share; 0
    is no bound. `rebalance_at_once` is how many actors may be on the move from hot envoys; 0 moves none.
    `home_lease_ms`: the time to live of this datacenter's lease as a home; after it, others take its actors over."""

    strategy: Strategy = Strategy.HASH
    samples: int = 2
    virtual_nodes: int = 8
    max_scan: int = 16
    slot_jitter: int = 4
    eligible_threshold_ms: int = 10_000
    use_snapshot_read: bool = True
    pool_meta: bool = True
    reserve_slots: bool = True
    load_bound_percent: int = 0
    sweep_every_s: int = 60
    rebalance_at_once: int = 0
    home_lease_ms: int = 30_000
    upgrade: Upgrade = Upgrade.DRAIN
    pools: dict[str, "PlacementConfig"] = {}

    def of(self, pool: EnvoyPool) -> "PlacementConfig":
        """The settings for a pool's allocations."""
        if not self.pools:
            return self
        return self.pools.get(f"{pool.namespace}/{pool.name}") or self.pools.get(pool.name) or self

    def __post_init__(self) -> None:
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(f"placement.{name} is {value}; allowed: a whole number from {low} to {high}")

    @property
    def compares_slots(self) -> bool:
        """With one sample and no bound there is nothing to compare, and slots are not read."""
        return self.samples > 1 or self.load_bound_percent > 0
