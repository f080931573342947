"""The simulator of a datacenter: it holds, it repeats itself, and it plays what nodes of one datacenter meet."""

import pytest

from epoxy_sim.campaign import Campaign
from epoxy_sim.datacenter.campaign import DatacenterSetup
from epoxy_sim.datacenter.generate import generate
from epoxy_sim.datacenter.plan import NodeFaultKind
from epoxy_sim.datacenter.shrink import without_last
from epoxy_sim.datacenter.simulation import run
from epoxy_sim.mutation_testing import chase


def test_some_seeds_hold() -> None:
    summary = Campaign(DatacenterSetup(), 0, 40).run()
    assert summary.failed == []
    counted = summary.tally.verdicts
    assert counted["fenced"] > 20, "sessions that were paused find themselves fenced"
    assert counted["shards moved"] > 40 * 257, "shards are handed over after they were taken"
    assert counted["changelog rows"] > 300


def test_a_timer_does_not_ring_before_the_answer_to_a_last_look_can_have_come() -> None:
    """A clock ran 1.88 times as fast as others, and a round trip took longer than a round (found by seed 3125)."""
    for plan in map(generate, range(3000, 3200)):
        round_trip_ms = 2 * 2 * plan.distance_us / 1000
        assert plan.timing.round_timeout_ms >= round_trip_ms * max(plan.rates)
    assert run(generate(3125)).failure is None


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_run_is_a_function_of_its_plan(seed: int) -> None:
    first, second = (run(generate(seed), tracing=True) for _ in range(2))
    assert first.trace
    assert first.trace == second.trace


def test_plans_have_every_fault_one_datacenter_or_several_and_clocks_that_differ() -> None:
    plans = [generate(seed) for seed in range(100)]
    assert {fault.kind for plan in plans for fault in plan.faults} == set(NodeFaultKind)
    assert {plan.n for plan in plans} == {1, 3}
    assert min(min(plan.rates) for plan in plans) < 0.7
    assert max(max(plan.rates) for plan in plans) > 1.5
    assert any(fault.lasts_us > plan.lease_ms * 2000 for plan in plans for fault in plan.faults), "beyond the lease"
    assert any(plan.weather.lost_after and plan.weather.lost_before and plan.weather.late for plan in plans)


def test_a_plan_is_described_and_made_smaller() -> None:
    setup, plan = DatacenterSetup(), generate(3)
    words = "\n".join(setup.describe(plan))
    assert f"{plan.nodes} nodes on one database" in words
    assert "leases of" in words
    smaller = without_last(plan)
    assert smaller.nodes == plan.nodes - 1
    assert run(smaller).failure is None


@pytest.mark.pure("plants faults")
def test_a_failure_is_shrunk() -> None:
    setup = DatacenterSetup(mutant="answers-before-commit")
    catch = chase(setup)
    assert catch.seed is not None
    assert catch.rule is not None
    plan = setup.plan(catch.seed)
    with setup.planted():
        shrunk = setup.shrink(plan, catch.rule, limit_events=60_000)
    assert shrunk.report.plan.size < plan.size
