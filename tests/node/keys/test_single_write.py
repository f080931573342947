"""A write alone, and what becomes of it when others come."""

from epoxy.model.messages import AcceptOk, AlreadyCommitted
from epoxy.model.writes import Committed
from epoxy.node.keys.key_queue import KeyQueue
from epoxy.node.keys.single_write import SingleWrite
from tests.node.bench import Node
from tests.protocol.keys.harness import KEY, B, C, prop


def begun() -> Node:
    node = Node()
    node.write(b"1", mutable=True)
    node.disk.sync()
    return node


def test_a_write_alone_has_no_queue_and_leaves_nothing_behind() -> None:
    node = begun()
    assert isinstance(node.driver._queues[KEY], SingleWrite)
    node.transport.take()[B].answer(AcceptOk())
    node.disk.sync()
    (outcome,) = node.outcomes
    assert isinstance(outcome, Committed)
    assert outcome.mine
    assert node.driver._queues == {}


def test_a_second_write_finds_a_queue_and_the_first_is_answered_once() -> None:
    node = begun()
    node.write(b"2", mutable=True)
    assert isinstance(node.driver._queues[KEY], KeyQueue)
    assert node.driver._queue_of(KEY).unanswered == 2
    node.transport.take()[B].answer(AcceptOk())
    node.disk.sync()
    assert [isinstance(outcome, Committed) for outcome in node.outcomes] == [True]
    node.transport.take()
    node.clock.advance(0)
    node.disk.sync()
    assert node.transport.take()[C].requests[0].proposal.version == 2  # type: ignore[union-attr]


def test_a_write_that_lost_goes_on_in_a_queue() -> None:
    node = begun()
    rival = prop(b"theirs", by=B, nonce=99, mutable=True)
    node.transport.take()[B].answer(AlreadyCommitted(committed=rival))
    node.disk.sync()
    assert node.outcomes == []
    queue = node.driver._queues[KEY]
    assert isinstance(queue, KeyQueue)
    assert queue.unanswered == 1


def test_a_hint_makes_a_queue_at_once() -> None:
    node = Node()
    node.driver.owners.believe(KEY, B, node.clock.now_ms())
    node.write(b"1", mutable=True)
    assert isinstance(node.driver._queues[KEY], KeyQueue)
