"""A model of a pool without its rows: the same places on the ring and the same random draws in the same order, so the
same choices as the real allocator's (a test compares the two), a hundred times faster.

It adds what a real pool has: old counts, bursts that see the same counts, and actors that end, some much later than
others.
"""

import heapq
from bisect import bisect_left
from collections import deque
from random import Random

from msgspec import Struct

from epoxy.protocol.placement.ring import positions

RING = 1 << 128

HEAVY_TAIL = 1.2
"""The exponent of lifetimes. Between 1 and 2 the mean exists and the variance does not: a few actors outlive all
others."""


class Scenario(Struct, frozen=True, kw_only=True):
    """`lag`: by how many placements the compared counts are old. `burst`: how many placements see the same counts.
    `bound_percent`: of bounded load, 0 for none. `lifetime`: mean number of placements after which an actor ends, 0 for
    never."""

    envoys: int = 1000
    virtual_nodes: int = 8
    samples: int = 2
    slot_jitter: int = 4
    placements: int = 100_000
    lag: int = 0
    burst: int = 1
    bound_percent: int = 0
    max_scan: int = 16
    lifetime: int = 0


class Result(Struct, frozen=True, kw_only=True):
    """`above_cap`: placements on an envoy that already held its share; `refused`: placements that found no envoy."""

    max_over_mean: float
    gap: float
    above_cap: int
    refused: int


class Ring:
    def __init__(self, envoys: int, virtual_nodes: int, name: str) -> None:
        places = [
            (int.from_bytes(place, "big"), index)
            for index in range(envoys)
            for place in positions(f"{name}-{index}", 0, virtual_nodes)
        ]
        places.sort()
        self.places = [place for place, _ in places]
        self.owners = [owner for _, owner in places]
        self.envoys = envoys

    def at(self, pivot: int) -> int:
        """The index of the first place at or after the pivot."""
        found = bisect_left(self.places, pivot)
        return found if found < len(self.places) else 0

    def shares(self) -> list[float]:
        """Each envoy's part of the ring: its share with an ideal allocator and one sample."""
        shares = [0] * self.envoys
        for before, place, owner in zip([self.places[-1] - RING, *self.places], self.places, self.owners, strict=False):
            shares[owner] += place - before
        return [share / RING for share in shares]


class Play:
    """One pool that fills up."""

    def __init__(self, scenario: Scenario, ring: Ring, dice: Random) -> None:
        self.scenario = scenario
        self.ring = ring
        self.dice = dice
        self.slots = [0] * scenario.envoys
        self.seen = self.slots if scenario.lag == 0 and scenario.burst == 1 else [0] * scenario.envoys
        self.total = self.refused = self.above_cap = 0
        self._late: deque[tuple[int, int]] = deque()
        self._ends: list[tuple[int, int]] = []

    def run(self) -> Result:
        for moment in range(self.scenario.placements):
            self._let_end(moment)
            if moment % self.scenario.burst == 0:
                self._tell(moment)
            chosen = self.choose()
            if chosen is None:
                self.refused += 1
            else:
                self._place(chosen, moment)
        mean = self.total / self.scenario.envoys
        return Result(
            max_over_mean=max(self.slots) / mean,
            gap=max(self.slots) - mean,
            above_cap=self.above_cap,
            refused=self.refused,
        )

    def choose(self) -> int | None:
        cap = self._cap() if self.scenario.bound_percent else None
        budget = self.scenario.max_scan
        found: dict[int, None] = {}
        for _ in range(self.scenario.samples):
            owner, budget = self._sample(cap, budget)
            if owner is None:
                break
            found[owner] = None
        return self._least(list(found)) if found else None

    def _sample(self, cap: int | None, budget: int) -> tuple[int | None, int]:
        dice, ring = self.dice, self.ring
        at = ring.at(dice.getrandbits(64) << 64 | dice.getrandbits(64))
        if cap is None:
            return ring.owners[at], budget
        for step in range(min(budget, len(ring.owners))):
            owner = ring.owners[(at + step) % len(ring.owners)]
            if self.slots[owner] < cap:
                return owner, budget - step
        return None, 0

    def _cap(self) -> int:
        return -(-(100 + self.scenario.bound_percent) * (self.total + 1) // (100 * self.scenario.envoys))

    def _least(self, candidates: list[int]) -> int:
        if len(candidates) == 1:
            return candidates[0]
        dice, jitter = self.dice, self.scenario.slot_jitter
        scores = [self.seen[each] + int(jitter * dice.random()) for each in candidates]
        least = min(scores)
        tied = [each for each, score in zip(candidates, scores, strict=True) if score == least]
        return tied[int(len(tied) * dice.random())]

    def _place(self, owner: int, moment: int) -> None:
        self.total += 1
        self._count(owner, 1, moment)
        bound = self.scenario.bound_percent
        if bound and self.slots[owner] > -(-(100 + bound) * self.total // (100 * self.scenario.envoys)):
            self.above_cap += 1
        if self.scenario.lifetime:
            scale = self.scenario.lifetime * (HEAVY_TAIL - 1) / HEAVY_TAIL
            heapq.heappush(self._ends, (moment + int(scale * self.dice.paretovariate(HEAVY_TAIL)), owner))

    def _let_end(self, moment: int) -> None:
        while self._ends and self._ends[0][0] <= moment:
            self.total -= 1
            self._count(heapq.heappop(self._ends)[1], -1, moment)

    def _count(self, owner: int, delta: int, moment: int) -> None:
        self.slots[owner] += delta
        if self.seen is not self.slots:
            self._late.append((moment + self.scenario.lag, owner if delta > 0 else ~owner))

    def _tell(self, moment: int) -> None:
        """Apply the changes that are old enough to the compared counts."""
        late = self._late
        while late and late[0][0] < moment:
            _, owner = late.popleft()
            if owner >= 0:
                self.seen[owner] += 1
            else:
                self.seen[~owner] -= 1


def play(scenario: Scenario, seed: int) -> Result:
    return Play(scenario, Ring(scenario.envoys, scenario.virtual_nodes, f"envoy-{seed}"), Random(seed)).run()


def ideal(scenario: Scenario, seed: int) -> float:
    """Max over mean if every placement were drawn by the shares of the ring directly."""
    shares = Ring(scenario.envoys, scenario.virtual_nodes, f"envoy-{seed}").shares()
    counts = [0] * scenario.envoys
    for owner in Random(f"ideal/{seed}").choices(range(scenario.envoys), weights=shares, k=scenario.placements):
        counts[owner] += 1
    return max(counts) * scenario.envoys / scenario.placements
