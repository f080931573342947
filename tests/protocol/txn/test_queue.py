"""When transactions may be put forward, and which go together."""

from epoxy.model.instances import MAX_BATCH, InstanceId
from epoxy.model.transactions import Get, Put, Txn, TxnOutcome
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
