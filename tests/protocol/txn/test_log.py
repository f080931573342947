"""What a replica knows of instances, and what it may throw away."""

import pytest

from epoxy.model.instances import NOTHING, Instance, InstanceId, Phase
from epoxy.protocol.txn.log import InstanceLog
from tests.protocol.txn.cluster import write


def committed(replica: int, slot: int, *, nop: bool = False) -> Instance:
    return Instance(id=InstanceId(replica, slot), phase=Phase.COMMITTED, nop=nop, command=write(), deps=NOTHING)


def test_floors_rise_over_gaps_that_are_filled() -> None:
    log = InstanceLog()
    for slot in (1, 3, 2):
        log.put(committed(1, slot))
    log.mark_executed(InstanceId(1, 1))
    log.mark_executed(InstanceId(1, 3))
    assert (log.floors(), log.beyond) == ((InstanceId(1, 1),), {InstanceId(1, 3)})
    log.mark_executed(InstanceId(1, 2))
    assert (log.floors(), log.beyond) == ((InstanceId(1, 3),), set())


def test_gaps_are_what_is_known_of_and_not_decided() -> None:
    log = InstanceLog()
    log.put(committed(1, 2))
    log.note_slot(InstanceId(2, 1))
    assert list(log.gaps()) == [InstanceId(1, 1), InstanceId(2, 1)]


def test_what_is_executed_by_all_is_forgotten_and_nothing_else() -> None:
    log = InstanceLog()
    for slot in (1, 2):
        log.put(committed(1, slot))
        log.mark_executed(InstanceId(1, slot))
    assert log.forget([InstanceId(1, 1)]) == [InstanceId(1, 1)]
    assert log.is_forgotten(InstanceId(1, 1))
    assert not log.is_forgotten(InstanceId(1, 2))
    assert log.interference.outside(InstanceId(9, 9), write(), NOTHING) == {InstanceId(1, 2)}
    with pytest.raises(AssertionError, match="before it is executed"):
        log.forget([InstanceId(1, 3)])


def test_a_nop_does_not_interfere() -> None:
    log = InstanceLog()
    log.put(Instance(id=InstanceId(1, 1), phase=Phase.PREACCEPTED, command=write(), deps=NOTHING, initial=NOTHING))
    assert log.interference.outside(InstanceId(2, 1), write(), NOTHING) == {InstanceId(1, 1)}
    log.put(committed(1, 1, nop=True))
    assert log.interference.outside(InstanceId(2, 1), write(), NOTHING) == frozenset()
