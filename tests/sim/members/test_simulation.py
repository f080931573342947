"""Members come and go, and nothing is lost."""

from collections import Counter

import pytest
from msgspec.structs import replace

from epoxy.model.quorum import QuorumPolicy
from epoxy.protocol.effects import Timing
from epoxy_sim.keys.generate import HOT
from epoxy_sim.keys.plan import Ask, ClientPlan, Fault, FaultKind, MembersChangePlan, Plan, Step, Weather
from epoxy_sim.keys.shrink import with_replicas
from epoxy_sim.members.campaign import Setup
from epoxy_sim.members.generate import KINDS, generate
from epoxy_sim.members.mutants import ROT
from epoxy_sim.members.plans.churn import CHANGES
from epoxy_sim.members.simulation import MembersSimulation, run

HELD_SEEDS = 100
COORDINATOR = 1


def test_runs_hold() -> None:
    faults: Counter[str] = Counter()
    for seed in range(HELD_SEEDS):
        report = run(generate(seed))
        assert report.failure is None, f"seed {seed}: {report.failure}"
        assert set(report.verdicts) <= {"Linearizable"}
        faults.update(report.faults)
    assert {"crash", "crash-on-answer", "partition", "truncate-changelog", "lost", "duplicated"} <= faults.keys()


def test_a_late_request_takes_no_rows_from_a_learner() -> None:
    """The beginning of its copy, which it had given up, reached the source between two pages of the next one."""
    setup = Setup(workload=HOT)
    report = setup.run(setup.plan(21269))
    assert report.failure is None, report.failure


def test_rotten_rows_are_repaired_or_end_the_machine() -> None:
    """Each kind of plan a few times; every fifth on the production store."""
    noted: Counter[str] = Counter()
    for seed in range(24):
        setup = Setup(workload=ROT)
        report = setup.run(setup.plan(seed), tracing=True)
        assert report.failure is None, f"seed {seed}: {report.failure}"
        lines = "\n".join(report.trace or ())
        noted.update(word for word in (": repaired", "ends for good", "changelog is truncated") if word in lines)
    assert noted[": repaired"] >= 10
    assert noted["ends for good"] >= 4
    assert noted["changelog is truncated"] >= 1


def test_every_kind_of_plan_and_every_change_comes_up() -> None:
    plans = [generate(seed) for seed in range(400)]
    wanted = {(plan.founders, tuple(change.members for change in plan.changes)) for plan in plans}
    assert set(CHANGES.values()) <= wanted
    assert all(plan.changes and plan.founders for plan in plans)
    assert {plan.policy for plan in plans} == set(QuorumPolicy)
    assert any(plan.encoded for plan in plans)
    assert len(KINDS) == 6


def plain_plan(change: str) -> Plan:
    """Nothing breaks, and a client writes all the time."""
    founders, wanted = CHANGES[change]
    n = max(max(members) for members in (founders, *wanted))
    steps = tuple(Step(at_us=i * 40_000, ask=Ask.PUT, key=0, value=i) for i in range(25))
    return Plan(
        seed=1,
        n=n,
        founders=founders,
        policy=QuorumPolicy.OPTIMAL,
        timing=Timing(hedge_ms=8.0, round_timeout_ms=20.0),
        places=(0.0,) * n,
        weather=Weather(),
        skew=(1.0,) * n,
        faults_end_us=1_000_000,
        clients=(ClientPlan(home=founders[-1], steps=steps),),
        faults=(),
        encoded=False,
        changes=tuple(
            MembersChangePlan(at_us=50_000 + 300_000 * i, home=COORDINATOR, members=members)
            for i, members in enumerate(wanted)
        ),
    )


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_in_calm_no_write_fails_and_the_members_are_those_wanted(change: str) -> None:
    simulation = MembersSimulation(plain_plan(change), tracing=False)
    simulation.play()
    simulation.judge_all()
    members = simulation.change.newest()
    assert members.active == members.replica_ids == CHANGES[change][1][-1]
    told = Counter(type(outcome).__name__ for client in simulation.clients for outcome in client.outcomes)
    removed_home = simulation.plan.clients[0].home not in members.active
    assert told["Committed"] >= 24 - removed_home, told


@pytest.mark.parametrize("change", ["grow 3 to 5", "keep one of 3", "shrink 5 to 3", "there and back"])
def test_a_coordinator_may_die_at_every_message_it_sends(change: str) -> None:
    """And come back at once, later, or when all is over."""
    finished = 0
    for number in range(1, 120, 3):
        die = Fault(at_us=50_000, kind=FaultKind.CRASH_ON_SEND, machines=(COORDINATOR,), count=number)
        back_us = (60_000, 400_000, 1_000_000)[number % 3]
        back = Fault(at_us=back_us, kind=FaultKind.RESTART, machines=(COORDINATOR,))
        report = run(replace(plain_plan(change), faults=(die, back), weather=Weather(commit_loss=0.5)))
        assert report.failure is None, f"message {number}: {report.failure}"
        finished += 1
    assert finished == 40


def test_a_plan_with_fewer_replicas_keeps_its_changes() -> None:
    smaller = with_replicas(plain_plan("keep one of 3"), (2, 3, 5))
    assert (smaller.n, smaller.founders) == (3, (1, 2))
    assert smaller.changes == (MembersChangePlan(at_us=50_000, home=1, members=(2, 3)),)
