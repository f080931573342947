"""The planner, held against the demo's own figures and against an enumeration of all quorums and all failures."""

from collections.abc import Iterable, Sequence
from itertools import combinations, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epoxy.model import planning
from epoxy.model.api_plan import LeaderCost, PlanReport, WritePath
from epoxy.model.errors import InvalidRequest
from epoxy.model.floors import quorum_ms
from epoxy.model.planning import Planner, additions, plan
from epoxy.model.quorum import QuorumPolicy, quorums
from epoxy.model.round_trips import MAX_REGIONS, RoundTrips
from epoxy.transport.wan.aws import CHOICES, TABLE, floor_ms

FLOORS = {3: [70, 70, 152], 5: [72, 101, 127, 152, 180]}
"""As docs and the demo print them."""

NAMES = tuple("abcdefg")


# Brute force: every quorum, every set of failures, by their definitions.


class Enumeration:
    """`alive`: the regions that are up. A quorum is any set of them that is large enough and has its proposer in it."""

    def __init__(self, trips: RoundTrips, regions: Sequence[str], policy: QuorumPolicy, down: Iterable[str]) -> None:
        self.trips, self.regions, self.sizes = trips, regions, quorums(len(regions), policy)
        self.alive = [name for name in regions if name not in set(down)]

    def round_ms(self, here: str, size: int, gone: Iterable[str] = ()) -> float | None:
        left = [name for name in self.alive if name not in set(gone)]
        rounds = [
            max((self.trips.ms(here, there) for there in members if there != here), default=0.0)
            for members in combinations(left, size)
            if here in members
        ]
        return min(rounds, default=None)

    def commit_ms(self, here: str, gone: Iterable[str] = ()) -> tuple[float | None, WritePath | None]:
        fast, slow = self.round_ms(here, self.sizes.fast, gone), self.round_ms(here, self.sizes.slow, gone)
        if fast is not None:
            return fast, "fast"
        return (None, None) if slow is None else (2 * slow, "slow")

    def worst_after(self, here: str, failures: int) -> float | None:
        """None: there are failures that leave nothing, or not so many regions."""
        others = [name for name in self.alive if name != here]
        found = [self.commit_ms(here, gone)[0] for gone in combinations(others, failures)]
        costs = [cost for cost in found if cost is not None]
        return max(costs) if costs and len(costs) == len(found) else None

    def leader_ms(self, here: str, leader: str) -> float | None:
        majority = self.round_ms(leader, self.sizes.slow)
        return None if majority is None else majority + (self.trips.ms(here, leader) if here != leader else 0.0)


def faults(report: PlanReport, world: Enumeration) -> list[str]:
    """In what the report differs from the enumeration."""
    found = []
    for row in report.regions:
        here, up = row.region, row.region in world.alive
        all_up = Enumeration(world.trips, world.regions, world.sizes.policy, ())
        wanted = {
            "floor": (row.floor_ms, all_up.round_ms(here, world.sizes.fast)),
            "commit": ((row.commit_ms, row.path), world.commit_ms(here) if up else (None, None)),
            "read": (row.read_ms, world.round_ms(here, world.sizes.slow) if up else None),
            **{
                f"after {effect.failures}": (effect.commit_ms, world.worst_after(here, effect.failures))
                for effect in row.more_failures
            },
        }
        found += [f"{here}: {what}: {ours}, not {theirs}" for what, (ours, theirs) in wanted.items() if ours != theirs]
        for effect in row.more_failures:
            if effect.commit_ms is not None and world.commit_ms(here, effect.down)[0] != effect.commit_ms:
                found.append(f"{here}: {effect.down} are not the worst to fail")
        if (row.slow_path_ms, row.read_ms) != (2 * row.read_ms if row.read_ms is not None else None, row.read_ms):
            found.append(f"{here}: slow path {row.slow_path_ms}")
    for cost in report.leaders:
        for here, ours in cost.regions_ms.items():
            if ours != pytest.approx(world.leader_ms(here, cost.leader), abs=0.001):
                found.append(f"{here} by {cost.leader}: {ours}")
    if [cost.leader for cost in report.leaders] and len(report.leaders) != len(world.alive):
        found.append("leaders are missing")
    return found


@st.composite
def tables(draw: st.DrawFn) -> RoundTrips:
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    trip = st.integers(0, 40).map(lambda tenths: tenths * 12.5)  # few values, so that many are alike
    return RoundTrips(names, {pair: draw(trip) for pair in permutations(names, 2)})


@st.composite
def plans(draw: st.DrawFn) -> tuple[RoundTrips, list[str], QuorumPolicy, list[str]]:
    trips = draw(tables())
    chosen = draw(st.lists(st.sampled_from(trips.regions), min_size=1, unique=True))
    down = draw(st.lists(st.sampled_from(chosen), max_size=3, unique=True))
    return trips, chosen, draw(st.sampled_from(QuorumPolicy)), down


@settings(max_examples=60)
@given(plans())
def test_every_figure_is_that_of_the_enumeration(asked: tuple[RoundTrips, list[str], QuorumPolicy, list[str]]) -> None:
    trips, chosen, policy, down = asked
    report = plan(trips, chosen, policy=policy, down=down)
    world = Enumeration(trips, chosen, policy, down)
    assert faults(report, world) == []
    assert report.available == any(world.commit_ms(here)[0] is not None for here in world.alive)
    commits = [cost for here in world.alive if (cost := world.commit_ms(here)[0]) is not None]
    assert report.mean_ms == (pytest.approx(sum(commits) / len(commits), abs=0.001) if commits else None)
    assert report.worst_ms == max(commits, default=None)
    means = [cost.mean_ms for cost in report.leaders]
    assert means == sorted(means)


@settings(max_examples=30)
@given(plans(), st.integers(1, 3))
def test_the_best_to_add_is_the_best_of_all(
    asked: tuple[RoundTrips, list[str], QuorumPolicy, list[str]], count: int
) -> None:
    trips, chosen, policy, _ = asked
    others = [name for name in trips.regions if name not in chosen]
    if len(others) < count:
        with pytest.raises(InvalidRequest, match="cannot be added"):
            plan(trips, chosen, policy=policy, add=count)
        return

    def rank(added: Sequence[str]) -> tuple[float, float]:
        world = Enumeration(trips, [*chosen, *added], policy, ())
        floors = [world.round_ms(here, world.sizes.fast) or 0.0 for here in world.regions]
        return round(sum(floors) / len(floors), 3), max(floors)

    best = plan(trips, chosen, policy=policy, add=count).additions[0]
    assert (best.mean_ms, best.worst_ms) == rank(best.regions) == min(map(rank, combinations(others, count)))


@pytest.mark.parametrize("fault", ["quorum", "failures", "leader"])
def test_planted_faults_are_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quorum that is one too small; the farthest fail instead of the nearest; a leader next to every client."""
    if fault == "quorum":
        monkeypatch.setattr(planning, "quorum_ms", lambda trips, size: quorum_ms(trips, size - 1))
    elif fault == "failures":
        near = Planner.by_distance
        monkeypatch.setattr(Planner, "by_distance", lambda self, here: near(self, here)[::-1])
    else:
        monkeypatch.setattr(Planner, "leader", lambda self, leader: self_served(self, leader))
    five = CHOICES[5]
    assert faults(plan(TABLE, five), Enumeration(TABLE, five, QuorumPolicy.OPTIMAL, ())) != []


def self_served(planner: Planner, leader: str) -> LeaderCost:
    majority = planner.read_ms(leader) or 0.0
    costs = dict.fromkeys(planner.up, majority)
    return LeaderCost(leader=leader, mean_ms=majority, worst_ms=majority, regions_ms=costs)


# Figures that are known.


@pytest.mark.parametrize("size", CHOICES)
def test_floors_are_those_of_the_demo(size: int) -> None:
    report = plan(TABLE, CHOICES[size])
    assert [row.floor_ms for row in report.regions] == [floor_ms(here, CHOICES[size]) for here in CHOICES[size]]
    assert [row.commit_ms for row in report.regions] == [row.floor_ms for row in report.regions]
    if size in FLOORS:
        assert [round(row.floor_ms) for row in report.regions] == FLOORS[size]


def test_three_regions_in_full() -> None:
    report = plan(TABLE, CHOICES[3])
    virginia, dublin, tokyo = report.regions
    assert (report.replicas, report.slow_quorum, report.fast_quorum) == (3, 2, 2)
    assert (report.tolerated_failures, report.tolerated_fast_failures, report.available) == (1, 1, True)
    assert (report.mean_ms, report.worst_ms) == (97.8, 152.4)
    assert (virginia.slow_path_ms, virginia.read_ms, virginia.waits_for) == (141.0, 70.5, ["eu-west-1"])
    assert [cost.leader for cost in report.leaders] == ["us-east-1", "eu-west-1", "ap-northeast-1"]
    assert report.leaders[0].regions_ms == {"us-east-1": 70.5, "eu-west-1": 141.0, "ap-northeast-1": 222.9}
    assert (dublin.leader_ms, tokyo.leader_ms) == (141.0, 222.9)
    one, two = dublin.more_failures
    assert (one.commit_ms, one.path, one.down) == (204.4, "fast", ["us-east-1"])
    assert (two.commit_ms, two.path) == (None, None)


def test_with_fewer_than_a_fast_quorum_writes_take_the_slow_path() -> None:
    seven = CHOICES[7]
    report = plan(TABLE, seven, down=seven[:3])
    paths = {row.region: row.path for row in report.regions}
    assert {paths[name] for name in seven[:3]} == {None}
    assert {paths[name] for name in seven[3:]} == {"slow"}
    assert (report.available, report.tolerated_failures, report.tolerated_fast_failures) == (True, 0, 0)
    assert all(row.commit_ms == row.slow_path_ms for row in report.regions)
    assert all(row.down == (row.region in seven[:3]) for row in report.regions)


def test_without_a_majority_nothing_is_available() -> None:
    report = plan(TABLE, CHOICES[3], down=CHOICES[3][:2])
    assert not report.available
    assert (report.mean_ms, report.worst_ms, report.leaders) == (None, None, [])
    assert {row.commit_ms for row in report.regions} == {None}


def test_the_next_odd_number_is_looked_for() -> None:
    def counts(chosen: Sequence[str]) -> set[int]:
        return {len(addition.regions) for addition in plan(TABLE, chosen).additions}

    assert counts(CHOICES[9][:2]) == {1}
    assert counts(CHOICES[3]) == {2}
    assert counts(CHOICES[9][:8]) == {1}
    assert counts(CHOICES[9]) == set()
    third = plan(TABLE, ["us-east-1", "eu-west-1"]).additions[0]
    assert (third.regions, third.mean_ms, third.before_mean_ms) == (["eu-central-1"], 39.367, 47.15)
    assert (third.tolerated_failures, third.tolerated_fast_failures) == (1, 1)


def test_without_regions_the_best_are_chosen() -> None:
    report = plan(TABLE, [], add=3)
    assert [row.region for row in report.regions] == report.additions[0].regions
    assert report.additions[0].mean_ms == report.mean_ms
    assert report.additions[0].before_mean_ms is None


@pytest.mark.parametrize(
    ("chosen", "options", "words"),
    [
        ([], {}, "no regions are chosen"),
        (["moon"], {}, "unknown region 'moon'"),
        (["us-east-1", "us-east-1"], {}, "given twice"),
        (["us-east-1"], {"down": ["eu-west-1"]}, "'eu-west-1' cannot be down"),
        (["us-east-1"], {"add": 9}, "9 regions cannot be added: the table has 8 that are not chosen"),
        (["us-east-1"], {"add": 4, "most_compared": 300}, "350 floors, and at most 300 are compared"),
    ],
)
def test_what_cannot_be_planned(chosen: list[str], options: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        plan(TABLE, chosen, **options)  # type: ignore[arg-type]


def test_the_largest_search_is_within_the_limit() -> None:
    names = [f"r{number}" for number in range(MAX_REGIONS)]
    trips = RoundTrips(names, dict.fromkeys(combinations(names, 2), 1.0))
    assert len(additions(trips, [], QuorumPolicy.OPTIMAL, 8, planning.MAX_COMPARED)) == 6435


def test_alone_there_is_no_floor() -> None:
    (row,) = plan(TABLE, ["us-east-1"]).regions
    assert (row.floor_ms, row.commit_ms, row.slow_path_ms, row.read_ms, row.leader_ms) == (0.0, 0.0, 0.0, 0.0, 0.0)
    assert [effect.commit_ms for effect in row.more_failures] == [None, None]
