"""A machine whose members change: what it admits, and rows that a learner still reads must stay."""

from epoxy.model.incarnation import MismatchCode
from epoxy.model.members import NO_STAMP, ChangelogRead, CursorTruncated
from epoxy_sim.members.generate import generate
from epoxy_sim.members.machine import MembersLife
from epoxy_sim.members.simulation import MembersSimulation

STAMP = b"\x01" * len(NO_STAMP)


def started() -> MembersSimulation:
    simulation = MembersSimulation(generate(0), tracing=True)
    for machine in simulation.machines:
        machine.start()
    simulation.network.introduce(simulation.plan.first_members)
    return simulation


def life_of(simulation: MembersSimulation, i: int) -> MembersLife:
    life = simulation.machines[i - 1].life
    assert isinstance(life, MembersLife)
    return life


def reading(reader: int, after: bytes) -> ChangelogRead:
    return ChangelogRead(store=1, reader=reader, after=after)


def learning(life: MembersLife, reader: int) -> None:
    """`reader` is a learner of the configuration this replica knows."""
    life.reading[reader] = STAMP


def test_a_founder_admits_the_other_founders_and_votes() -> None:
    simulation = started()
    founders = simulation.plan.first_members
    one, other = (life_of(simulation, i) for i in founders[:2])
    assert one.votes
    assert one.admits(other, other.gate.greeting(one.machine.id)) is None


def test_rows_that_a_learner_reads_must_not_go() -> None:
    life = life_of(started(), 1)
    learning(life, 9)
    truncated = CursorTruncated()
    assert life.lost_rows(reading(9, STAMP), truncated)
    assert not life.lost_rows(reading(9, NO_STAMP), truncated), "an earlier request, come late"
    assert not life.lost_rows(reading(8, STAMP), truncated), "never began to read here"


def test_a_fault_may_take_them() -> None:
    life = life_of(started(), 1)
    learning(life, 9)
    life.truncate()
    assert not life.lost_rows(reading(9, STAMP), CursorTruncated())


def test_a_machine_that_loses_its_disk_is_another_one() -> None:
    simulation = started()
    one, other = simulation.plan.first_members[:2]
    before = life_of(simulation, other)
    simulation.machines[other - 1].lose_disk()
    simulation.machines[other - 1].start()
    after = life_of(simulation, other)
    assert after.gate.identity != before.gate.identity
    mismatch = life_of(simulation, one).admits(after, after.gate.greeting(one))
    assert mismatch is not None
    assert mismatch.code is MismatchCode.ANOTHER_STORE
