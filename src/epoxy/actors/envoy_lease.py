"""The lease of an envoy: how often it pings, when it stops its actors, and which process has its key."""

from epoxy.model.envoy_messages import Welcome
from epoxy.protocol.placement.envoys import InUse
from epoxy.protocol.placement.records import EnvoyId, KeyInUse
from epoxy.protocol.placement.service import Placement

PINGS = 4
"""Within the time after which an envoy counts as lost: three may get lost."""

SILENT_PINGS = 2
"""After so many missed, the process behind an open connection may be dead."""

LOST_PERCENT = 80
"""Of that time, after which an envoy without an answer stops its actors. The rest is for clocks of different speed, and
for stopping."""


def lost_after_ms(threshold_ms: int) -> int:
    return threshold_ms * LOST_PERCENT // 100


def ended_after_ms(lost_ms: int) -> int:
    """When all code of an envoy has ended that stops it after `lost_ms`: what a node promises by an answer."""
    return lost_ms * 100 // LOST_PERCENT


def welcome(datacenter: str, threshold_ms: int, lost_ms: int) -> Welcome:
    """`lost_ms`: as above, or less where the lease of the datacenter is short."""
    every_ms = min(threshold_ms // PINGS, lost_ms // (PINGS - 1))
    return Welcome(datacenter=datacenter, ping_every_ms=every_ms, lost_after_ms=lost_ms)


def key_in_use(placement: Placement, envoy: EnvoyId, other: InUse, *, is_connected: bool) -> KeyInUse:
    """An open connection whose process is silent may belong to a host that lost its power: the worker may retry."""
    ago_ms, threshold_ms = placement.now_ms() - other.last_ping_ts, placement.config.eligible_threshold_ms
    told = f"key {envoy.key!r} in namespace {envoy.namespace!r} is in use by {other.holder}"
    if is_connected and ago_ms <= SILENT_PINGS * threshold_ms // PINGS:
        return KeyInUse(f"{told}, which is connected; give each worker process a key of its own", retry=False)
    gone = "is connected but silent" if is_connected else "is not connected any more"
    free = f"the key is free when that counts as lost, within {threshold_ms / 1000:g} s"
    return KeyInUse(f"{told}, which {gone}; {free}", retry=True)
