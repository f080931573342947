"""When transactions may be put forward, and which go together."""

from epoxy.model.instances import MAX_BATCH, Command, Deps, Instance, InstanceId, Phase
from epoxy.model.transactions import Get, Put, Txn, TxnOutcome
from epoxy.protocol.txn.gathering import KeyGathering
from epoxy.protocol.txn.queue import MAX_IN_FLIGHT, Queue, QueuedTransaction


def ignored(_: TxnOutcome) -> None:
    return None


def writes(*keys: bytes, size: int = 1) -> Txn:
    return Txn(then=tuple(Put(key=key, value=bytes(size)) for key in keys))


def queue_of(*txns: Txn) -> Queue:
    queue = Queue(3)
    for txn in txns:
        queue.add(QueuedTransaction(txn, ignored))
    return queue


def take_off(queue: Queue, slot: int) -> tuple[Txn, ...]:
    flight = queue.next()
    if flight is None:
        return ()
    queue.start_command(InstanceId(1, slot), flight.command)
    return flight.command.txns


def test_what_waits_goes_together() -> None:
    one, two = writes(b"a"), writes(b"b")
    queue = queue_of(one, two)
    assert take_off(queue, 1) == (one, two)
    assert take_off(queue, 2) == ()


def test_what_interferes_waits_for_its_predecessor_and_keeps_its_place() -> None:
    first, second, third, other = writes(b"a"), writes(b"a", b"b"), writes(b"b"), writes(b"c")
    queue = queue_of(first)
    assert take_off(queue, 1) == (first,)
    for txn in (second, third, other):
        queue.add(QueuedTransaction(txn, ignored))
    assert take_off(queue, 2) == (other,), "the third would overtake the second"
    queue.finish_command(InstanceId(1, 1))
    assert take_off(queue, 3) == (second, third)


def test_readers_do_not_wait_for_readers() -> None:
    look = Txn(then=(Get(key=b"a"),))
    queue = queue_of(look)
    take_off(queue, 1)
    queue.add(QueuedTransaction(look, ignored))
    assert take_off(queue, 2) == (look,)
    queue.add(QueuedTransaction(writes(b"a"), ignored))
    assert take_off(queue, 3) == ()
    queue.finish_command(InstanceId(1, 1))
    queue.finish_command(InstanceId(1, 2))
    assert take_off(queue, 3) == (writes(b"a"),)


def test_batches_flights_and_bytes_are_bounded() -> None:
    queue = queue_of(*(writes(b"%d" % i) for i in range(MAX_BATCH + 1)))
    assert len(take_off(queue, 1)) == MAX_BATCH
    for slot in range(2, MAX_IN_FLIGHT + 1):
        queue.add(QueuedTransaction(writes(b"x%d" % slot), ignored))
        assert take_off(queue, slot)
    queue.add(QueuedTransaction(writes(b"y"), ignored))
    assert take_off(queue, 99) == ()
    large = queue_of(*(writes(b"%d" % i, size=100_000) for i in range(30)))
    assert len(take_off(large, 1)) == 10, "a mebibyte at a time"
    assert take_off(large, 2) == ()


def test_what_came_to_nothing_is_first_in_line() -> None:
    queue = queue_of(writes(b"b"))
    queue.requeue([QueuedTransaction(writes(b"a"), ignored), QueuedTransaction(writes(b"a"), ignored)])
    assert take_off(queue, 1) == (writes(b"a"), writes(b"a"), writes(b"b"))


def executed(slot: int, *txns: Txn) -> Instance:
    nothing = Deps()
    return Instance(
        id=InstanceId(1, slot),
        phase=Phase.COMMITTED,
        command=Command(txns=txns),
        deps=nothing,
        initial=nothing,
    )


def finish(queue: Queue, slot: int, *txns: Txn) -> KeyGathering | None:
    queue.finish_command(InstanceId(1, slot))
    return queue.gather(executed(slot, *txns), None)


def test_many_that_wait_for_one_key_do_not_hold_up_others() -> None:
    hot, cold = writes(b"hot"), writes(b"cold")
    queue = queue_of(hot)
    take_off(queue, 1)
    for txn in (*[hot] * (2 * MAX_BATCH), cold):
        queue.add(QueuedTransaction(txn, ignored))
    assert take_off(queue, 2) == (cold,)
    queue.finish_command(InstanceId(1, 2))
    assert take_off(queue, 3) == (), "a key of no interest to those that wait"
    queue.finish_command(InstanceId(1, 1))
    assert take_off(queue, 3) == (hot,) * MAX_BATCH


def test_one_that_waits_can_be_withdrawn_and_counts() -> None:
    queue = queue_of(writes(b"a"))
    take_off(queue, 1)
    parked, fresh = QueuedTransaction(writes(b"a"), ignored), QueuedTransaction(writes(b"a"), ignored)
    queue.add(parked)
    assert take_off(queue, 2) == ()
    queue.add(fresh)
    assert len(queue) == 2
    assert queue.withdraw(parked)
    assert not queue.withdraw(parked)
    assert queue.drain() == [fresh]


def test_clients_of_a_contended_key_are_gathered() -> None:
    hot, cold = writes(b"hot"), writes(b"cold")
    queue = queue_of(hot, hot, cold)
    batch = take_off(queue, 1)
    gathering = finish(queue, 1, *batch)
    assert gathering is not None
    assert gathering.keys == {b"hot"}
    queue.add(QueuedTransaction(hot, ignored))
    queue.add(QueuedTransaction(cold, ignored))
    assert take_off(queue, 2) == (cold,), "its key is not contended"
    queue.add(QueuedTransaction(hot, ignored))
    assert take_off(queue, 3) == (hot, hot), "both are back"


def test_one_that_is_alone_with_its_keys_waits_for_nothing() -> None:
    for txns in ([writes(b"a")], [writes(b"a"), writes(b"b")]):
        queue = queue_of(*txns)
        assert finish(queue, 1, *take_off(queue, 1)) is None


def test_a_full_command_waits_for_nothing() -> None:
    queue = queue_of(*[writes(b"hot")] * (2 * MAX_BATCH))
    assert finish(queue, 1, *take_off(queue, 1)) is None
    assert len(take_off(queue, 2)) == MAX_BATCH


def test_a_new_term_gathers_nothing_of_the_last() -> None:
    queue = queue_of(writes(b"hot"), writes(b"hot"))
    assert finish(queue, 1, *take_off(queue, 1)) is not None
    queue.end_flights()
    queue.add(QueuedTransaction(writes(b"hot"), ignored))
    assert take_off(queue, 1) == (writes(b"hot"),)
