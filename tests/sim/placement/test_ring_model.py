"""The fast model of a pool makes the choices of the real allocator, and keeps what was promised of them."""

from random import Random
from statistics import fmean

import pytest

from epoxy.protocol.placement import envoys, rows
from epoxy.protocol.placement.allocator import allocate
from epoxy.protocol.placement.config import PlacementConfig
from epoxy.protocol.placement.records import EnvoyId, EnvoyPool, EnvoyRegistration
from epoxy.store.memory import MemoryStore
from epoxy_sim.placement.figures import Figures
from epoxy_sim.placement.ring_model import Play, Ring, Scenario, ideal, play

POOL = EnvoyPool("n", "p")


class SameDice:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.uniform = self._random.random

    def nonce(self) -> int:
        return self._random.getrandbits(64)


def real(scenario: Scenario, seed: int) -> list[int]:
    """The slots of every envoy after all placements, on a store."""
    store, dice = MemoryStore(), SameDice(seed)
    config = PlacementConfig(
        samples=scenario.samples,
        slot_jitter=scenario.slot_jitter,
        load_bound_percent=scenario.bound_percent,
        max_scan=scenario.max_scan,
    )
    for index in range(scenario.envoys):
        hello = EnvoyRegistration(namespace="n", pool="p", envoy_key=f"envoy-{seed}-{index}")
        store.transact(lambda tx, hello=hello: envoys.connect(tx, hello, 0, scenario.virtual_nodes))  # type: ignore[misc]
    for _ in range(scenario.placements):
        store.transact(lambda tx: allocate(tx, POOL, config, 0, dice))
    view = store.newest()
    return [rows.slots(view, EnvoyId("n", f"envoy-{seed}-{index}")) for index in range(scenario.envoys)]


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(envoys=40, placements=400, samples=1),
        Scenario(envoys=40, placements=400),
        Scenario(envoys=40, placements=400, samples=4, slot_jitter=0, virtual_nodes=3),
        Scenario(envoys=40, placements=400, bound_percent=10, max_scan=256),
        Scenario(envoys=40, placements=400, samples=1, bound_percent=5),
    ],
)
def test_the_model_chooses_what_the_allocator_chooses(scenario: Scenario) -> None:
    played = Play(scenario, Ring(scenario.envoys, scenario.virtual_nodes, "envoy-3"), Random(3))
    played.run()
    assert played.slots == real(scenario, 3)


def test_shares_are_the_whole_ring() -> None:
    shares = Ring(100, 8, "x").shares()
    assert sum(shares) == pytest.approx(1)
    assert max(shares) * 100 > 1.3


def test_two_choices_are_as_even_as_promised() -> None:
    assert play(Scenario(), 0).max_over_mean <= 1.10


def test_one_choice_is_as_even_as_the_ring_is() -> None:
    one = Scenario(samples=1, placements=50_000)
    assert fmean(play(one, seed).max_over_mean / ideal(one, seed) for seed in range(3)) == pytest.approx(1, abs=0.1)


def test_nobody_is_above_the_bound_and_a_broken_bound_is_seen() -> None:
    scenario = Scenario(envoys=50, placements=2_000, bound_percent=10, max_scan=256)
    assert play(scenario, 1).above_cap == 0
    broken = Play(scenario, Ring(50, 8, "envoy-1"), Random(1))
    broken._cap = lambda: 10**9  # type: ignore[method-assign]
    assert broken.run().above_cap > 0


def test_old_counts_are_worse_than_fresh_ones_and_fresh_ones_better_than_none() -> None:
    small = Scenario(envoys=200, placements=10_000)
    fresh = play(small, 1).max_over_mean
    old = play(Scenario(envoys=200, placements=10_000, lag=4_000), 1).max_over_mean
    none = play(Scenario(envoys=200, placements=10_000, samples=1), 1).max_over_mean
    assert fresh < old < none


def test_actors_that_end_leave_their_slots() -> None:
    scenario = Scenario(envoys=20, placements=2_000, lifetime=100)
    played = Play(scenario, Ring(20, 8, "x"), Random(5))
    played.run()
    assert 0 < sum(played.slots) == played.total < 1_000
    assert min(played.slots) >= 0


def test_every_table_has_a_figure_under_every_head() -> None:
    figures = Figures(Scenario(envoys=20, placements=200), 1)
    tables = list(figures.tables())
    assert len(tables) == 5
    for table in tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.heads)}
    assert [check.kept for check in figures.checks()][-1]
