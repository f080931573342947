"""A plan is a whole run as data: what clients ask for, and what breaks when.

`generate` makes it from a seed, a simulation plays it, `shrink` removes from it what a failure does not need.
"""

import enum

from msgspec import Struct

from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Consistency
from epoxy.protocol.effects import Timing

EMBEDDED_SEEDS = 5
"""One run in so many has the embedded store: it has no factor in common with how often the kinds of plan come."""


def has_embedded_store(seed: int) -> bool:
    return seed % EMBEDDED_SEEDS == 1


LATE_SEEDS = 4
"""In one run of so many every Accept waits for the own vote."""


def sends_early(seed: int) -> bool:
    return seed % LATE_SEEDS != 0


class Ask(enum.Enum):
    """What a client does in one step."""

    RESERVE = "reserve"
    PUT = "put"
    SWAP = "swap"
    """Compare-and-set on the version this client saw last."""
    INCREMENT = "increment"
    """Add: the engine reads and writes."""
    COUNT = "count"
    """Read with a quorum, then compare-and-set until it succeeds."""
    EXCHANGE = "exchange"
    """Get-and-set."""
    DELETE = "delete"
    CREATE = "create"
    """Put, if there is no value."""
    LEND = "lend"
    """Put, with a time to live that is longer than a run."""
    KEEP = "keep"
    """Put, and keep the expiry that is there."""
    TOUCH = "touch"
    READ = "read"


TTL_MS = 1_000_000_000
"""Of values whose end no run comes to: which expiry a value has is judged, and `epoxy sim leases` judges the rest."""

WORD = -1
"""The value of a step that writes what is no number."""


class Step(Struct, frozen=True, kw_only=True):
    """Begins at `at_us`, or as soon as the step before is answered. An increment draws its amount from `value`."""

    at_us: int
    ask: Ask
    key: int
    value: int
    consistency: Consistency = Consistency.OPTIMISTIC


class ClientPlan(Struct, frozen=True, kw_only=True):
    """A client asks its own datacenter, and another one only while that is down. `copy`: it asks a copy of its
    datacenter's machine first, if one was started."""

    home: int
    copy: bool = False
    steps: tuple[Step, ...]


class FaultKind(enum.Enum):
    CRASH = "crash"
    RESTART = "restart"
    PARTITION = "partition"
    ONE_WAY = "one-way"
    HEAL = "heal"
    CUT = "cut"
    """The first machine and the others that are named do not reach each other; all other links work."""
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
    """All rows of the changelog are deleted: a learner that has not read them must copy everything again."""
    LOSE_DISK = "lose-disk"
    """The machine restarts under its old id with an empty disk."""
    IMAGE = "image"
    """A copy of the disk is made, and put away."""
    LIE = "lie"
    """From now on the disk reports syncs that it has not done."""
    OLD_COPY = "old-copy"
    """The machine restarts with the image in place of its disk. If no process has started since it was made, that is
    what a shortened log leaves, too."""
    SNAPSHOT_RESUMED = "snapshot-resumed"
    """The machine goes on as the process it was when the image was made."""
    LYING_SYNC = "lying-sync"
    """The power is cut, and all that was synced since the lie is lost."""
    CLONE = "clone"
    """A copy of the disk is started beside the original, under its id. An original that is down is started, too."""
    ROT = "rot"
    """Committed values, and rows of the changelog, are not what was written. Found soon after, as by a scrub."""
    ROT_VOTES = "rot-votes"
    """So are promises and votes."""


OF_CHANGES = (FaultKind.TRUNCATE, FaultKind.LOSE_DISK, FaultKind.ROT, FaultKind.ROT_VOTES)
"""Faults that matter only where members change."""


OF_COPIES = (
    FaultKind.IMAGE,
    FaultKind.LIE,
    FaultKind.OLD_COPY,
    FaultKind.SNAPSHOT_RESUMED,
    FaultKind.LYING_SYNC,
    FaultKind.CLONE,
)
"""Faults of disks that are not what they were."""


class Fault(Struct, frozen=True, kw_only=True):
    """`machines`: one side of a partition, or those it strikes. `keep`: the share of unsynced transactions that a crash
    leaves on the disk. `count`: which of the next answers or messages springs a trap. `sure`: strike a disk even if
    some machines do not know better, because the other faults see to it that it meets those that do first."""

    at_us: int
    kind: FaultKind
    machines: tuple[int, ...]
    keep: float = 0.0
    count: int = 1
    sure: bool = False


FAIR_JITTER = 1.0
"""A message takes twice its usual time at most."""


class Weather(Struct, frozen=True, kw_only=True):
    """What happens to messages until faults end, as probabilities."""

    loss: float = 0.0
    commit_loss: float = 0.0
    """Of Commits that are sent without waiting for an answer: no retry repairs their loss."""
    duplicate: float = 0.0
    long_delay: float = 0.0
    carry_loss: float = 0.0
    carry_again: float = 0.0
    """Of carried writes and their answers: they come again, seconds later."""
    carry_late: float = 0.0
    """Of the same: they come seconds late."""
    jitter: float = 0.1

    @property
    def is_fair(self) -> bool:
        """Whether all messages arrive once, in about the usual time."""
        return self == Weather(jitter=self.jitter) and self.jitter <= FAIR_JITTER


class ClockStep(Struct, frozen=True, kw_only=True):
    """The calendar of a machine is set by this much, as time servers and operators do."""

    at_us: int
    machine: int
    by_ms: int


class ClusterPlan(Struct, frozen=True, kw_only=True):
    """The machines of a run, the network between them, and what breaks when."""

    seed: int
    n: int
    policy: QuorumPolicy
    timing: Timing
    places: tuple[float, ...]
    """Where each machine stands on a line, in milliseconds: the distance is how long a message takes."""
    weather: Weather
    skew: tuple[float, ...]
    """How fast each machine's clock runs."""
    faults_end_us: int
    faults: tuple[Fault, ...] = ()
    encoded: bool = False
    """Whether messages travel as bytes: slower, so only in some runs."""
    embedded: bool = False
    """Whether machines have the embedded store on a simulated disk: slower than rows in memory, so in some runs."""
    strict_start: bool = False
    """Whether starts wait for n - slow + 1 others."""
    probes: bool = False
    """Whether processes probe each other all the time, as links do: slower, so only where positions matter."""
    founders: tuple[int, ...] | None = None
    """Those of the n machines that are members from the beginning; None: all."""
    suspends: bool = False
    """Whether the timers of a machine that pauses stand still with it, where machines have such clocks."""
    clock_steps: tuple[ClockStep, ...] = ()
    early: bool = False
    """Whether processes send Accepts before their own votes are durable, where that is allowed."""

    @property
    def first_members(self) -> tuple[int, ...]:
        return self.founders or tuple(range(1, self.n + 1))


class MembersChangePlan(Struct, frozen=True, kw_only=True):
    """These members are asked for at the machine `home`, or at the next one that is up, until that is acknowledged."""

    at_us: int
    home: int
    members: tuple[int, ...]


MACHINE_MS = 1.5
"""A sync at each end, and the shortest way."""


class Plan(ClusterPlan, frozen=True, kw_only=True):
    """Clients of single keys; with `changes`, while members come and go."""

    clients: tuple[ClientPlan, ...]
    changes: tuple[MembersChangePlan, ...] = ()

    @property
    def is_fair(self) -> bool:
        """Whether nothing breaks, and no timer rings before an answer can have come: every client must succeed."""
        slowest_ms = max(self.places) - min(self.places) + MACHINE_MS
        is_patient = self.timing.hedge_ms >= 2 * (1 + FAIR_JITTER) * slowest_ms <= self.timing.round_timeout_ms
        return not self.faults and not self.changes and self.weather.is_fair and is_patient

    @property
    def size(self) -> int:
        return len(self.faults) + len(self.changes) + sum(1 + len(client.steps) for client in self.clients)

    def keys(self) -> list[int]:
        return sorted({step.key for client in self.clients for step in client.steps})
