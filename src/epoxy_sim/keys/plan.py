"""A plan is a whole run as data: who asks for what, and what breaks when.

`generate` makes it from a seed, `simulation.run` plays it, `shrink` removes from it what a failure does not need.
"""

import enum

import msgspec
from msgspec import Struct

from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Consistency
from epoxy.protocol.effects import Timing


class Ask(enum.Enum):
    """What a client does in one step."""

    RESERVE = "reserve"
    PUT = "put"
    SWAP = "swap"
    """Compare-and-set on the version this client saw last."""
    INCREMENT = "increment"
    """Read with a quorum, then compare-and-set until it succeeds."""
    DELETE = "delete"
    READ = "read"


class Step(Struct, frozen=True, kw_only=True):
    """Asked at `at_us`, or as soon as the step before is answered."""

    at_us: int
    ask: Ask
    key: int
    value: int
    consistency: Consistency = Consistency.OPTIMISTIC


class ClientPlan(Struct, frozen=True, kw_only=True):
    """Clients live in a datacenter and go to another one only while their own is down."""

    home: int
    steps: tuple[Step, ...]


class FaultKind(enum.Enum):
    CRASH = "crash"
    RESTART = "restart"
    PARTITION = "partition"
    ONE_WAY = "one-way"
    HEAL = "heal"
    PAUSE = "pause"
    RESUME = "resume"
    SLOW_DISK = "slow-disk"
    FAST_DISK = "fast-disk"
    DISK_FULL = "disk-full"
    FSYNC_FAILS = "fsync-fails"
    CRASH_ON_ANSWER = "crash-on-answer"
    """kill -9 right behind an acknowledgement."""
    CRASH_ON_SEND = "crash-on-send"
    """kill -9 between two messages of one round."""
    TRUNCATE = "truncate-changelog"
    """All rows of the changelog go: who has not read them must copy everything again."""
    LOSE_DISK = "lose-disk"
    """The machine is back, under its old name, with an empty disk."""


OF_CHANGES = (FaultKind.TRUNCATE, FaultKind.LOSE_DISK)
"""Faults that are of interest only where members change."""


class Fault(Struct, frozen=True, kw_only=True):
    """`machines` it concerns: one side of a partition, or whom it hits. `keep`: the share of unsynced transactions that
    a crash leaves on the disk. `count`: which of the answers or messages to come springs a trap."""

    at_us: int
    kind: FaultKind
    machines: tuple[int, ...]
    keep: float = 0.0
    count: int = 1


class Weather(Struct, frozen=True, kw_only=True):
    """What messages suffer while faults last. Probabilities."""

    loss: float = 0.0
    commit_loss: float = 0.0
    """Commits are sent once and nobody waits for an answer, so what their loss leaves behind deserves its own dial."""
    duplicate: float = 0.0
    long_delay: float = 0.0
    jitter: float = 0.1


class WishPlan(Struct, frozen=True, kw_only=True):
    """Somebody asks for these members, at a machine of theirs or at the next one that is up, until it is promised."""

    at_us: int
    home: int
    members: tuple[int, ...]


class Plan(Struct, frozen=True, kw_only=True):
    """A run with `wishes` is one of changing members."""

    seed: int
    n: int
    policy: QuorumPolicy
    timing: Timing
    places: tuple[float, ...]
    """Where each machine stands on a line, in milliseconds: how long a message takes is how far it has to go."""
    weather: Weather
    skew: tuple[float, ...]
    """How fast each machine's clock runs."""
    faults_end_us: int
    clients: tuple[ClientPlan, ...]
    faults: tuple[Fault, ...]
    encoded: bool
    """Whether messages travel as bytes: slower, so only some runs."""
    founders: tuple[int, ...] | None = None
    """Those of the n machines that are members from the beginning; None: all."""
    wishes: tuple[WishPlan, ...] = ()

    @property
    def size(self) -> int:
        return len(self.faults) + len(self.wishes) + sum(1 + len(client.steps) for client in self.clients)

    def keys(self) -> list[int]:
        return sorted({step.key for client in self.clients for step in client.steps})


def without(plan: Plan, **changes: object) -> Plan:
    return msgspec.structs.replace(plan, **changes)
