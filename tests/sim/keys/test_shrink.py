"""A shrunk plan is smaller, fails in the same way, and is the same one every time."""

import pytest

from epoxy_sim.keys.plan import Plan
from epoxy_sim.keys.shrink import LIMIT_EVENTS, PlanSearch, with_replicas
from epoxy_sim.keys.simulation import run
from epoxy_sim.keys.trace_format import describe
from epoxy_sim.members.campaign import Setup
from epoxy_sim.search import Shrunk

SETUP = Setup(workload="per-key", mutant="two-fast-votes", n=5)


def first_failure(setup: Setup) -> tuple[Plan, str]:
    for seed in range(100):
        report = run(setup.plan(seed))
        if report.failure is not None:
            return report.plan, report.failure.rule
    raise AssertionError("nothing fails")


def shrunk_failure(limit_events: int = LIMIT_EVENTS) -> tuple[Plan, str, Shrunk[Plan]]:
    with SETUP.planted():
        plan, rule = first_failure(SETUP)
        return plan, rule, SETUP.shrink(plan, rule, limit_events=limit_events)


def test_a_failure_shrinks_to_its_core() -> None:
    """Two rivals and one message are enough for a second fast vote."""
    plan, rule, shrunk = shrunk_failure()
    assert shrunk.complete
    assert shrunk.report.failure is not None
    assert shrunk.report.failure.rule == rule == "second vote"
    assert shrunk.report.plan.size < plan.size
    assert (shrunk.report.plan.n, len(shrunk.report.plan.clients), shrunk.report.plan.faults) == (2, 2, ())
    assert shrunk.report.trace is not None
    assert len(shrunk.report.trace) < 10


def test_shrinking_is_deterministic() -> None:
    _, _, once = shrunk_failure()
    _, _, again = shrunk_failure()
    assert (once.report.plan, once.runs, once.report.trace) == (again.report.plan, again.runs, again.report.trace)


def test_the_limit_ends_the_search_with_something_that_still_fails() -> None:
    _, rule, shrunk = shrunk_failure(limit_events=2_000)
    assert not shrunk.complete
    assert shrunk.report.failure is not None
    assert shrunk.report.failure.rule == rule


class Candidates(PlanSearch):
    """Keeps what would be tried. Accepts a few, so that reductions build on each other and come to an end."""

    def __init__(self, plan: Plan, accepting: bool) -> None:
        super().__init__(plan, "none", run)
        self.tried: list[Plan] = []
        self._accepting = accepting

    def attempt(self, candidate: Plan) -> bool:
        self.tried.append(candidate)
        accepted = self._accepting and len(self.tried) % 5 == 0
        if accepted:
            self.best = candidate
        return accepted


@pytest.mark.parametrize("accepting", [True, False])
@pytest.mark.parametrize("workload", ["per-key", "mutable"])
def test_every_candidate_is_a_plan_that_can_be_played(workload: str, accepting: bool) -> None:
    """The protocol is correct, so a failure here is the shrinker's."""
    for seed in (0, 3, 5):
        search = Candidates(Setup(workload=workload, n=4).plan(seed), accepting)
        search.reduce()
        assert len(search.tried) > 20
        for candidate in search.tried[::7]:
            assert run(candidate).failure is None, candidate


def test_without_a_replica_the_others_move_down() -> None:
    plan = Setup(workload="per-key", n=5).plan(2)
    smaller = with_replicas(plan, (1, 3, 4, 5))
    assert (smaller.n, len(smaller.skew), len(smaller.places)) == (4, 4, 4)
    renamed = {1: 1, 2: 1, 3: 2, 4: 3, 5: 4}
    assert [client.home for client in smaller.clients] == [renamed[client.home] for client in plan.clients]
    assert all(1 <= i <= 4 for fault in smaller.faults for i in fault.machines)
    assert all(fault.machines for fault in smaller.faults)


def test_a_plan_in_words_names_everything() -> None:
    plan = Setup(workload="mutable", n=3).plan(1)
    told = "\n".join(describe(plan))
    assert "3 replicas on a line (A at" in told
    assert all(f"c{number} at " in told for number in range(1, len(plan.clients) + 1))
    assert all(fault.kind.value in told or "partitions heal" in told for fault in plan.faults)
