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
    each operation. `nodes` are the operations that each node answered, `node_p50` what its clients waited, over all
    rounds."""

    rate: Spread
    p50: Spread
    p99: Spread
    cpu_us: Spread
    generator_us: float
    generator_share: float
    operations: int
    failed: int
    faults: dict[str, int]
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
        nodes=tuple(sum(at.operations for at in node) for node in nodes),
        node_p50=tuple(statistics.median(at.latency.p50 for at in node) for node in nodes),
        stolen_share=statistics.fmean(outcome.stolen_share for outcome in outcomes),
        others_share=statistics.fmean(outcome.others_share for outcome in outcomes),
    )


class Point(Struct, frozen=True, kw_only=True):
    """One place on a curve: throughput and latency when something has grown to `x`."""

    x: float
    figures: Figures


class Stored(Struct, frozen=True, kw_only=True):
    """A system that holds so many keys. Bytes are for each key and node; `start_s` is one node's, None if it was not
    tried."""

    contender: str
    keys: int
    memory: Memory
    memory_before: Memory
    disk_bytes: int
    nodes: int
    start_s: float | None
    loaded: str


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
