"""The node as its doors see it: who is turned away, and who is told when."""

import pytest

from epoxy.model.messages import AcceptOk, Failed
from epoxy.model.transactions import Add, Txn, TxnOutcome
from epoxy.model.writes import Committed, ConsensusFailed, Consistency, ReadFailed, ReadResult, Refused, Source, Write
from epoxy.model.writes import Path as Way
from epoxy.node.keys.key_queue import MAX_QUEUED_PER_KEY
from epoxy.node.long_reads import MAX_LONG_READS_BYTES
from epoxy.protocol.effects import Timing
from epoxy.runtime.admission import GRAIN_MS
from tests.node.service_bench import TIMEOUT_MS, World
from tests.protocol.keys.harness import KEY, B, C, commit, prop


def test_nothing_is_taken_on_before_the_store_is_durable() -> None:
    world = World(ready=False)
    assert not world.node.ready
    world.write()
    world.node.read(KEY, Consistency.OPTIMISTIC, world.reads.append)
    assert world.outcomes == [Refused(reason="the node is starting")]
    assert world.reads == [ReadFailed(reason="the node is starting")]
    assert (world.node.in_flight, world.links.sent) == (0, [])
    world.disk.sync()
    assert world.node.ready


def test_ready_although_nobody_else_is_there() -> None:
    world = World()
    assert world.node.ready
    assert not world.node.status().available


def test_nothing_is_taken_on_after_the_end() -> None:
    world = World()
    world.node.stop()
    world.write()
    assert world.outcomes == [Refused(reason="the node is stopping")]
    assert world.clock.pending == [], "a timer that would go on for ever"


def test_a_write_is_decided_and_counted() -> None:
    world = World()
    world.write()
    world.disk.sync()
    assert world.node.in_flight == 1
    world.accept(B)
    (outcome,) = world.outcomes
    assert isinstance(outcome, Committed)
    assert (outcome.mine, outcome.path) == (True, Way.FAST)
    assert world.node.in_flight == 0


def test_what_is_under_way_counts_writes_and_transactions() -> None:
    """A node that is told to end waits until there are none; one of each must not look like nothing."""
    world = World()
    told: list[TxnOutcome] = []
    world.write()
    assert world.node.in_flight == 1
    world.node.txn(Txn(then=(Add(key=b"t", amount=1),)), told.append)
    assert (told, world.node.in_flight) == ([], 2)


def test_one_timer_serves_all_clients_and_ends_when_nobody_waits() -> None:
    world = World()
    for key in (b"a", b"b", b"c"):
        world.write(key)
        world.clock.advance(1)
    assert world.clock.pending.count(TIMEOUT_MS) == 1
    assert TIMEOUT_MS + 1 not in world.clock.pending
    world.disk.sync()
    for sent in list(world.links.sent):
        if sent.answered is not None and sent.to == B:
            sent.answer(AcceptOk())
    world.disk.sync()
    assert len(world.outcomes) == 3
    world.node.stop()
    assert world.clock.pending == []


def test_each_client_is_told_in_its_own_time_or_a_little_later() -> None:
    world = World()
    world.node.driver.timing = Timing(hedge_ms=100.0 * TIMEOUT_MS, round_timeout_ms=100.0 * TIMEOUT_MS)
    for key in (b"a", b"b", b"c"):
        world.write(key)
        world.clock.advance(1000)
    told = []
    for _ in range(TIMEOUT_MS // 10):
        world.clock.advance(10)
        told.append((world.clock.now, len(world.outcomes)))
    first = [next(now for now, count in told if count == many) for many in (1, 2, 3)]
    assert all(0 <= at - (TIMEOUT_MS + 1000 * index) <= GRAIN_MS + 10 for index, at in enumerate(first)), first


def test_a_client_that_fails_does_not_silence_the_next() -> None:
    world = World()
    world.node.write(Write(key=b"a", value=b"v"), lambda _: 1 // 0)  # type: ignore[arg-type]
    world.write(b"b")
    with pytest.raises(ZeroDivisionError):
        world.clock.advance(TIMEOUT_MS)
    world.clock.advance(GRAIN_MS)
    assert [type(outcome) for outcome in world.outcomes] == [ConsensusFailed]


def test_one_write_too_many_is_refused_and_the_room_comes_back() -> None:
    world = World(writes_in_flight=2)
    for key in (b"a", b"b", b"c"):
        world.write(key)
    assert world.outcomes == [Refused(reason="2 writes are in flight already")]
    assert world.node.in_flight == 2
    world.disk.sync()
    world.links.sent[0].answer(AcceptOk())
    world.disk.sync()
    assert world.node.in_flight == 1
    world.write(b"c")
    assert world.node.in_flight == 2


def test_a_refusal_further_in_gives_the_room_back() -> None:
    world = World(writes_in_flight=10 * MAX_QUEUED_PER_KEY)
    world.node._writes.limit = 10 * MAX_QUEUED_PER_KEY
    for _ in range(MAX_QUEUED_PER_KEY + 10):
        world.write()
    refused = [outcome for outcome in world.outcomes if isinstance(outcome, Refused)]
    assert len(refused) == MAX_QUEUED_PER_KEY + 10 - world.node.in_flight == 10


def test_a_client_is_told_in_time_and_once_and_the_write_goes_on() -> None:
    world = World()
    world.write()
    world.disk.sync()
    stuck = world.links.take()
    world.node.driver.timing = Timing(hedge_ms=10 * TIMEOUT_MS)
    world.clock.advance(TIMEOUT_MS - 1)
    assert world.outcomes == []
    before = world.node.in_flight
    world.clock.advance(1)
    failure = ConsensusFailed(reason="not decided in time; it may still take effect")
    assert world.outcomes == [failure]
    assert (before, world.node.in_flight) == (1, 1), "the node still works on it"
    stuck[B].answer(AcceptOk())
    settle(world)
    assert world.outcomes == [failure]
    assert world.node.in_flight == 0


def settle(world: World) -> None:
    """Whatever is asked fails, until the flow has ended one way or the other."""
    for _ in range(200):
        world.disk.sync()
        sent, world.links.sent = world.links.sent, []
        for each in sent:
            if each.answered is not None:
                each.answer(Failed(reason="unreachable"))
        world.clock.advance(1000)


def test_writes_whose_clients_have_gone_still_take_room() -> None:
    """Without a quorum, writes pile up in the driver: who forgets them with their clients lets in ever more."""
    world = World(writes_in_flight=2)
    world.node.driver.timing = Timing(hedge_ms=100.0 * TIMEOUT_MS, round_timeout_ms=100.0 * TIMEOUT_MS)
    world.node.stop()  # only the timers that follow the links
    world.node.ready = True
    for key in (b"a", b"b"):
        world.write(key)
    world.disk.sync()
    world.clock.advance(TIMEOUT_MS)
    assert [type(outcome) for outcome in world.outcomes] == [ConsensusFailed, ConsensusFailed]
    world.write(b"c")
    assert world.outcomes[2:] == [Refused(reason="2 writes are in flight already")]


def test_a_linearizable_read_asks_the_others() -> None:
    world = World()
    world.node.read(KEY, Consistency.LINEARIZABLE, world.reads.append)
    world.disk.sync()
    assert set(world.links.take()) == {B, C}


def test_a_linearizable_read_of_a_reserved_name_asks_nobody() -> None:
    """Its value cannot change, so what is durable here is the newest there will ever be."""
    world = World()
    world.learn(KEY)
    world.node.read(KEY, Consistency.LINEARIZABLE, world.reads.append)
    assert world.reads == [], "committed here, but a crash could take that back"
    world.disk.sync()
    world.links.sent.clear()
    world.node.read(KEY, Consistency.LINEARIZABLE, world.reads.append)
    assert world.reads == [ReadResult(committed=prop(b"v", by=B), source=Source.LOCAL)]
    assert world.links.sent == []


def test_a_linearizable_read_of_a_mutable_key_asks_however_well_it_is_known() -> None:
    world = World()
    known = commit(prop(b"v", by=B, mutable=True))
    world.node.replica.handle([known], lambda _: None)
    world.disk.sync()
    world.node.read(KEY, Consistency.LINEARIZABLE, world.reads.append)
    world.disk.sync()
    assert world.reads == []
    assert set(world.links.take()) == {B, C}


def test_one_read_too_many_is_refused_but_never_one_that_is_known_here() -> None:
    world = World(reads_in_flight=2)
    world.learn(b"known")
    world.disk.sync()
    for key in (b"a", b"b"):
        world.node.read(key, Consistency.LINEARIZABLE, world.reads.append)
    world.node.read(b"c", Consistency.OPTIMISTIC, world.reads.append)
    assert world.reads == [Refused(reason="2 reads are asking other regions already")]
    for consistency in Consistency:
        world.node.read(b"known", consistency, world.reads.append)
    assert [type(read) for read in world.reads] == [Refused, ReadResult, ReadResult, ReadResult]
    assert world.node.refused == {"writes_in_flight": 0, "reads_in_flight": 1, "no_quorum": 0}


def test_long_values_are_read_a_few_at_a_time() -> None:
    """Each brings its value from every replica that is asked, through the links that votes take."""
    world = World()
    long = bytes(MAX_LONG_READS_BYTES // 4)
    world.node.replica.handle([commit(prop(long, by=B, mutable=True))], lambda _: None)
    world.disk.sync()
    world.links.sent.clear()
    for _ in range(5):
        world.node.read(KEY, Consistency.LINEARIZABLE, world.reads.append)
    assert world.reads == [Refused(reason=f"reads of {MAX_LONG_READS_BYTES} bytes are asking other regions already")]
    world.node.read(b"short", Consistency.LINEARIZABLE, world.reads.append)
    assert len(world.reads) == 1
    world.clock.advance(60_000)
    assert len(world.reads) == 6, "all are answered in time"
    world.reads.clear()
    world.node.read(KEY, Consistency.LINEARIZABLE, world.reads.append)
    assert world.reads == [], "the room has come back"


def test_the_room_of_a_read_comes_back() -> None:
    world = World(reads_in_flight=1)
    for _ in range(3):
        world.node.read(KEY, Consistency.OPTIMISTIC, world.reads.append)
        world.disk.sync()
        for sent in world.links.take().values():
            sent.answer(Failed(reason="unreachable"))
    assert [type(read) for read in world.reads] == [ReadFailed] * 3


def test_a_read_that_nobody_answers_is_over_in_time() -> None:
    world = World()
    world.node.driver.timing = Timing(hedge_ms=100.0 * TIMEOUT_MS, round_timeout_ms=100.0 * TIMEOUT_MS)
    world.node.stop()  # only the timers that follow the links
    world.node.ready = world.node.reads_here = True
    world.node.read(KEY, Consistency.LINEARIZABLE, world.reads.append)
    world.clock.advance(TIMEOUT_MS)
    assert world.reads == [ReadFailed(reason="no answer in time")]
