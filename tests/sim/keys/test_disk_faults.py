"""Disks that are not what they were: the others notice, and where they cannot, that is known."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from epoxy_sim.keys.plan import Ask, ClientPlan, Fault, FaultKind, Plan
from epoxy_sim.keys.plans.disk_copies import disk_copies, has_disk_copies
from epoxy_sim.keys.simulation import KeysSimulation, run
from epoxy_sim.simulation import Violation
from tests.protocol.keys.harness import A, B, C
from tests.sim.keys.bench import FINE, Town, plan_of, prepare, step

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


HOME, STRUCK, VOTER, *OTHERS = range(1, 6)


def five_members(*, cut_off: tuple[int, ...]) -> Plan:
    """HOME takes a name with the votes of VOTER and STRUCK, and goes down. STRUCK loses its vote, and starts strictly:
    VOTER and OTHERS record that start. Then VOTER is away, and a rival asks for the name at one of OTHERS.

    `cut_off`: these have no connection to STRUCK from before its vote until it has lost it.
    """
    faults = (
        Fault(at_us=300_000, kind=FaultKind.IMAGE, machines=(STRUCK,)),
        Fault(at_us=400_000, kind=FaultKind.CUT, machines=(STRUCK, *cut_off)),
        Fault(at_us=400_000, kind=FaultKind.CUT, machines=(HOME, *OTHERS)),
        Fault(at_us=400_000, kind=FaultKind.CRASH_ON_ANSWER, machines=(HOME,)),
        Fault(at_us=1_500_000, kind=FaultKind.HEAL, machines=()),
        Fault(at_us=1_500_000, kind=FaultKind.OLD_COPY, machines=(STRUCK,), sure=True),
        Fault(at_us=1_700_000, kind=FaultKind.PARTITION, machines=(VOTER,)),
    )
    clients = (
        ClientPlan(home=HOME, steps=(step(Ask.RESERVE, at_us=500_000, value=1),)),
        ClientPlan(home=OTHERS[0], steps=(step(Ask.RESERVE, at_us=1_800_000, value=2),)),
    )
    quiet = plan_of(5, weather=replace(FINE, commit_loss=1.0), clients=clients, faults=faults, faults_end_us=3_000_000)
    return replace(quiet, strict_start=True, probes=True)


def test_strict_starts_of_five_members_do_not_close_it_alone() -> None:
    """VOTER is of the quorum, and is asked; but it never heard how far STRUCK was. Only HOME did."""
    failure = run(five_members(cut_off=(VOTER, *OTHERS))).failure
    assert failure is not None
    assert failure.rule == "agreement"


@pytest.mark.parametrize("connected", [VOTER, *OTHERS])
def test_probes_make_a_witness_of_every_peer_that_is_connected(connected: int) -> None:
    """Any one of those that are asked is enough, and it need not have voted."""
    cut_off = tuple(each for each in (VOTER, *OTHERS) if each != connected)
    simulation = KeysSimulation(five_members(cut_off=cut_off), tracing=True)
    simulation.play()
    simulation.judge_all()
    assert [machine.id for machine in simulation.machines if machine.is_refused] == [STRUCK]


def test_a_disk_that_went_back_and_is_heard_is_a_violation() -> None:
    town = Town(replace(plan_of(), probes=True))
    town.machine(A).went_back = True
    with pytest.raises(Violation, match="not refused"):
        town.network.judge_refusals()


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
