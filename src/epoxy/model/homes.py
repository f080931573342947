"""Where actors live, and what they keep: records in keys of the cluster's own.

ff /actor/ name       the reservation of a name, immutable: the home of its first actor
ff /home/ name        the home of the name's actor since, mutable; it counts if it is there
ff /datacenter/ label the lease of a datacenter, under which it is home; with a time to live
ff /state/ id         the state of an actor, mutable; its version is the fence
"""

from msgspec import Struct

from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.records import MAX_VALUE_BYTES

HOME_KEYS = FIRST_SYSTEM_KEY + b"/home/"
DATACENTER_KEYS = FIRST_SYSTEM_KEY + b"/datacenter/"
STATE_KEYS = FIRST_SYSTEM_KEY + b"/state/"

INCARNATION_BYTES = 16
MAX_POOLS = 256
"""In the lease of a datacenter. Others are found by asking."""

MAX_DOCUMENT_BYTES = MAX_VALUE_BYTES - 128
"""Of an actor's state: the rest of a value is for the head of its record."""

COUNT_BITS = 32


class HomeRecord(Struct, frozen=True, kw_only=True, array_like=True):
    """`label`: the datacenter. `lease`: the incarnation of its lease, under which it is home; empty: released, any
    datacenter may take it. `epoch` rises with each change. `alive` false: the actor is destroyed, and the name may be
    given to a new one."""

    actor_id: bytes
    label: int
    lease: bytes = b""
    epoch: int = 0
    pool: str = "default"
    create_ts: int = 0
    input: bytes = b""
    alive: bool = True


class DatacenterLease(Struct, frozen=True, kw_only=True, array_like=True):
    """`incarnation` is drawn at random and never used again, so what names one that is over has no home. `pools`: the
    namespaces and pools for which the datacenter has workers."""

    incarnation: bytes
    pools: tuple[tuple[str, str], ...] = ()


class StateRecord(Struct, frozen=True, kw_only=True, array_like=True):
    """Written by the `number`th save of a generation, which is how a save whose outcome was unknown is recognised.
    `alarm_ms`: unix time; 0: none."""

    generation: int = 0
    number: int = 0
    alarm_ms: int = 0
    document: bytes = b""


def generation_of(epoch: int, count: int) -> int:
    """Rises for ever: with each start within a home, and with each change of home."""
    return epoch << COUNT_BITS | count


def epoch_of(generation: int) -> int:
    return generation >> COUNT_BITS


def datacenter_key(label: int) -> bytes:
    return DATACENTER_KEYS + label.to_bytes(2, "big")


def state_key(actor_id: bytes) -> bytes:
    return STATE_KEYS + actor_id
