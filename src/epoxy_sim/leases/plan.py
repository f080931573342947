"""A whole run of leases as data, on the machines, network and faults of the per-key simulator."""

import enum

from msgspec import Struct

from epoxy.model.writes import Consistency
from epoxy_sim.keys.plan import MACHINE_MS, ClusterPlan

BOUND = 1.01
"""How much faster than another a clock may run."""


class LeaseAsk(enum.Enum):
    """What a client does in one step."""

    HOLD = "hold"
    """Acquire a lock by creating its key, renew it, and release it or leave it to its end."""
    CREATE = "create"
    PUT = "put"
    """With a time to live, or without one."""
    KEEP = "keep"
    """Put, and keep the expiry that is there."""
    ADD = "add"
    """A number gets its time to live when it is made, as in the window of a rate limit."""
    TOUCH = "touch"
    """With no time to live the value stays for ever."""
    DELETE = "delete"
    READ = "read"


class LeaseStep(Struct, frozen=True, kw_only=True):
    """Begins at `at_us`, or as soon as the step before is done. `lock`: its key is one that holders contend for.

    A holder asks for its lock `tries` times, each `poll_ms` after the last answer. It renews it after each third of its
    time to live, `renewals` times, and uses what it protects each time; then it releases the lock, or with `abandons`
    only stops renewing it. With `session` it begins a session first, and the lock ends with that."""

    at_us: int
    ask: LeaseAsk
    key: int
    lock: bool = False
    value: int
    ttl_ms: int = 0
    consistency: Consistency = Consistency.LINEARIZABLE
    tries: int = 1
    poll_ms: float = 100.0
    renewals: int = 0
    abandons: bool = False
    session: bool = False


class ClientPause(Struct, frozen=True, kw_only=True):
    """The client stands still, and its clock goes on."""

    at_us: int
    lasts_us: int


class LeaseClientPlan(Struct, frozen=True, kw_only=True):
    """`rate`: how fast its clock runs. `distance_us`: how long a message to its datacenter takes."""

    home: int
    rate: float
    distance_us: int
    steps: tuple[LeaseStep, ...]
    pauses: tuple[ClientPause, ...] = ()


class LeasePlan(ClusterPlan, frozen=True, kw_only=True):
    clients: tuple[LeaseClientPlan, ...]

    @property
    def size(self) -> int:
        return len(self.faults) + sum(1 + len(client.steps) + len(client.pauses) for client in self.clients)

    @property
    def is_patient(self) -> bool:
        """Whether no timer rings before an answer can have come, in calm."""
        round_trip_ms = 2 * (max(self.places) - min(self.places) + MACHINE_MS)
        return self.timing.hedge_ms >= round_trip_ms <= self.timing.round_timeout_ms

    @property
    def fastest(self) -> float:
        """The rate of the fastest clock."""
        return max(*self.skew, *(client.rate for client in self.clients))

    @property
    def slowest(self) -> float:
        return min(*self.skew, *(client.rate for client in self.clients))

    @property
    def names(self) -> list[bytes]:
        """Of all keys."""
        return sorted({key_of(step) for client in self.clients for step in client.steps})


def key_of(step: LeaseStep) -> bytes:
    """Locks are keys of their own: no other client overwrites or deletes them."""
    return b"%s-%d" % (b"lock" if step.lock else b"value", step.key)
