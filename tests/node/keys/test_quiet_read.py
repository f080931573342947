"""The shortest way of a linearizable read, and where it is left to the flow."""

from typing import Any

import pytest

from epoxy.model.errors import TooManyConflicts
from epoxy.model.messages import AlreadyCommitted, EpochAhead, Failed, Prepare, Read, ReadOk, StaleEpoch, UpdateConfig
from epoxy.model.writes import Consistency, ReadFailed, ReadResult, Source
from epoxy.node.keys.quiet_read import QuietRead
from epoxy.node.keys.replica import Replica
from epoxy.protocol.effects import Timing
from epoxy_sim.patching import Patch, applied
from tests.node.bench import Node, Sent
from tests.node.keys.driver_bench import answers_then_raises
from tests.protocol.keys.harness import KEY, TIMING, A, B, C, D, E, commit, config_of, fast_vote, prop

ONE = prop(b"1", by=A, mutable=True)
TWO = prop(b"2", 2, by=B, mutable=True)
NEAR = Timing(near=(C, B))


def reading(timing: Timing = TIMING) -> tuple[Node, dict[int, Sent]]:
    node = Node(timing=timing)
    node.handle_now(commit(ONE))
    node.read(Consistency.LINEARIZABLE)
    return node, node.transport.take()


def found(committed: object) -> list[ReadResult]:
    assert committed is ONE or committed is TWO
    return [ReadResult(committed=committed, source=Source.QUORUM)]


def test_the_newest_of_a_quorum_is_the_answer() -> None:
    node, asked = reading()
    assert set(asked) == {B, C}
    asked[C].answer(ReadOk(committed=TWO, vote=None))
    assert node.reads == found(TWO)
    assert node.clock.pending == []


def test_the_nearest_alone_are_asked() -> None:
    node, asked = reading(NEAR)
    assert set(asked) == {C}
    assert node.clock.pending == [NEAR.read_hedge_ms]
    asked[C].answer(ReadOk(committed=ONE, vote=None))
    assert node.reads == found(ONE)


def test_what_is_not_durable_here_is_not_told() -> None:
    node = Node()
    node.handle(commit(ONE))
    node.read(Consistency.LINEARIZABLE)
    node.transport.take()[B].answer(ReadOk(committed=None, vote=None))
    assert node.reads == []
    node.disk.sync()
    assert node.reads == found(ONE)


def test_one_answer_counts_once_and_a_late_one_not_at_all() -> None:
    node = Node()
    node.handle(commit(ONE))
    node.read(Consistency.LINEARIZABLE)
    asked = node.transport.take()
    for _ in range(2):
        asked[B].answer(ReadOk(committed=None, vote=None))
    assert node.reads == []
    node.disk.sync()
    asked[C].answer(ReadOk(committed=TWO, vote=None))
    assert node.reads == found(ONE)


def test_a_vote_in_flight_is_left_to_the_flow() -> None:
    node, asked = reading(NEAR)
    asked[C].answer(ReadOk(committed=ONE, vote=fast_vote(TWO)))
    assert node.reads == []
    (proposer,) = node.transport.take().values()
    assert (proposer.to, proposer.requests) == (B, (Read(key=KEY, epoch=1),))
    proposer.answer(ReadOk(committed=TWO, vote=None))
    assert node.reads == found(TWO)


def test_the_commit_of_a_vote_in_flight_is_answered_when_it_is_durable_here() -> None:
    node, asked = reading(NEAR)
    asked[C].answer(ReadOk(committed=ONE, vote=fast_vote(TWO)))
    node.handle(commit(TWO))
    node.clock.advance(0)
    assert node.reads == []
    node.disk.sync()
    assert node.reads == found(TWO)
    assert [each.requests for each in node.transport.sent] == [(Read(key=KEY, epoch=1),)], "no Prepare"


def test_a_commit_that_came_before_the_vote_was_heard_of_is_not_waited_for() -> None:
    node, asked = reading(NEAR)
    node.handle_now(commit(TWO))
    asked[C].answer(ReadOk(committed=ONE, vote=fast_vote(TWO)))
    node.clock.advance(0)
    node.disk.sync()
    assert node.reads == found(TWO)


def test_a_vote_whose_commit_does_not_come_is_recovered_after_the_hedge() -> None:
    node, asked = reading(NEAR)
    asked[C].answer(ReadOk(committed=ONE, vote=fast_vote(TWO)))
    node.transport.take()
    node.clock.advance(NEAR.hedge_ms)
    node.disk.sync()
    assert {type(each.requests[0]) for each in node.transport.sent} == {Prepare}
    node.transport.take()[C].answer(AlreadyCommitted(committed=TWO))
    node.disk.sync()
    assert node.reads == found(TWO)


def test_the_writer_of_a_key_is_asked_at_once_the_next_time() -> None:
    node, asked = reading(NEAR)
    asked[C].answer(ReadOk(committed=ONE, vote=fast_vote(TWO)))
    node.transport.take()[B].answer(ReadOk(committed=ONE, vote=fast_vote(TWO)))
    assert node.reads == found(ONE)
    node.read(Consistency.LINEARIZABLE)
    assert set(node.transport.take()) == {B, C}


@pytest.mark.parametrize("silent", [True, False])
def test_the_rest_is_asked_if_the_nearest_do_not_answer(silent: bool) -> None:
    node, asked = reading(NEAR)
    silences = list[bool]()
    node.driver.silence = lambda: silences.append(True)
    if silent:
        node.clock.advance(NEAR.read_hedge_ms)
    else:
        asked[C].answer(Failed(reason="down"))
    rest = node.transport.take()
    assert (set(rest), silences) == ({B}, [True] if silent else [])
    rest[B].answer(ReadOk(committed=TWO, vote=None))
    assert node.reads == found(TWO)
    assert node.clock.pending == []


def test_the_nearest_may_still_answer_after_the_hedge_and_count_once() -> None:
    node = Node(config=config_of(5), timing=Timing(near=(B, C, D, E)))
    node.handle_now(commit(ONE))
    node.read(Consistency.LINEARIZABLE)
    asked = node.transport.take()
    node.clock.advance(node.driver.timing.read_hedge_ms)
    for _ in range(2):
        asked[B].answer(ReadOk(committed=ONE, vote=None))
    assert node.reads == []
    asked[C].answer(ReadOk(committed=TWO, vote=None))
    assert node.reads == found(TWO)


def test_a_second_try_of_everybody_waits_a_little() -> None:
    node, asked = reading()
    for each in asked.values():
        each.answer(Failed(reason="down"))
    assert node.transport.sent == []
    node.clock.advance(TIMING.backoff_ms)
    node.transport.take()[B].answer(ReadOk(committed=TWO, vote=None))
    assert node.reads == found(TWO)


def test_too_few_answers_are_a_failure_in_the_end() -> None:
    node, _ = reading()
    node.clock.advance((TIMING.retries + 1) * (TIMING.round_timeout_ms + TIMING.backoff_cap_ms))
    assert [type(outcome) for outcome in node.reads] == [ReadFailed]
    assert len(node.transport.sent) == 2 * TIMING.retries


def test_a_new_epoch_is_adopted_and_the_question_asked_again() -> None:
    node, asked = reading()
    asked[B].answer(StaleEpoch(config=config_of(epoch=2)))
    node.disk.sync()
    again = node.transport.take()
    assert again[B].requests == (Read(key=KEY, epoch=2),)
    again[B].answer(ReadOk(committed=TWO, vote=None))
    assert node.reads == found(TWO)


def test_who_missed_an_epoch_is_told_of_it_once() -> None:
    node, asked = reading()
    asked[B].answer(EpochAhead(epoch=0))
    helped = node.transport.take()[B]
    assert [type(request) for request in helped.requests] == [UpdateConfig, Read]
    helped.answer(EpochAhead(epoch=0))
    assert node.transport.sent == []
    asked[C].answer(ReadOk(committed=TWO, vote=None))
    assert node.reads == found(TWO)


def test_while_joint_both_sides_must_answer() -> None:
    node = Node(config=config_of(epoch=2, previous=(A, B, D)))
    node.read(Consistency.LINEARIZABLE)
    asked = node.transport.take()
    assert set(asked) == {B, C, D}
    asked[C].answer(ReadOk(committed=ONE, vote=None))
    assert node.reads == []
    asked[D].answer(ReadOk(committed=None, vote=None))
    assert node.reads == found(ONE)


@pytest.mark.pure("plants a fault in a replica")
def test_a_bug_on_the_way_is_a_failure_for_the_client_and_is_raised() -> None:
    def fails(*_: object) -> None:
        raise TooManyConflicts("a bug")

    node = Node()
    with applied((Patch(Replica, "handle", fails),)), pytest.raises(TooManyConflicts):
        node.read(Consistency.LINEARIZABLE)
    assert [type(outcome) for outcome in node.reads] == [ReadFailed]
    assert node.clock.pending == []


def test_a_client_that_fails_at_its_answer_is_not_answered_twice() -> None:
    node, heard = Node(), list[object]()

    def fails(outcome: object) -> None:
        heard.append(outcome)
        raise RuntimeError("the client's own")

    QuietRead(node.driver, KEY, node.driver.plan(), fails).start()
    with pytest.raises(RuntimeError):
        node.transport.take()[B].answer(ReadOk(committed=ONE, vote=None))
    assert heard == found(ONE)
    assert node.driver.failures.count["read"] == 0


def test_a_read_that_is_left_to_the_flow_while_it_is_sent_and_then_breaks_is_answered_by_the_flow_alone() -> None:
    node = Node()
    node.handle_now(commit(ONE))
    transport: Any = node.transport
    transport.send = answers_then_raises(StaleEpoch(config=config_of(epoch=2)))
    with pytest.raises(OSError, match="no route"):
        node.read(Consistency.LINEARIZABLE)
    assert node.reads == [], "the flow answers"
