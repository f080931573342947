"""The simulator of leases: it holds, it repeats itself, and what it plays is what leases are about."""

import pytest

from epoxy_sim.campaign import Campaign
from epoxy_sim.leases.campaign import LeaseSetup
from epoxy_sim.leases.generate import generate
from epoxy_sim.leases.plan import BOUND
from epoxy_sim.leases.shrink import without_last
from epoxy_sim.leases.simulation import run


def test_some_seeds_hold() -> None:
    summary = Campaign(LeaseSetup(), 0, 40).run()
    assert summary.failed == []
    counted = summary.tally.verdicts
    assert counted["holders"] > 80
    assert counted["ends"] > 80
    assert counted["fenced"] > 5, "holders that stood still use what they do not hold any more"
    assert summary.tally.folds["folds"] > 0


def test_a_session_that_a_crash_kept_may_end_by_the_count_of_the_next_process() -> None:
    """It was written and not durable when the disk was full, and the judge heard of it when it ended."""
    assert run(generate(21285)).failure is None


@pytest.mark.parametrize("seed", [0, 1, 6])
def test_a_run_is_a_function_of_its_plan(seed: int) -> None:
    first, second = (run(generate(seed), tracing=True) for _ in range(2))
    assert first.trace
    assert first.trace == second.trace


def test_clocks_differ_within_the_bound_and_as_far_as_it_allows() -> None:
    plans = [generate(seed) for seed in range(50)]
    assert all(plan.fastest <= plan.slowest * BOUND * 1.000001 for plan in plans)
    assert any(plan.fastest >= plan.slowest * BOUND * 0.999999 for plan in plans)


def test_machines_are_suspended_and_restarted_and_clients_stand_still() -> None:
    plans = [generate(seed) for seed in range(50)]
    kinds = {fault.kind.value for plan in plans for fault in plan.faults}
    assert {"pause", "restart", "partition", "crash"} <= kinds
    assert any(plan.suspends for plan in plans)
    assert any(client.pauses for plan in plans for client in plan.clients)


def test_a_plan_is_described_and_shrunk() -> None:
    setup, plan = LeaseSetup(), generate(3)
    words = "\n".join(setup.describe(plan))
    assert "hold lock-0 for" in words
    assert "runs at" in words
    smaller = without_last(plan)
    assert smaller.n == plan.n - 1
    assert run(smaller).failure is None


@pytest.mark.pure("plants faults")
def test_a_failure_is_shrunk() -> None:
    setup = LeaseSetup(mutant="create-over-expired")
    plan = setup.plan(0)
    with setup.planted():
        failure = setup.run(plan).failure
        assert failure is not None
        shrunk = setup.shrink(plan, failure.rule, limit_events=150_000)
    assert shrunk.report.plan.size < plan.size
    assert len(shrunk.report.plan.clients) < len(plan.clients)
