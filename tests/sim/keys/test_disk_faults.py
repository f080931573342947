"""Disks that are not what they were: the others notice, and where they cannot, that is known."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from epoxy_sim.keys.plan import Fault, FaultKind, Plan
from epoxy_sim.keys.plans.disk_copies import disk_copies, has_disk_copies
from epoxy_sim.keys.simulation import KeysSimulation, run
from tests.protocol.keys.harness import A, B, C
from tests.sim.keys.bench import Town, plan_of, prepare

WENT_BACK = (FaultKind.OLD_COPY, FaultKind.SNAPSHOT_RESUMED, FaultKind.LYING_SYNC)
PLANS = [disk_copies(seed, "per-key", 3, None) for seed in range(60)]


def plans_with(*kinds: FaultKind) -> Iterable[Plan]:
    return (plan for plan in PLANS if set(kinds) <= {fault.kind for fault in plan.faults})


def strict_old_copy() -> Plan:
    """The home of the last write is down when the old copy starts, and the third was cut off all the while."""
    found = plans_with(FaultKind.OLD_COPY, FaultKind.PARTITION, FaultKind.CRASH_ON_ANSWER)
    return next(plan for plan in found if plan.strict_start)


@pytest.mark.parametrize("kind", WENT_BACK)
def test_a_machine_whose_disk_went_back_is_refused_and_nothing_is_lost(kind: FaultKind) -> None:
    simulation = KeysSimulation(next(iter(plans_with(kind))), tracing=True)
    simulation.play()
    simulation.judge_all()
    (struck,) = [machine for machine in simulation.machines if machine.went_back]
    assert struck.is_refused
    assert struck.life is not None
    assert "knows better than this store" in struck.life.gate.refused
    assert [machine.id for machine in simulation.machines if machine.is_refused] == [struck.id]


def test_of_a_running_machine_and_its_copy_the_copy_is_refused() -> None:
    plan = next(plan for plan in plans_with(FaultKind.CLONE) if len(plan.faults) == 1)
    simulation = KeysSimulation(plan, tracing=True)
    simulation.play()
    (original,) = [machine for machine in simulation.machines if machine.copies]
    (copy,) = original.copies
    assert original.life is not None
    assert original.life.gate.may_vote
    assert copy.life is not None
    assert not copy.life.gate.may_vote
    assert any("two processes have one identity" in line for line in simulation.world.trace or [])


def test_what_strict_starts_close_is_open_without_them() -> None:
    """The only witness is away, and the one that answers was cut off for the whole of what was lost."""
    strict = strict_old_copy()
    assert run(strict).failure is None
    faults = tuple(replace(fault, sure=fault.kind is FaultKind.OLD_COPY) for fault in strict.faults)
    failure = run(replace(strict, strict_start=False, faults=faults)).failure
    assert failure is not None
    assert failure.rule in ("agreement", "linearizability", "two winners")


def test_a_disk_is_spared_if_no_witness_is_left() -> None:
    town = Town(replace(plan_of(), probes=True), tracing=True)
    town.nemesis._strike(Fault(at_us=0, kind=FaultKind.IMAGE, machines=(A,)))
    town.nemesis._strike(Fault(at_us=0, kind=FaultKind.OLD_COPY, machines=(A,)))
    assert not town.machine(A).went_back, "nothing was written since, so nothing is lost"
    town.send(B, A, prepare(2))
    town.send(C, A, prepare(3))
    town.pass_ms(800)
    town.nemesis._strike(Fault(at_us=0, kind=FaultKind.OLD_COPY, machines=(A,)))
    assert town.machine(A).went_back
    town.pass_ms(100)
    assert town.machine(A).is_refused
    town.machine(A).crash()
    town.machine(A).start()
    assert town.machine(A).is_refused, "for good"


def test_some_seeds_have_such_plans() -> None:
    assert [seed for seed in range(30) if has_disk_copies(seed)] == [13, 27]
