"""The planner: what a choice of regions makes of writes and reads, before a cluster exists.

Pure arithmetic over a table of round trips and the sizes of quorums. It is in `model`, beside the quorums, because the
HTTP API and the command line both answer with it, and neither needs a node, a clock or a socket for that.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

from epoxy.model.api_plan import Addition, FailureEffect, LeaderCost, PlannedRegion, PlanReport, WritePath
from epoxy.model.errors import InvalidRequest
from epoxy.model.floors import quorum_ms
from epoxy.model.quorum import QuorumPolicy, Quorums, quorums
from epoxy.model.round_trips import RoundTrips

MORE_FAILURES = (1, 2)
"""Which counts of further failures each region is told about."""

MAX_COMPARED = 60_000
"""Floors that are computed to find the best regions to add: a tenth of a second. Any choice from the largest table has
fewer."""

SHOWN_ADDITIONS = 5


class Planner:
    """One choice of regions. `down`: those of them that have failed."""

    def __init__(
        self,
        trips: RoundTrips,
        regions: Sequence[str],
        policy: QuorumPolicy = QuorumPolicy.OPTIMAL,
        down: Collection[str] = (),
    ) -> None:
        trips.check(regions)
        if not regions:
            raise InvalidRequest("no regions are chosen")
        if strange := [name for name in down if name not in regions]:
            raise InvalidRequest(f"region {strange[0]!r} cannot be down: it is not among those chosen")
        self.trips = trips
        self.regions = tuple(regions)
        self.up = tuple(name for name in regions if name not in down)
        self.sizes: Quorums = quorums(len(self.regions), policy)

    @property
    def available(self) -> bool:
        return len(self.up) >= self.sizes.slow

    def floor_ms(self, here: str) -> float:
        """While all regions are up: a fresh key, one round trip to the nearest fast quorum."""
        floor = quorum_ms(self.trips.to_others(here, self.regions), self.sizes.fast)
        assert floor is not None, "a quorum is never larger than all"
        return floor

    def read_ms(self, here: str) -> float | None:
        """A linearizable read of a quiet key: one round trip to the nearest majority."""
        return quorum_ms(self.trips.to_others(here, self.up), self.sizes.slow)

    def slow_path_ms(self, here: str) -> float | None:
        """Prepare and Accept, a round trip to the nearest majority each."""
        majority = self.read_ms(here)
        return None if majority is None else 2 * majority

    def commit_ms(self, here: str) -> tuple[float | None, WritePath | None]:
        """A fresh key: in one round trip while a fast quorum is up, by the slow path while a majority is."""
        fast = quorum_ms(self.trips.to_others(here, self.up), self.sizes.fast)
        if fast is not None:
            return fast, "fast"
        slow = self.slow_path_ms(here)
        return slow, None if slow is None else "slow"

    def by_distance(self, here: str) -> list[str]:
        """The others that are up, the nearest first."""
        return sorted((name for name in self.up if name != here), key=lambda there: self.trips.ms(here, there))

    def after(self, here: str, failures: int) -> FailureEffect:
        """The worst that further failures of others can do to `here`: the nearest fail, and the quorum is made of those
        behind them. No other failures are worse: the round trips that are left are then the longest."""
        gone = self.by_distance(here)[:failures]
        left = Planner(self.trips, self.regions, self.sizes.policy, [*self.down, *gone])
        commit, path = left.commit_ms(here) if len(gone) == failures else (None, None)
        return FailureEffect(failures=failures, commit_ms=commit, path=path, down=gone)

    @property
    def down(self) -> list[str]:
        return [name for name in self.regions if name not in self.up]

    def leader(self, leader: str) -> LeaderCost | None:
        """None: the leader has no majority."""
        majority = self.read_ms(leader)
        if majority is None:
            return None
        by_client = {
            here: rounded(majority + (self.trips.ms(here, leader) if here != leader else 0.0)) for here in self.up
        }
        costs = by_client.values()
        return LeaderCost(leader=leader, mean_ms=mean(costs), worst_ms=max(costs), regions_ms=by_client)

    def leaders(self) -> list[LeaderCost]:
        """The best first."""
        costs = [cost for name in self.up if (cost := self.leader(name)) is not None]
        return sorted(costs, key=lambda cost: (cost.mean_ms, cost.worst_ms))

    def region(self, here: str, best: LeaderCost | None) -> PlannedRegion:
        if here not in self.up:
            return PlannedRegion(
                region=here,
                down=True,
                floor_ms=self.floor_ms(here),
                commit_ms=None,
                path=None,
                slow_path_ms=None,
                read_ms=None,
                waits_for=[],
                leader_ms=None,
                more_failures=[],
            )
        commit, path = self.commit_ms(here)
        size = {"fast": self.sizes.fast, "slow": self.sizes.slow}[path] if path is not None else 1
        return PlannedRegion(
            region=here,
            down=False,
            floor_ms=self.floor_ms(here),
            commit_ms=commit,
            path=path,
            slow_path_ms=self.slow_path_ms(here),
            read_ms=self.read_ms(here),
            waits_for=self.by_distance(here)[: size - 1],
            leader_ms=best.regions_ms[here] if best is not None else None,
            more_failures=[self.after(here, failures) for failures in MORE_FAILURES],
        )


def plan(
    trips: RoundTrips,
    regions: Sequence[str],
    *,
    policy: QuorumPolicy = QuorumPolicy.OPTIMAL,
    down: Collection[str] = (),
    add: int | None = None,
    choices: Sequence[Sequence[str]] = (),
    most_compared: int = MAX_COMPARED,
) -> PlanReport:
    """`add`: for so many regions the best are looked for; None: for the next odd number, because an even one tolerates
    no more failures than the odd one below it. Without `regions` the best `add` are chosen."""
    trips.check(regions)
    if not regions and not add:
        raise InvalidRequest("no regions are chosen; name some, or say how many to look for")
    found = additions(trips, regions, policy, add, most_compared)
    planner = Planner(trips, regions or found[0].regions, policy, down)
    leaders = planner.leaders()
    rows = [planner.region(here, leaders[0] if leaders else None) for here in planner.regions]
    commits = [row.commit_ms for row in rows if row.commit_ms is not None]
    sizes, failed = planner.sizes, len(planner.down)
    return PlanReport(
        policy=policy.value,
        replicas=sizes.n,
        slow_quorum=sizes.slow,
        fast_quorum=sizes.fast,
        tolerated_failures=max(0, sizes.f - failed),
        tolerated_fast_failures=max(0, sizes.e - failed),
        available=planner.available,
        mean_ms=mean(commits) if commits else None,
        worst_ms=max(commits, default=None),
        regions=rows,
        leaders=leaders,
        additions=found[:SHOWN_ADDITIONS],
        known=list(trips.regions),
        choices=[list(choice) for choice in choices],
    )


def additions(
    trips: RoundTrips, regions: Sequence[str], policy: QuorumPolicy, add: int | None, most_compared: int
) -> list[Addition]:
    """All combinations of so many of the other regions, the best first: by the mean floor, then by the worst, then in
    the order of the table."""
    others = [name for name in trips.regions if name not in regions]
    if add is None:
        add = min(1 + len(regions) % 2, len(others))
    if add > len(others):
        raise InvalidRequest(f"{add} regions cannot be added: the table has {len(others)} that are not chosen")
    if add == 0:
        return []
    if (work := math.comb(len(others), add) * (len(regions) + add)) > most_compared:
        words = f"the best {add} of {len(others)} regions: {work:,} floors, and at most {most_compared:,} are compared"
        raise InvalidRequest(f"{words}; name more regions, or add fewer")
    return sorted(candidates(trips, regions, policy, others, add), key=lambda found: (found.mean_ms, found.worst_ms))


def candidates(
    trips: RoundTrips, regions: Sequence[str], policy: QuorumPolicy, others: Sequence[str], add: int
) -> Iterator[Addition]:
    for added in combinations(others, add):
        planner = Planner(trips, [*regions, *added], policy)
        floors = [planner.floor_ms(here) for here in planner.regions]
        yield Addition(
            regions=list(added),
            mean_ms=mean(floors),
            worst_ms=max(floors),
            before_mean_ms=mean(floors[: len(regions)]) if regions else None,
            tolerated_failures=planner.sizes.f,
            tolerated_fast_failures=planner.sizes.e,
        )


def mean(values: Collection[float]) -> float:
    return rounded(math.fsum(values) / len(values))


def rounded(ms: float) -> float:
    """To microseconds: finer than any table, and sums show no rests of binary fractions."""
    return round(ms, 3)
