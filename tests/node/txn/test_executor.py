"""The order of execution: dependencies first, bounded turns, and what waits for an undecided instance."""

from itertools import pairwise

from epoxy.model.cluster import first_epoch
from epoxy.model.instances import Command, Deps, InstanceId, OrderedCommit
from epoxy.model.transactions import Add, Txn
from epoxy.node.txn.executor import EXECUTED_AT_ONCE, Results
from epoxy.node.txn.replica import OrderedReplica
from epoxy.store.memory import MemoryStore

KEY = b"k"


class Place:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.replica = OrderedReplica(1, self.store, first_epoch((1, 2, 3)))
        self.executed: list[InstanceId] = []
        self.backlogs = 0
        self.replica.on_executed = self._executed
        self.replica.on_backlog = self._backlog

    def _executed(self, instance_id: InstanceId, results: Results) -> None:
        assert results is None or len(results) == 1
        self.executed.append(instance_id)

    def _backlog(self) -> None:
        self.backlogs += 1

    def decide(self, instance_id: InstanceId, *deps: InstanceId, amount: int | None = 1) -> None:
        command = None if amount is None else Command(txns=(Txn(then=(Add(key=KEY, amount=amount),)),))
        self.replica.handle(OrderedCommit(id=instance_id, command=command, deps=Deps(also=tuple(sorted(deps)))))

    @property
    def value(self) -> bytes | None:
        return self.replica.space.held(self.store.newest(), KEY).value


def ids(replica_id: int, count: int) -> list[InstanceId]:
    return [InstanceId(replica_id, slot) for slot in range(1, count + 1)]


A, B, C = InstanceId(2, 1), InstanceId(3, 1), InstanceId(2, 2)


def test_a_decision_waits_for_the_dependencies_that_are_not_decided() -> None:
    place = Place()
    place.decide(B, A)
    assert place.executed == []
    assert place.replica.waits_for(A)
    place.decide(A)
    assert place.executed == [A, B]
    assert not place.replica.waits_for(A)
    assert place.value == b"2"


def test_one_that_is_freed_may_wait_for_another() -> None:
    place = Place()
    place.decide(C, A, B)
    assert [place.replica.waits_for(each) for each in (A, B)].count(True) == 1
    first, second = (A, B) if place.replica.waits_for(A) else (B, A)
    place.decide(first)
    assert place.executed == [first]
    assert place.replica.waits_for(second)
    place.decide(second)
    assert place.executed[-1] == C


def test_a_cycle_is_executed_together() -> None:
    place = Place()
    place.decide(A, B)
    place.decide(B, A)
    assert sorted(place.executed) == [A, B]


def test_a_nop_is_executed_and_changes_nothing() -> None:
    place = Place()
    place.decide(A, amount=None)
    assert (place.executed, place.value) == ([A], None)


def test_a_long_chain_is_executed_in_bounded_turns() -> None:
    place = Place()
    chain = ids(2, 3 * EXECUTED_AT_ONCE)
    for before, after in pairwise(chain):
        place.decide(after, before)
    assert place.executed == []
    place.decide(chain[0])
    turns = 1
    while len(place.executed) < len(chain):
        executed = len(place.executed)
        place.replica.execute_some()
        assert len(place.executed) - executed <= EXECUTED_AT_ONCE
        turns += 1
    assert place.executed == chain
    assert place.backlogs == turns - 1 > 1
    assert place.value == str(len(chain)).encode()
