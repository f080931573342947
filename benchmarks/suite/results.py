"""What was found, as it is written to benchmarks/results/bench.json."""

import statistics
from collections.abc import Sequence

from msgspec import Struct

from benchmarks.machine import Machine
from benchmarks.suite.job import Outcome
from benchmarks.suite.processes import Memory


class Spread(Struct, frozen=True, kw_only=True):
    """Over rounds."""

    median: float
    low: float
    high: float


class Figures(Struct, frozen=True, kw_only=True):
    """One contender in one workload. `rate` is operations a second; times are milliseconds, CPU times microseconds for
    each operation. `faults` and `answered` count everything, outside of the windows too. `nodes` are the operations
    that each node answered, `node_p50` what its clients waited, over all rounds."""

    rate: Spread
    p50: Spread
    p99: Spread
    cpu_us: Spread
    generator_us: float
    generator_share: float
    operations: int
    failed: int
    faults: dict[str, int]
    answered: int
    nodes: tuple[int, ...]
    node_p50: tuple[float, ...]
    stolen_share: float
    others_share: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(median=statistics.median(values), low=min(values), high=max(values))


def figures(outcomes: Sequence[Outcome]) -> Figures:
    operations = sum(outcome.operations for outcome in outcomes)
    faults: dict[str, int] = {}
    for outcome in outcomes:
        for word, count in (*outcome.faults.items(), ("unanswered", outcome.unanswered)):
            faults[word] = faults.get(word, 0) + count
    nodes = list(zip(*(outcome.nodes for outcome in outcomes), strict=True))
    return Figures(
        rate=spread([outcome.rate for outcome in outcomes]),
        p50=spread([outcome.latency.p50 for outcome in outcomes]),
        p99=spread([outcome.latency.p99 for outcome in outcomes]),
        cpu_us=spread([outcome.cpu_us for outcome in outcomes]),
        generator_us=sum(outcome.generator_cpu_s for outcome in outcomes) / max(1, operations) * 1e6,
        generator_share=statistics.median(outcome.generator_cpu_s / outcome.seconds for outcome in outcomes),
        operations=operations,
        failed=sum(faults.values()),
        faults={word: count for word, count in faults.items() if count},
        answered=sum(outcome.answered for outcome in outcomes),
        nodes=tuple(sum(at.operations for at in node) for node in nodes),
        node_p50=tuple(statistics.median(at.latency.p50 for at in node) for node in nodes),
        stolen_share=statistics.fmean(outcome.stolen_share for outcome in outcomes),
        others_share=statistics.fmean(outcome.others_share for outcome in outcomes),
    )


class Held(Struct, frozen=True, kw_only=True):
    """A system before and after it was loaded. Memory and disk are of all its nodes together."""

    keys: int
    how: str
    took_s: float
    nodes: int
    before: Memory
    after: Memory
    disk_before: int
    disk_after: int

    @property
    def memory_per_key(self) -> float:
        """Bytes, for each node: what belongs to the processes alone."""
        return (self.after.anonymous - self.before.anonymous) / self.keys / self.nodes

    @property
    def disk_per_key(self) -> float:
        return (self.disk_after - self.disk_before) / self.keys / self.nodes


class Holding(Struct, frozen=True, kw_only=True):
    """Ours with so many keys. Of `alone` (1 client) and `busy` (64) each has two contenders: this one, and one that is
    empty. Memory is what it has after the load; starts are of one node, ended in order and killed."""

    held: Held
    alone: dict[str, Figures]
    busy: dict[str, Figures]
    reads: Figures
    memory: Memory
    memory_empty: Memory
    start_s: float
    start_after_kill_s: float


class Lines(Struct, frozen=True, kw_only=True):
    """What `count` open connections cost a server, in bytes each; no request is sent on them."""

    count: int
    bytes_each: float


class Overload(Struct, frozen=True, kw_only=True):
    """So many requests under way at once, all the time."""

    under_way: int
    figures: Figures

    @property
    def busy_share(self) -> float:
        """Of all requests, those that were refused with BUSY."""
        busy = self.figures.faults.get("BUSY", 0)
        return busy / max(1, busy + self.figures.answered)


Curve = dict[int, dict[str, Figures]]
"""What has grown, to what it did to each contender."""


class Growth(Struct, frozen=True, kw_only=True):
    clients: Curve
    sizes: Curve
    replicas: Curve
    keys: list[Holding]
    lines: dict[str, Lines]
    overload: list[Overload]


class Loaded(Struct, frozen=True, kw_only=True):
    """All systems with the same keys: what it took, and what they do then, by workload and contender."""

    held: dict[str, Held]
    workloads: dict[str, dict[str, Figures]]


class Results(Struct, frozen=True, kw_only=True):
    when: str
    commit: str
    machine: Machine
    versions: dict[str, str]
    rounds: int
    seconds: float
    quick: bool
    fsync_ms: tuple[float, float]
    workloads: dict[str, dict[str, Figures]]
    loaded: Loaded | None = None
    growth: Growth | None = None
