"""The tables of `epoxy bench placement`: measured values beside the promised and the theoretical ones."""

import math
from collections.abc import Callable, Iterator
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from epoxy_sim.placement.ring_model import Result, Ring, Scenario, ideal, play

SEED_TABLE = {1: 7.0, 4: 2.7, 8: 1.9, 16: 1.4, 32: 1.2, 64: 1.1}
"""Max over mean with one sample and 1,000 envoys, by virtual nodes, as the original text promises."""

AGES = {
    "counts fresh": (1, 0),
    "renewed every 1,000": (1_000, 0),
    "renewed every 10,000": (10_000, 0),
    "10,000 behind": (1, 10_000),
}
"""The age of the compared counts, as (burst, lag): renewed together every so many placements, or always so many
behind."""

SAMPLES = (1, 2, 3, 4)

CHECK_RINGS = 5
"""A promise is checked on the mean of at least this many rings, to even out luck."""


class Table(Struct, frozen=True, kw_only=True):
    title: str
    heads: list[str]
    rows: list[list[float]]


class Check(Struct, frozen=True, kw_only=True):
    """A promise and the measured value."""

    promise: str
    measured: float
    allowed: float

    @property
    def kept(self) -> bool:
        return self.measured <= self.allowed


class Figures:
    """`rings`: each figure is the mean over this many rings, each with its own envoys and dice."""

    def __init__(self, base: Scenario, rings: int, told: Callable[[str], None] = lambda _: None) -> None:
        self.base = base
        self.rings = rings
        self._told = told
        self._played: dict[Scenario, list[Result]] = {}

    def tables(self) -> Iterator[Table]:
        yield self.by_virtual_nodes()
        yield self.by_samples()
        yield self.by_jitter()
        yield self.bounded()
        yield self.lifetimes()

    def checks(self) -> list[Check]:
        self.rings = max(self.rings, CHECK_RINGS)
        fresh, old = self.base, replace(self.base, burst=10_000)
        one = replace(self.base, samples=1)
        ideals = fmean(ideal(one, seed) for seed in range(self.rings))
        bounded = [replace(self.base, bound_percent=percent, max_scan=256) for percent in (10, 25)]
        above = sum(result.above_cap for scenario in bounded for result in self._results(scenario))
        return [
            Check(promise="K = 2: max/mean", measured=self.mean(fresh), allowed=1.10),
            Check(promise="K = 2, counts up to 10,000 placements old", measured=self.mean(old), allowed=1.25),
            Check(promise="K = 1: apart from an ideal ring", measured=abs(self.mean(one) / ideals - 1), allowed=0.05),
            Check(promise="bounded load: above the cap", measured=above, allowed=0),
        ]

    def mean(self, scenario: Scenario) -> float:
        return fmean(result.max_over_mean for result in self._results(scenario))

    def gap(self, scenario: Scenario) -> float:
        return fmean(result.gap for result in self._results(scenario))

    def by_age(self, scenario: Scenario) -> list[float]:
        return [self.mean(replace(scenario, burst=burst, lag=lag)) for burst, lag in AGES.values()]

    def by_virtual_nodes(self) -> Table:
        rows = []
        for virtual_nodes in SEED_TABLE:
            one = replace(self.base, virtual_nodes=virtual_nodes, samples=1)
            two = replace(self.base, virtual_nodes=virtual_nodes)
            rings = [Ring(one.envoys, virtual_nodes, f"envoy-{seed}") for seed in range(self.rings)]
            shares = fmean(max(ring.shares()) * one.envoys for ring in rings)
            formula = 1 + math.log(one.envoys) / virtual_nodes
            rows.append([virtual_nodes, SEED_TABLE[virtual_nodes], formula, shares, self.mean(one), self.mean(two)])
        heads = ["V", "promised (1,000)", "1 + ln N / V", "largest share", "measured K=1", "measured K=2"]
        return Table(title="Max over mean, by virtual nodes", heads=heads, rows=rows)

    def by_samples(self) -> Table:
        rows = []
        for samples in SAMPLES:
            calm = replace(self.base, samples=samples, slot_jitter=0)
            lnln = math.log(math.log(self.base.envoys)) / math.log(samples) if samples > 1 else math.inf
            rows.append([samples, *self.by_age(replace(self.base, samples=samples)), self.gap(calm), lnln])
        heads = ["K", *AGES, "actors above the mean", "ln ln N / ln K"]
        return Table(title="Max over mean, by samples (the gap without jitter)", heads=heads, rows=rows)

    def by_jitter(self) -> Table:
        jitters = (0, 4, 16, 64)
        rows = [
            [burst, *(self.mean(replace(self.base, burst=burst, slot_jitter=jitter)) for jitter in jitters)]
            for burst in (1, 100, 1_000, 10_000)
        ]
        heads = ["burst", *(f"jitter {jitter}" for jitter in jitters)]
        return Table(title="Max over mean, when so many at once see the same counts", heads=heads, rows=rows)

    def bounded(self) -> Table:
        rows = []
        for percent in (10, 25, 50):
            for samples in (1, 2):
                scenario = replace(self.base, samples=samples, bound_percent=percent, max_scan=256)
                above = sum(result.above_cap for result in self._results(scenario))
                refused = sum(result.refused for result in self._results(scenario))
                rows.append([percent, samples, 1 + percent / 100, self.mean(scenario), above, refused])
        heads = ["bound %", "K", "cap/mean", "measured", "above the cap", "refused"]
        return Table(title="Bounded load", heads=heads, rows=rows)

    def lifetimes(self) -> Table:
        ending = replace(self.base, lifetime=self.base.placements // 2)
        rows = [[samples, *self.by_age(replace(ending, samples=samples))] for samples in SAMPLES]
        title = "Max over mean, when actors end after heavy-tailed lifetimes"
        return Table(title=title, heads=["K", *AGES], rows=rows)

    def _results(self, scenario: Scenario) -> list[Result]:
        played = self._played.setdefault(scenario, [])
        while len(played) < self.rings:
            self._told(f"K={scenario.samples} V={scenario.virtual_nodes} lag={scenario.lag} burst={scenario.burst}")
            played.append(play(scenario, len(played)))
        return played
