"""What a WAN run finds, as it is written to benchmarks/results/, and how it is held against what was promised."""

from collections.abc import Iterator

from msgspec import Struct

from benchmarks.machine import Conditions, Machine
from benchmarks.stats import Ratios, Summary

P50_ABOVE_FLOOR_MS = 5.0
P99_ABOVE_FLOOR_MS = 10.0
OF_BEST_LEADER = 0.85
OF_AVERAGE_LEADER = 0.6
LOCAL_P50_MS = 1.0
SLOWER_AFTER_A_KILL = 2.0
"""Times the usual p99."""


class Fresh(Struct, frozen=True, kw_only=True):
    """Fresh keys from every region, ours and etcd's in turns. `slow` of ours did not end in the fast round. `etcd` is
    by leader, then by region."""

    regions: tuple[str, ...]
    slow: int
    floors: dict[str, float]
    ours: dict[str, Summary]
    etcd: dict[str, dict[str, Summary]]
    etcd_floors: dict[str, dict[str, float]]
    ratios: Ratios
    conditions: Conditions


class Emulated(Struct, frozen=True, kw_only=True):
    """The same with the WAN that nodes emulate themselves, as in the demo."""

    floors: dict[str, float]
    ours: dict[str, Summary]
    conditions: Conditions


class Survivor(Struct, frozen=True, kw_only=True):
    """One region while another is killed. `worst_ms` is the slowest write that was under way at the kill or began after
    it; pauses are the longest times without a commit, before the kill and from then on."""

    floor: float
    before: Summary
    after: Summary
    failed: int
    worst_ms: float
    pause_before_ms: float
    pause_after_ms: float

    @property
    def allowed_ms(self) -> float:
        return SLOWER_AFTER_A_KILL * self.before.p99


class Killed(Struct, frozen=True, kw_only=True):
    """By region that was killed, then by region that was left."""

    victims: dict[str, dict[str, Survivor]]
    conditions: Conditions


class Counted(Struct, frozen=True, kw_only=True):
    """Between the nodes, while `requests` were answered. `messages` are those that all nodes handled for their peers.
    `pieces` are what the proxy saw pass, `idle_pieces` what it sees in the same time without requests: peers measure
    their round trips."""

    requests: int
    messages: int
    pieces: int
    idle_pieces: int


class Local(Struct, frozen=True, kw_only=True):
    """Answers from one node alone, over all regions."""

    ours: dict[str, Summary]
    counted: dict[str, Counted]
    etcd: dict[str, Summary]
    conditions: Conditions


class Findings(Struct, frozen=True, kw_only=True):
    """Of all `stretches` of load that are kept, `noisy` had less of the machine than they should; `repeated` are not in
    the figures."""

    when: str
    commit: str
    machine: Machine
    etcd: str
    passes: int
    clients_each: int
    quick: bool
    realtime: bool
    proxy_adds_ms: float
    stretches: int
    noisy: int
    repeated: int
    five: Fresh
    three: Fresh
    emulated: Emulated
    killed: Killed
    local: Local


class Verdict(Struct, frozen=True, kw_only=True):
    claim: str
    wanted: str
    found: str
    held: bool


def verdicts(findings: Findings) -> Iterator[Verdict]:
    yield from near_floor("5 regions", findings.five.ours, findings.five.floors)
    yield from near_floor("5 regions, nodes' own delay", findings.emulated.ours, findings.emulated.floors)
    survivors = {
        f"{here} without {victim}": one
        for victim, left in findings.killed.victims.items()
        for here, one in left.items()
    }
    after = {name: one.after for name, one in survivors.items()}
    yield from near_floor("one of 5 killed", after, {name: one.floor for name, one in survivors.items()})
    yield from unharmed(survivors)
    for fresh in (findings.five, findings.three):
        yield from faster(f"{len(fresh.regions)} regions", fresh.ratios)
    yield from at_home(findings.local)


def near_floor(what: str, found: dict[str, Summary], floors: dict[str, float]) -> Iterator[Verdict]:
    """Of all regions the one that is farthest from its floor."""
    for name, limit, figures in (
        ("p50", P50_ABOVE_FLOOR_MS, {region: summary.p50 for region, summary in found.items()}),
        ("p99", P99_ABOVE_FLOOR_MS, {region: summary.p99 for region, summary in found.items()}),
    ):
        above = {region: figure - floors[region] for region, figure in figures.items()}
        worst = max(above, key=lambda region: above[region])
        yield Verdict(
            claim=f"{what}: {name} above the floor, worst region",
            wanted=f"at most {limit:.0f} ms",
            found=f"{above[worst]:.1f} ms ({worst})",
            held=above[worst] <= limit,
        )


def unharmed(survivors: dict[str, Survivor]) -> Iterator[Verdict]:
    failed = sum(one.failed for one in survivors.values())
    yield Verdict(claim="one of 5 killed: failed writes elsewhere", wanted="0", found=str(failed), held=failed == 0)
    slower = {name: one.worst_ms / one.before.p99 for name, one in survivors.items()}
    worst = max(slower, key=lambda name: slower[name])
    yield Verdict(
        claim="one of 5 killed: slowest write elsewhere, to the usual p99 there",
        wanted=f"at most {SLOWER_AFTER_A_KILL:.0f}x",
        found=f"{slower[worst]:.2f}x ({worst})",
        held=slower[worst] <= SLOWER_AFTER_A_KILL,
    )


def faster(what: str, ratios: Ratios) -> Iterator[Verdict]:
    for leader, limit, ratio in (
        (f"its best leader, {ratios.best_leader}", OF_BEST_LEADER, ratios.of_best),
        ("its average leader", OF_AVERAGE_LEADER, ratios.of_average),
    ):
        yield Verdict(
            claim=f"{what}: mean over regions, to etcd with {leader}",
            wanted=f"at most {limit}",
            found=f"{ratio:.2f}",
            held=ratio <= limit,
        )


def at_home(local: Local) -> Iterator[Verdict]:
    for name, summary in local.ours.items():
        yield Verdict(
            claim=f"{name}: p50",
            wanted=f"under {LOCAL_P50_MS:.0f} ms",
            found=f"{summary.p50:.2f} ms",
            held=summary.p50 < LOCAL_P50_MS,
        )
    for name, counted in local.counted.items():
        yield Verdict(
            claim=f"{name}: messages to peers for {counted.requests} requests",
            wanted="0",
            found=str(counted.messages),
            held=counted.messages == 0,
        )
