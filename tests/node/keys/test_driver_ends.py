"""How flows end, however they end: no timer outlives them, nobody is held up, nothing unknown is promised."""

import pytest

from epoxy.model.ballot import Ballot
from epoxy.model.errors import StoreFailed, TooManyConflicts
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    AlreadyCommitted,
    EpochAhead,
    Failed,
    Prepare,
    PrepareOk,
    Read,
    ReadOk,
    StaleEpoch,
    UpdateConfig,
)
from epoxy.model.writes import Committed, ConsensusFailed, Consistency, Path, ReadFailed, ReadResult, Refused, Source
from epoxy.node.keys.replica import Replica
from epoxy_sim.patching import Patch, applied
from tests.node.bench import Node, with_learner
from tests.node.keys.driver_bench import MINE, OTHERS, kinds, preparing, writing
from tests.protocol.keys.harness import TIMING, A, B, C, D, commit, config_of, fast_vote, prepare, prop


def test_no_timer_outlives_a_write() -> None:
    node, accepts = writing()
    assert node.clock.pending == [TIMING.hedge_ms]
    accepts[B].answer(AcceptOk())
    node.disk.sync()
    assert node.clock.pending == []


def test_no_timer_outlives_a_classic_round_or_a_read() -> None:
    node, _, prepares = preparing()
    prepares[B].answer(PrepareOk(vote=None))
    classic = node.transport.take()
    node.disk.sync()
    classic[B].answer(AcceptOk())
    node.disk.sync()
    assert len(node.outcomes) == 1
    node.transport.take()
    node.read(Consistency.LINEARIZABLE)
    assert node.clock.pending == [node.clock.now + TIMING.round_timeout_ms]
    node.transport.take()[B].answer(ReadOk(committed=MINE, vote=None))
    assert node.reads == [ReadResult(committed=MINE, source=Source.QUORUM)]
    assert node.clock.pending == []


def test_retries_are_bounded_and_then_the_client_hears_that_nothing_is_known() -> None:
    node, _ = writing()
    for _ in range(3 * (TIMING.retries + 1)):
        node.clock.advance(TIMING.round_timeout_ms + TIMING.backoff_cap_ms)
        node.disk.sync()
    (outcome,) = node.outcomes
    assert isinstance(outcome, ConsensusFailed)
    assert node.clock.pending == []
    ballots = [each.requests[0].ballot for each in node.transport.sent if isinstance(each.requests[0], Prepare)]
    assert ballots == [Ballot(counter, A) for counter in range(2, TIMING.retries + 3) for _ in (B, C)]


def conflicting() -> Node:
    """Home has learned another value than the one a peer says was decided."""
    node, accepts = writing()
    node.handle_now(commit(OTHERS))
    accepts[B].answer(AlreadyCommitted(committed=prop(b"third", by=B)))
    node.disk.sync()
    node.clock.advance(0)
    return node


def test_a_broken_invariant_raises_the_alarm_and_promises_nothing() -> None:
    node = conflicting()
    (outcome,) = node.outcomes
    assert isinstance(outcome, ConsensusFailed)
    assert "two values" in outcome.reason
    assert node.alarms == [outcome.reason]
    assert node.clock.pending == []


def test_a_broken_invariant_fails_a_read_too() -> None:
    node = Node()
    node.read(Consistency.LINEARIZABLE)
    vote = fast_vote(prop(b"next", 2, by=C, mutable=True))
    asked = node.transport.take()
    node.handle_now(commit(OTHERS))
    asked[B].answer(ReadOk(committed=prop(b"third", by=B, mutable=True), vote=vote))
    node.clock.advance(node.driver.timing.hedge_ms)
    node.disk.sync()
    (outcome,) = node.reads
    assert isinstance(outcome, ReadFailed)
    assert node.alarms == [outcome.reason]


def test_a_broken_invariant_does_not_hold_up_the_next_write() -> None:
    node, accepts = writing()
    node.write(b"other")
    node.handle_now(commit(OTHERS))
    accepts[B].answer(AlreadyCommitted(committed=prop(b"third", by=B)))
    node.disk.sync()
    node.clock.advance(0)
    node.disk.sync()
    assert node.outcomes[1:] == [Committed(proposal=OTHERS, mine=False, path=Path.LOCAL)]


# Members


def test_a_learner_is_refused_its_writes() -> None:
    node = Node(config=with_learner())
    node.write()
    assert [type(outcome) for outcome in node.outcomes] == [Refused]
    node.write()
    assert [type(outcome) for outcome in node.outcomes] == [Refused, Refused]
    assert (node.transport.sent, node.store.pending, node.clock.pending) == ([], 0, [])


def test_a_learner_does_not_count_itself_in_a_quorum_read() -> None:
    node = Node(config=with_learner())
    node.handle_now(commit(OTHERS))
    node.read(Consistency.LINEARIZABLE)
    asked = node.transport.take()
    assert kinds(asked) == {B: [Read], C: [Read], D: [Read]}
    asked[B].answer(ReadOk(committed=None, vote=None))
    assert node.reads == []
    asked[C].answer(ReadOk(committed=OTHERS, vote=None))
    assert node.reads == [ReadResult(committed=OTHERS, source=Source.QUORUM)]


def test_a_learner_does_not_count_itself_when_it_says_not_found() -> None:
    node = Node(config=with_learner())
    node.read(Consistency.OPTIMISTIC)
    asked = node.transport.take()
    asked[B].answer(ReadOk(committed=None, vote=None))
    asked[C].answer(Failed(reason="down"))
    asked[D].answer(Failed(reason="down"))
    assert [type(outcome) for outcome in node.reads] == [ReadFailed]


def test_a_learner_cannot_finish_what_is_in_flight() -> None:
    node = Node(config=with_learner())
    node.read(Consistency.LINEARIZABLE)
    asked = node.transport.take()
    asked[B].answer(ReadOk(committed=None, vote=fast_vote(prop(b"x", by=D))))
    asked[C].answer(ReadOk(committed=None, vote=None))
    assert node.reads == []
    node.clock.advance(node.driver.timing.hedge_ms)
    assert [type(outcome) for outcome in node.reads] == [ReadFailed]
    assert [type(request) for each in node.transport.sent for request in each.requests] == [Read]


def test_a_new_epoch_is_adopted_and_the_write_goes_on_under_it() -> None:
    node, accepts = writing()
    accepts[B].answer(StaleEpoch(config=config_of(epoch=2)))
    node.disk.sync()
    node.clock.advance(0)  # folded again
    node.disk.sync()
    assert node.replica.config.epoch == 2
    assert {to: each.requests for to, each in node.transport.take().items()} == dict.fromkeys(
        (B, C), (prepare(Ballot(2, A), epoch=2),)
    )


def test_a_replica_voted_out_settles_what_it_offered_or_says_that_it_cannot_know() -> None:
    node, accepts = writing()
    accepts[B].answer(StaleEpoch(config=with_learner(epoch=2)))
    node.disk.sync()
    node.clock.advance(0)  # folded again
    node.disk.sync()
    assert [type(outcome) for outcome in node.outcomes] == [ConsensusFailed]


def test_a_straggler_is_sent_the_configuration_within_the_round() -> None:
    node = Node(config=config_of(epoch=3))
    node.write()
    node.disk.sync()
    accepts = node.transport.take()
    accepts[B].answer(EpochAhead(epoch=1))
    again = node.transport.take()
    assert kinds(again) == {B: [UpdateConfig, Accept]}
    again[B].answer(EpochAhead(epoch=1))
    assert node.transport.sent == []
    accepts[C].answer(AcceptOk())
    node.disk.sync()
    assert isinstance(node.outcomes[0], Committed)


# Errors that nobody foresaw


def failing_with(error: Exception) -> Node:
    """A write fails at its commit, and another one of the same key is waiting."""
    node, accepts = writing()
    node.write()

    def fail(*_: object) -> object:
        raise error

    with applied((Patch(Replica, "_operation", fail),)), pytest.raises(type(error)):
        accepts[B].answer(AcceptOk())
    node.clock.advance(0)
    node.disk.sync()
    return node


@pytest.mark.pure("plants a fault in the replica")
@pytest.mark.parametrize("error", [AssertionError("a bug"), TooManyConflicts("overtaken")], ids=repr)
def test_a_flow_that_raises_is_heard_of_and_holds_nobody_up(error: Exception) -> None:
    node = failing_with(error)
    (outcome,) = node.outcomes
    assert isinstance(outcome, ConsensusFailed)
    assert repr(error) in outcome.reason
    assert kinds(node.transport.take()) == {B: [Prepare], C: [Prepare]}
    assert node.clock.pending == [TIMING.round_timeout_ms]


@pytest.mark.pure("plants a fault in the replica")
def test_a_failed_store_answers_nobody() -> None:
    """The process ends; its clients see the connection close."""
    node = failing_with(StoreFailed("fsync failed"))
    assert (node.outcomes, node.transport.sent) == ([], [])


def store_fails(*_: object) -> object:
    raise StoreFailed("fsync failed")


@pytest.mark.pure("plants a fault in the replica")
def test_a_quiet_write_whose_store_fails_at_its_vote_is_left() -> None:
    node = Node()
    with applied((Patch(Replica, "_operation", store_fails),)), pytest.raises(StoreFailed):
        node.write()
    assert_left(node)


@pytest.mark.pure("plants a fault in the replica")
def test_a_quiet_write_whose_store_fails_at_its_commit_is_left() -> None:
    node, accepts = writing()
    with applied((Patch(Replica, "_operation", store_fails),)), pytest.raises(StoreFailed):
        accepts[B].answer(AcceptOk())
    accepts[C].answer(AcceptOk())
    assert_left(node)


def assert_left(node: Node) -> None:
    """Neither an answer nor a word to the others, however long one waits; and it does not count as a flow that failed:
    the process ends."""
    node.clock.advance(10 * TIMING.round_timeout_ms)
    node.disk.sync()
    assert (node.outcomes, node.reads, node.transport.sent, node.clock.pending) == ([], [], [], [])
    assert node.driver.failures.count.total() == 0


@pytest.mark.pure("plants a fault in the replica")
def test_a_quiet_read_whose_store_fails_is_left() -> None:
    """Its own replica is asked first, or a peer's word is the last it needed."""
    node = Node()
    with applied((Patch(Replica, "handle", store_fails),)), pytest.raises(StoreFailed):
        node.read(Consistency.LINEARIZABLE)
    for asked in node.transport.take().values():
        asked.answer(ReadOk(committed=None, vote=None))
    assert_left(node)


@pytest.mark.pure("plants a fault in the replica")
def test_a_quiet_read_that_needs_the_flow_and_whose_store_fails_is_left() -> None:
    node = Node()
    node.read(Consistency.LINEARIZABLE)
    asked = node.transport.take()
    asked[B].answer(ReadOk(committed=None, vote=fast_vote(prop(b"x", by=C))))
    node.transport.take()
    with applied((Patch(Replica, "_operation", store_fails),)), pytest.raises(StoreFailed):
        node.clock.advance(node.driver.timing.hedge_ms)
    asked[C].answer(ReadOk(committed=None, vote=None))
    assert_left(node)
