"""A node that stood still drops what its clients no longer wait for, while nothing of it was put forward."""

from epoxy.model.transactions import Txn, TxnOutcome, TxnRefused
from epoxy.model.writes import ConsensusFailed, Outcome, Refused, Write
from epoxy.node.keys.key_queue import UNBEGUN
from epoxy.node.service import STOOD_STILL
from epoxy.runtime.admission import GRAIN_MS, Admission
from epoxy.runtime.stall import BEAT_MS, SHORTEST_STALL_MS, WAKING_MS, Stall
from tests.node.bench import HandClock
from tests.node.service_bench import TIMEOUT_MS, World
from tests.protocol.keys.harness import KEY

LONG_MS = TIMEOUT_MS + BEAT_MS + 1


def put(world: World, outcomes: list[Outcome]) -> None:
    world.node.write(Write(key=KEY, value=b"v", mutable=True), outcomes.append)


def test_what_is_read_first_after_a_stop_was_meant_for_then() -> None:
    world, told, txns = World(), list[Outcome](), list[TxnOutcome]()
    world.clock.now += LONG_MS  # No timer rings while a process is stopped, and sockets may be read before the first.
    put(world, told)
    world.node.txn(Txn(reads=(KEY,)), txns.append)
    assert told == [Refused(reason=STOOD_STILL)]
    assert txns == [TxnRefused(reason=STOOD_STILL)]
    assert (world.node.in_flight, world.links.sent) == (0, [])
    world.clock.advance(WAKING_MS)
    put(world, told)
    assert (len(told), world.node.in_flight) == (1, 1), "it is awake"


def test_the_timer_may_be_the_first_to_notice() -> None:
    world, told = World(), list[Outcome]()
    world.clock.now += LONG_MS
    world.clock.advance(0)
    put(world, told)
    assert told == [Refused(reason=STOOD_STILL)]


def test_a_node_that_runs_has_not_stood_still() -> None:
    clock = HandClock()
    stall = Stall(clock, 10.0)
    assert not stall.is_waking, "nothing is expected before the first beat"
    clock.now += 10 * SHORTEST_STALL_MS
    stall.beat()
    assert not stall.is_waking
    clock.now += SHORTEST_STALL_MS + BEAT_MS
    assert not stall.is_waking, "a busy machine"
    clock.now += 1.0
    assert stall.is_waking
    clock.now += WAKING_MS
    assert not stall.is_waking


def test_a_write_that_never_had_its_turn_is_told_so_and_never_begins() -> None:
    """The one before it is under way, and so unknown."""
    world, first, second = World(), list[Outcome](), list[Outcome]()
    put(world, first)
    put(world, second)
    world.disk.sync()
    assert world.links.sent, "the first one was put forward"
    world.clock.advance(TIMEOUT_MS + GRAIN_MS)
    assert [type(outcome) for outcome in first] == [ConsensusFailed]
    assert second == [UNBEGUN]
    while world.node.in_flight:
        assert world.clock.now < 100 * TIMEOUT_MS, "nothing ends the first one, or the second has begun"
        world.disk.sync()
        world.clock.advance(SHORTEST_STALL_MS)
    assert (len(first), len(second)) == (1, 1)


def test_a_turn_that_comes_too_late_is_not_taken() -> None:
    """As when the process stood still, and the answer to the write before it is read first."""
    clock, told = HandClock(), list[str]()
    pending = Admission(clock, 10, 1000, "late", "unbegun")
    waits, begins, runs = (pending.begin(told.append) for _ in range(3))
    waits.wait()
    begins.wait()
    clock.now = 999.0
    assert begins.begin()
    clock.now = 1000.0
    assert not waits.begin()
    clock.advance(0)
    assert told == ["unbegun", "late", "late"]
    for ticket in (waits, begins, runs):
        ticket("done")
    assert (len(told), pending.count) == (3, 0)
