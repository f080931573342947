"""The one who breaks things does what it says, when it says it, and stops when told."""

import pytest

from epoxy.model.messages import Failed, PrepareOk, Reply
from epoxy_sim.keys.plan import Fault, FaultKind, Weather
from tests.sim.keys.bench import Town, plan_of, prepare

A, B, C = 1, 2, 3


def fault(kind: FaultKind, *machines: int, at_us: int = 1000, keep: float = 0.0, count: int = 1) -> Fault:
    return Fault(at_us=at_us, kind=kind, machines=machines, keep=keep, count=count)


def struck_by(*faults: Fault, town: Town | None = None) -> Town:
    town = town or Town(tracing=True)
    town.nemesis.arrange(faults)
    town.pass_ms(1)
    return town


def hears(town: Town, sender: int, to: int, counter: int = 9) -> list[Reply]:
    replies = town.send(sender, to, prepare(counter, sender))
    town.pass_ms(1500)
    return replies


OK = [PrepareOk(vote=None)]

ROTS = (fault(FaultKind.ROT, A),)
"""In a plan with such a fault the stores have rows that can rot."""


def test_a_crash_takes_the_process_and_keeps_its_share() -> None:
    for keep, left in ((0.0, 0), (1.0, 3)):
        town = Town()
        town.handle(A, prepare(3))
        town.nemesis.arrange([fault(FaultKind.CRASH, A, B, at_us=0, keep=keep)])
        town.pass_ms(0)
        assert [machine.life is None for machine in town.machines] == [True, True, False]
        town.machine(A).start()
        assert town.state(A).promised.counter == left


def test_a_restart_brings_it_back_with_room_on_its_disk() -> None:
    town = struck_by(fault(FaultKind.CRASH, A), fault(FaultKind.DISK_FULL, A))
    assert town.machine(A).life is None
    struck_by(fault(FaultKind.RESTART, A), town=town)
    town.pass_ms(100)
    assert hears(town, B, A) == OK
    assert not town.machine(A).disk_full


def test_a_restart_of_what_is_up_is_nothing() -> None:
    town = Town()
    life = town.life(A)
    struck_by(fault(FaultKind.RESTART, A), town=town)
    assert town.life(A) is life


def test_a_partition_cuts_both_ways_and_heals() -> None:
    town = struck_by(fault(FaultKind.PARTITION, A))
    assert hears(town, A, B) == []
    assert hears(town, B, A) == []
    assert hears(town, B, C) == OK
    struck_by(fault(FaultKind.HEAL, A), town=town)
    assert hears(town, A, B, 10) == OK


def test_one_way_is_from_these_machines_to_the_rest() -> None:
    town = struck_by(fault(FaultKind.ONE_WAY, A))
    at_a, at_b = town.mailbox(A), town.mailbox(B)
    assert hears(town, A, B) == []
    assert hears(town, B, A) == []
    assert (at_a, at_b) == ([prepare(9, B)], [])
    assert hears(town, C, B) == OK


def test_a_pause_and_its_end() -> None:
    town = struck_by(fault(FaultKind.PAUSE, B))
    late = hears(town, A, B)
    assert late == []
    struck_by(fault(FaultKind.RESUME, B), town=town)
    town.pass_ms(5)
    assert late == OK


def test_slow_disks_and_fast_ones() -> None:
    town = struck_by(fault(FaultKind.SLOW_DISK, A, C))
    assert [machine.disk_slow for machine in town.machines] == [True, False, True]
    struck_by(fault(FaultKind.FAST_DISK, C), town=town)
    assert [machine.disk_slow for machine in town.machines] == [True, False, False]


@pytest.mark.parametrize("kind", [FaultKind.DISK_FULL, FaultKind.FSYNC_FAILS])
def test_a_broken_disk_stops_the_machine_at_its_next_write(kind: FaultKind) -> None:
    town = struck_by(fault(kind, A))
    assert town.machine(A).life is not None
    assert hears(town, B, A) == []
    assert len(town.machine(A).stops) == 1
    assert hears(town, B, A) == [Failed(reason="connection refused")]


@pytest.mark.parametrize("kind", [FaultKind.CRASH_ON_ANSWER, FaultKind.CRASH_ON_SEND])
def test_a_trap_is_set(kind: FaultKind) -> None:
    town = struck_by(fault(kind, B, count=5))
    assert (town.machine(B).trap, town.machine(B).trap_count) == (kind, 5)
    assert town.machine(A).trap is None


def test_every_kind_is_told_and_counted() -> None:
    town = Town(plan_of(faults=ROTS), tracing=True)
    struck_by(*(fault(kind, A) for kind in FaultKind), town=town)
    assert town.nemesis.struck == {kind.value: 1 for kind in FaultKind}
    told = [line for line in town.world.trace or [] if "fault: " in line]
    assert [line.split("fault: ")[1] for line in told] == [f"{kind.value} A" for kind in FaultKind]


def test_faults_strike_at_their_time() -> None:
    town = Town()
    town.nemesis.arrange([fault(FaultKind.CRASH, A, at_us=5000), fault(FaultKind.RESTART, A, at_us=7000)])
    for until, up in ((4.9, True), (0.1, False), (1.9, False), (0.1, True)):
        town.pass_ms(until)
        assert (town.machine(A).life is not None) is up


def test_relenting_ends_all() -> None:
    stormy = Weather(loss=0.9, duplicate=0.9, long_delay=0.9, commit_loss=0.9)
    town = Town(plan_of(weather=stormy, faults=ROTS))
    over = (FaultKind.HEAL, FaultKind.RESUME, FaultKind.RESTART, FaultKind.LOSE_DISK)
    kinds = [kind for kind in FaultKind if kind not in over]
    struck_by(*(fault(kind, A) for kind in kinds), fault(FaultKind.CRASH, B, C), town=town)
    town.nemesis.relent()
    town.pass_ms(200)
    for machine in town.machines:
        assert machine.life is not None
        assert (machine.paused, machine.disk_slow, machine.disk_full, machine.fsync_fails) == (False,) * 4
        assert machine.trap is None
    assert hears(town, A, B) == OK
    assert hears(town, C, A) == OK
    assert town.network.weather == Weather()
