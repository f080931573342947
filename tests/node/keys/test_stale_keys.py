"""A node that was away reads a key before it writes it: a version that is many decisions old tells no outcome."""

import pytest

from epoxy.model.ballot import NO_BALLOT
from epoxy.model.messages import Accept, AcceptOk, AlreadyCommitted, Inspect, Inspected, Read, ReadOk
from epoxy.model.records import ProposalId, Settled
from epoxy.model.writes import Committed, ConsensusFailed, Path
from epoxy.node.keys import stale_keys
from epoxy.node.keys.stale_keys import CATCH_UP_MS, StaleKeys
from tests.node.bench import HandClock, Node
from tests.node.keys.driver_bench import kinds
from tests.protocol.keys.harness import B, C, commit, prop

OLD = prop(b"old", 2, by=C, nonce=2, mutable=True)
NEWEST = prop(b"newest", 40, by=C, nonce=40, mutable=True)


def restarted(*, watches: bool = True) -> Node:
    """It holds version 2 of a key; the others are at version 40 by now."""
    node = Node()
    node.handle_now(commit(OLD))
    if watches:
        node.driver.stale_keys.begin()
    return node


def read_by(node: Node) -> None:
    """The nearest quorum tells the newest version."""
    for sent in node.transport.take().values():
        assert [type(request) for request in sent.requests] == [Read]
        sent.answer(ReadOk(committed=NEWEST, vote=None))
    node.disk.sync()
    node.clock.advance(0)
    node.disk.sync()


def test_the_first_write_of_a_key_is_put_on_top_of_what_a_quorum_has() -> None:
    node = restarted()
    node.write(b"mine", mutable=True)
    node.disk.sync()
    read_by(node)
    accepts = node.transport.take()
    assert accepts[B].requests[0].proposal.version == 41  # type: ignore[union-attr]
    accepts[B].answer(AcceptOk())
    node.disk.sync()
    (outcome,) = node.outcomes
    assert isinstance(outcome, Committed)
    assert (outcome.proposal.version, outcome.path) == (41, Path.FAST)


def test_without_it_the_outcome_of_the_write_is_unknown() -> None:
    """The fault that it prevents: no replica remembers version 3."""
    node = restarted(watches=False)
    node.write(b"mine", mutable=True)
    node.disk.sync()
    lineage = tuple(Settled(version, ProposalId(C, version)) for version in range(39, 31, -1))
    node.transport.take()[B].answer(AlreadyCommitted(committed=NEWEST, lineage=lineage))
    node.disk.sync()
    asked = node.transport.take()
    assert kinds(asked) == {B: [Inspect], C: [Inspect]}
    for sent in asked.values():
        sent.answer(
            Inspected(
                epoch=1, committed=NEWEST, lineage=lineage, promised=NO_BALLOT, vote=None, cached=None, changelog=()
            )
        )
    node.disk.sync()
    (outcome,) = node.outcomes
    assert isinstance(outcome, ConsensusFailed)
    assert "no replica remembers what followed version 2" in outcome.reason


def test_a_reservation_is_put_forward_at_once() -> None:
    node = restarted()
    node.write(b"mine", key=b"fresh")
    node.disk.sync()
    assert Read not in [type(request) for sent in node.transport.take().values() for request in sent.requests]


def test_a_key_that_was_heard_of_since_the_start_is_not_read() -> None:
    node = restarted()
    node.handle_now(commit(NEWEST))
    node.write(b"mine", mutable=True)
    node.disk.sync()
    assert node.transport.take()[B].requests[0].proposal.version == 41  # type: ignore[union-attr]


def test_too_few_that_answer_do_not_hold_the_write_up_for_ever() -> None:
    """After the time of one round the write is put forward, and finds out itself what can be done."""
    node = restarted()
    node.write(b"mine", mutable=True)
    node.disk.sync()
    assert {type(request) for sent in node.transport.take().values() for request in sent.requests} == {Read}
    node.clock.advance(node.driver.timing.round_timeout_ms)
    node.disk.sync()
    node.clock.advance(0)
    node.disk.sync()
    assert {type(request) for sent in node.transport.take().values() for request in sent.requests} == {Accept}


def test_it_is_for_a_while_and_once_for_each_key() -> None:
    clock = HandClock()
    keys = StaleKeys(clock)
    assert not keys.is_watching
    assert not keys.is_first(b"a")
    keys.begin()
    assert [keys.is_first(key) for key in (b"a", b"a", b"b")] == [True, False, True]
    clock.advance(CATCH_UP_MS + 1)
    assert not keys.is_first(b"c")
    assert not keys.is_watching


def test_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stale_keys, "MAX_HEARD", 2)
    keys = StaleKeys(HandClock())
    keys.begin()
    assert [keys.is_first(key) for key in (b"a", b"b", b"c", b"c", b"a")] == [True, True, True, True, False]
