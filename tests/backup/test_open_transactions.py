"""Values of transactions from several survivors: one cut that has all that any of them executed."""

from collections.abc import Iterable
from pathlib import Path

from epoxy.backup.open_transactions import values_of
from epoxy.backup.open_writes import Doubt, OpenWrite
from epoxy.codec import wire
from epoxy.model.instances import NOTHING, Command, Deps, Instance, InstanceId, Phase, Term
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.transactions import Add, OrderedValue, Put, Txn
from epoxy.ports import Transaction
from epoxy.store.embedded.offline import StoppedStore
from epoxy.store.txn_rows import OrderedSpace
from tests.backup.directories import directory

FIRST, SECOND, THIRD = InstanceId(1, 1), InstanceId(2, 1), InstanceId(3, 1)


def put(instance_id: InstanceId, key: bytes, value: bytes, *deps: InstanceId) -> Instance:
    return instance(instance_id, Txn(then=(Put(key=key, value=value),)), *deps)


def instance(instance_id: InstanceId, txn: Txn, *deps: InstanceId) -> Instance:
    command = Command(txns=(txn,))
    return Instance(id=instance_id, phase=Phase.COMMITTED, command=command, deps=Deps(also=tuple(sorted(deps))))


def replica(
    path: Path,
    me: int,
    *,
    values: dict[bytes, bytes],
    held: Iterable[Instance] = (),
    executed: Iterable[InstanceId] = (),
    term: int = 0,
) -> StoppedStore:
    space = OrderedSpace(me)

    def fill(tx: Transaction) -> None:
        space.set_term(tx, Term(number=term, voters=(1, 2, 3), policy=QuorumPolicy.OPTIMAL, ending=False))
        for key, value in values.items():
            space.set_held(tx, key, OrderedValue(value=value, version=1))
        for each in held:
            space.within(term).save(tx, Instance(id=each.id), each)
        for each_id in executed:
            space.within(term).mark_executed(tx, each_id)

    return StoppedStore(directory(path / str(me), me, fill))


def rescued(*stores: StoppedStore) -> tuple[dict[bytes, bytes], list[OpenWrite]]:
    found, doubts = values_of([(store.description.replica, store) for store in stores])
    records = [(key, value) for key, value in found]
    assert records == sorted(records)
    for store in stores:
        store.close()
    return {key: wire.decode_ordered_value(record).value or b"" for key, record in records}, doubts


def test_what_others_have_decided_is_executed_on_top_of_the_furthest(tmp_path: Path) -> None:
    """Both coordinators acknowledged theirs: neither has executed both."""
    a, b = put(FIRST, b"a", b"1"), put(SECOND, b"b", b"2")
    one = replica(tmp_path, 1, values={b"a": b"1", b"x": b"0"}, held=[a], executed=[FIRST])
    two = replica(tmp_path, 2, values={b"b": b"2"}, held=[b], executed=[SECOND])
    values, doubts = rescued(one, two)
    assert values == {b"a": b"1", b"b": b"2", b"x": b"0"}
    assert doubts == []


def test_the_order_is_that_of_the_dependencies(tmp_path: Path) -> None:
    deposit = instance(FIRST, Txn(then=(Put(key=b"n", value=b"5"),)))
    more = instance(SECOND, Txn(then=(Add(key=b"n", amount=2),)), FIRST)
    later = put(THIRD, b"n", b"1", FIRST, SECOND)
    one = replica(tmp_path, 1, values={b"n": b"5"}, held=[deposit], executed=[FIRST])
    two = replica(tmp_path, 2, values={}, held=[later, more, deposit])
    assert rescued(one, two) == ({b"n": b"1"}, [])


def test_nothing_is_executed_twice(tmp_path: Path) -> None:
    """Planted: the furthest has counted it already."""
    added = instance(FIRST, Txn(then=(Add(key=b"n", amount=2),)))
    one = replica(tmp_path, 1, values={b"n": b"2"}, held=[added], executed=[FIRST])
    two = replica(tmp_path, 2, values={b"n": b"2"}, held=[added], executed=[FIRST])
    assert rescued(one, two) == ({b"n": b"2"}, [])


def test_what_waits_for_an_undecided_one_is_in_doubt_with_it(tmp_path: Path) -> None:
    command = Command(txns=(Txn(then=(Put(key=b"a", value=b"1"),)),))
    open_one = Instance(id=FIRST, phase=Phase.PREACCEPTED, command=command, deps=NOTHING, initial=NOTHING)
    waits = put(SECOND, b"b", b"2", FIRST)
    one = replica(tmp_path, 2, values={b"x": b"0"}, held=[open_one, waits])
    values, doubts = rescued(one)
    assert values == {b"x": b"0"}
    assert doubts == [
        OpenWrite(key=b"a", doubt=Doubt.TRANSACTION, replicas=(2,)),
        OpenWrite(key=b"b", doubt=Doubt.TRANSACTION, replicas=(2,)),
    ]


def test_a_later_term_has_all_of_the_earlier_ones(tmp_path: Path) -> None:
    """Slots begin again: an instance of the earlier term is another one."""
    old = put(FIRST, b"a", b"old")
    one = replica(tmp_path, 1, values={b"a": b"old"}, held=[old], executed=[FIRST])
    two = replica(tmp_path, 2, values={b"a": b"new"}, term=1)
    assert rescued(one, two) == ({b"a": b"new"}, [])


def test_a_replica_that_has_no_part_yet_is_not_the_furthest(tmp_path: Path) -> None:
    newcomer = StoppedStore(directory(tmp_path / "9", 9))
    one = replica(tmp_path, 1, values={b"a": b"1"})
    assert rescued(newcomer, one) == ({b"a": b"1"}, [])
