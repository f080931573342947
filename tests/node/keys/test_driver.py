"""The driver: flows meet the disk, the network and the clock, and nothing that comes late confuses them."""

from collections.abc import Callable

import pytest

from epoxy.model.ballot import Ballot
from epoxy.model.messages import Accept, AcceptOk, Commit, Failed, HigherBallot, PrepareOk, Read
from epoxy.model.writes import Committed, Consistency, Path, ReadResult, Source
from epoxy_sim.members.mutants import MUTANTS
from epoxy_sim.patching import planted
from tests.node.bench import Node, Sent
from tests.node.keys.driver_bench import MINE, kinds, preparing, writing
from tests.protocol.keys.harness import KEY, TIMING, A, B, C, config_of, fast_vote, prepare

# A write


def test_accepts_leave_when_the_own_vote_is_durable() -> None:
    node = Node()
    node.write()
    assert node.transport.sent == []
    node.disk.sync()
    sent = node.transport.take()
    vote = Accept(key=KEY, epoch=1, ballot=Ballot(1, A), proposal=MINE)
    assert {to: each.requests for to, each in sent.items()} == {B: (vote,), C: (vote,)}
    assert node.state().vote == fast_vote(MINE)


def test_the_client_hears_when_the_commit_is_durable() -> None:
    node, accepts = writing()
    accepts[B].answer(AcceptOk())
    assert node.outcomes == []
    assert node.transport.sent == []
    node.disk.sync()
    assert node.outcomes == [Committed(proposal=MINE, mine=True, path=Path.FAST)]
    assert kinds(node.transport.take()) == {B: [Commit], C: [Commit]}


def test_commits_are_told_without_waiting_for_an_answer() -> None:
    node, accepts = writing()
    accepts[B].answer(AcceptOk())
    node.disk.sync()
    assert [each.answered for each in node.transport.sent] == [None, None]


def test_own_messages_never_reach_the_network() -> None:
    """The classic Accept goes to all active replicas, this one included; a quorum read as well."""
    node, _, prepares = preparing()
    prepares[B].answer(PrepareOk(vote=None))
    assert kinds(node.transport.take()) == {B: [Accept], C: [Accept]}
    node.disk.sync()
    vote = node.state().vote
    assert vote is not None
    assert vote.ballot == Ballot(2, A)
    node.read(Consistency.LINEARIZABLE)
    assert kinds(node.transport.take()) == {B: [Read], C: [Read]}


def test_a_single_replica_decides_alone() -> None:
    node = Node(config=config_of(1))
    node.write()
    node.disk.sync()
    assert node.outcomes == [Committed(proposal=MINE, mine=True, path=Path.FAST)]
    node.read(Consistency.LINEARIZABLE)
    assert node.reads == [ReadResult(committed=MINE, source=Source.QUORUM)]
    assert node.transport.sent == []


# Late answers


def a_late_fast_vote() -> tuple[Node, dict[int, Sent]]:
    """In the classic round, own vote given, an answer to the fast Accept comes in."""
    node, fast, prepares = preparing()
    prepares[B].answer(PrepareOk(vote=None))
    classic = node.transport.take()
    node.disk.sync()
    fast[C].answer(AcceptOk())
    node.disk.sync()
    return node, classic


def a_late_promise() -> tuple[Node, dict[int, Sent]]:
    """At ballot 3, an answer to the Prepare of ballot 2 comes in."""
    node, _, earlier = preparing()
    node.clock.advance(TIMING.round_timeout_ms + TIMING.backoff_ms)
    node.disk.sync()
    later = node.transport.take()
    assert later[B].requests == (prepare(Ballot(3, A)),)
    earlier[B].answer(PrepareOk(vote=None))
    node.disk.sync()
    return node, later


def a_late_bell() -> tuple[Node, dict[int, Sent]]:
    """The timer of the fast round would have rung by now."""
    node, fast = writing()
    for to in (B, C):
        fast[to].answer(HigherBallot(ballot=Ballot(1, C)))
    node.disk.sync()
    prepares = node.transport.take()
    node.clock.advance(TIMING.hedge_ms)
    node.disk.sync()
    return node, prepares


def test_a_vote_of_the_fast_round_does_not_count_in_the_classic_one() -> None:
    node, classic = a_late_fast_vote()
    assert (node.outcomes, node.transport.sent) == ([], [])
    classic[C].answer(AcceptOk())
    node.disk.sync()
    assert node.outcomes == [Committed(proposal=MINE, mine=True, path=Path.SLOW)]


def test_a_promise_of_an_earlier_ballot_does_not_count_in_a_later_round() -> None:
    node, later = a_late_promise()
    assert node.transport.sent == []
    later[B].answer(PrepareOk(vote=None))
    assert kinds(node.transport.take()) == {B: [Accept], C: [Accept]}


def test_the_timer_of_an_earlier_round_does_not_end_a_later_one() -> None:
    node, prepares = a_late_bell()
    assert node.transport.sent == []
    prepares[B].answer(PrepareOk(vote=None))
    assert kinds(node.transport.take()) == {B: [Accept], C: [Accept]}


def test_an_answer_that_waited_for_its_turn_goes_with_its_round() -> None:
    """It came while the flow was busy at home, and the flow came back for another round."""
    node, fast = writing()
    node.handle(prepare(Ballot(5, C)))
    fast[B].answer(AcceptOk())
    fast[C].answer(AcceptOk())
    node.disk.sync()
    node.clock.advance(TIMING.hedge_ms)  # C has its turn
    node.disk.sync()
    prepares = node.transport.take()
    assert prepares[B].requests == (prepare(Ballot(6, A)),)
    prepares[B].answer(PrepareOk(vote=None))
    assert kinds(node.transport.take()) == {B: [Accept], C: [Accept]}


def test_an_answer_after_the_end_is_nothing() -> None:
    node, accepts = writing()
    accepts[B].answer(AcceptOk())
    node.disk.sync()
    node.transport.take()
    accepts[C].answer(AcceptOk())
    accepts[C].answer(Failed(reason="late"))
    node.disk.sync()
    assert len(node.outcomes) == 1
    assert node.transport.sent == []


@pytest.mark.pure("plants a fault in the driver")
@pytest.mark.parametrize(
    "checked",
    [
        test_a_vote_of_the_fast_round_does_not_count_in_the_classic_one,
        test_a_promise_of_an_earlier_ballot_does_not_count_in_a_later_round,
    ],
)
def test_those_would_notice_a_driver_that_ignores_the_round(checked: Callable[[], None]) -> None:
    with planted(MUTANTS, "old-answers-count"), pytest.raises(AssertionError):
        checked()


def test_one_sender_counts_once() -> None:
    """The transport promises one answer; a round would not be misled by two."""
    node = Node(config=config_of(5))
    node.write()
    node.disk.sync()
    accepts = node.transport.take()
    for _ in range(3):
        accepts[B].answer(AcceptOk())
    node.disk.sync()
    assert (node.outcomes, node.transport.sent) == ([], [])
    accepts[C].answer(AcceptOk())
    node.disk.sync()
    assert node.outcomes == [Committed(proposal=MINE, mine=True, path=Path.FAST)]
