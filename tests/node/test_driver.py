"""The driver: flows meet the disk, the network and the clock, and nothing late, lost or broken confuses them."""

from collections.abc import Callable

import pytest

from epoxy.consensus.effects import Event, Pause
from epoxy.model.ballot import Ballot
from epoxy.model.errors import StoreFailed, TooManyConflicts
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    AlreadyCommitted,
    Commit,
    EpochAhead,
    Failed,
    HigherBallot,
    Prepare,
    PrepareOk,
    Read,
    ReadOk,
    StaleEpoch,
    UpdateConfig,
)
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    Consistency,
    ExpectedValueDoesNotMatch,
    Path,
    ReadFailed,
    ReadResult,
    Refused,
    Source,
    Write,
)
from epoxy.node.driver import MAX_QUEUED_PER_KEY, Run
from epoxy.node.replica import Replica
from epoxy.sim.patching import Patch, applied
from tests.consensus.harness import KEY, TIMING, A, B, C, D, commit, config_of, fast_vote, prepare, prop
from tests.node.bench import Node, Sent, with_learner

MINE = prop(b"v", by=A, nonce=1)
OTHERS = prop(b"other", by=C)


def kinds(sent: dict[int, Sent]) -> dict[int, list[type]]:
    return {to: [type(request) for request in each.requests] for to, each in sent.items()}


def writing() -> tuple[Node, dict[int, Sent]]:
    """A write whose Accepts are out."""
    node = Node()
    node.write()
    node.disk.sync()
    return node, node.transport.take()


def preparing() -> tuple[Node, dict[int, Sent], dict[int, Sent]]:
    """... and whose hedge timer has rung: also the Prepares."""
    node, accepts = writing()
    node.clock.advance(TIMING.hedge_ms)
    node.disk.sync()
    return node, accepts, node.transport.take()


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


def whatever_the_round(run: "Run[object]", _: int, event: Event) -> None:
    happened(run, run._round, event)


happened = Run._happened


@pytest.mark.pure("plants a fault in the driver")
@pytest.mark.parametrize(
    "checked",
    [
        test_a_vote_of_the_fast_round_does_not_count_in_the_classic_one,
        test_a_promise_of_an_earlier_ballot_does_not_count_in_a_later_round,
    ],
)
def test_those_would_notice_a_driver_that_ignores_the_round(checked: Callable[[], None]) -> None:
    with applied((Patch(Run, "_happened", whatever_the_round),)), pytest.raises(AssertionError):
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


# Queues


def test_writes_of_one_key_run_one_after_the_other() -> None:
    node, accepts = writing()
    node.write(b"second")
    node.write(b"v")
    node.disk.sync()
    assert node.transport.sent == []
    accepts[B].answer(AcceptOk())
    node.disk.sync()
    assert len(node.outcomes) == 1
    node.clock.advance(0)
    node.disk.sync()
    assert node.outcomes[1] == ExpectedValueDoesNotMatch(committed=MINE, path=Path.LOCAL)
    node.clock.advance(0)
    assert node.outcomes[2] == Committed(proposal=MINE, mine=False, path=Path.LOCAL)


def test_the_second_write_starts_only_when_the_first_is_answered() -> None:
    node = Node()
    node.write(b"1", mutable=True)
    node.write(b"2", mutable=True)
    node.disk.sync()
    first = node.transport.take()
    first[B].answer(AcceptOk())
    node.disk.sync()
    node.transport.take()
    node.clock.advance(0)
    node.disk.sync()
    (request,) = node.transport.take()[B].requests
    assert isinstance(request, Accept)
    assert (request.proposal.value, request.proposal.version) == (b"2", 2)


def test_other_keys_do_not_wait() -> None:
    node, _ = writing()
    node.write(key=b"other")
    node.disk.sync()
    assert {to: each.requests[0].key for to, each in node.transport.take().items()} == {B: b"other", C: b"other"}  # type: ignore[union-attr]


def test_reads_do_not_queue_behind_writes() -> None:
    node, _ = writing()
    node.read(Consistency.SKIP_CACHE)
    assert kinds(node.transport.take()) == {B: [Read], C: [Read]}


def test_a_full_queue_refuses() -> None:
    node, accepts = writing()
    for _ in range(MAX_QUEUED_PER_KEY - 1):
        node.write()
    assert node.outcomes == []
    node.write()
    (refused,) = node.outcomes
    assert isinstance(refused, Refused)
    assert str(MAX_QUEUED_PER_KEY) in refused.reason
    node.write(key=b"other")
    assert len(node.outcomes) == 1
    accepts[B].answer(AcceptOk())
    node.disk.sync()
    node.clock.advance(0)
    node.disk.sync()
    assert len(node.outcomes) == 1 + MAX_QUEUED_PER_KEY


def test_a_client_that_writes_again_from_its_answer_gets_its_turn() -> None:
    node = Node(config=config_of(1))
    told: list[object] = []

    def again(outcome: object) -> None:
        told.append(outcome)
        if len(told) < 3:
            node.driver.write(write, again)

    write = Write(key=KEY, value=b"x")
    node.driver.write(write, again)
    node.driver.write(write, told.append)
    for _ in range(4):
        node.disk.sync()
        node.clock.advance(0)
    assert [isinstance(outcome, Committed) and outcome.mine for outcome in told] == [True, False, False]
    assert node.driver._queues == {}


def test_a_caller_that_raises_does_not_hold_up_the_others() -> None:
    node = Node(config=config_of(1))

    def broken(_: object) -> None:
        raise RuntimeError("the caller is broken")

    node.driver.write(Write(key=KEY, value=b"x"), broken)
    node.write(b"x")
    with pytest.raises(RuntimeError):
        node.disk.sync()
    node.clock.advance(0)
    node.disk.sync()
    assert isinstance(node.outcomes[0], Committed)


# Pauses


def pause(version: int, *, key: bytes = KEY, delay_ms: float = 100.0) -> Pause:
    return Pause(delay_ms=delay_ms, key=key, version=version)


def test_a_pause_lasts_its_time() -> None:
    node, woken = Node(), list[str]()
    node.driver.sleep(pause(1), lambda: woken.append("up"))
    node.clock.advance(99)
    assert woken == []
    node.clock.advance(1)
    assert woken == ["up"]
    assert node.driver._sleepers == {}


def test_a_pause_is_cut_short_by_its_version_and_not_by_lower_ones() -> None:
    node, woken = Node(), list[str]()
    node.driver.sleep(pause(3), lambda: woken.append("at 3"))
    node.driver.sleep(pause(2), lambda: woken.append("at 2"))
    node.driver.sleep(pause(1, key=b"other"), lambda: woken.append("other"))
    for version, then in ((1, []), (2, ["at 2"]), (3, ["at 2", "at 3"])):
        node.handle_now(commit(prop(b"x", version, by=B, mutable=True)))
        node.clock.advance(0)
        assert woken == then
    node.clock.advance(200)
    assert woken == ["at 2", "at 3", "other"]
    assert node.driver._sleepers == {}


def test_a_commit_that_skips_versions_wakes_those_below_it() -> None:
    node, woken = Node(), list[int]()
    for version in (1, 4, 5):
        node.driver.sleep(pause(version), lambda version=version: woken.append(version))  # type: ignore[misc]
    node.handle_now(commit(prop(b"x", 4, by=B, mutable=True)))
    node.clock.advance(0)
    assert woken == [1, 4]


def test_a_promise_or_a_vote_wakes_nobody() -> None:
    node, woken = Node(), list[str]()
    node.driver.sleep(pause(0), lambda: woken.append("up"))
    node.handle_now(prepare(Ballot(2, B)))
    node.clock.advance(0)
    assert woken == []


def test_a_write_in_back_off_hears_of_its_rivals_commit_at_once() -> None:
    node, _, prepares = preparing()
    for to in (B, C):
        prepares[to].answer(HigherBallot(ballot=Ballot(7, C)))
    asleep_until = node.clock.pending
    node.handle_now(commit(OTHERS))
    node.clock.advance(0)
    node.disk.sync()
    assert node.outcomes == [ExpectedValueDoesNotMatch(committed=OTHERS, path=Path.SLOW)]
    assert node.clock.now < min(asleep_until)


# Ends


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
    vote = fast_vote(prop(b"next", 2, by=B, mutable=True))
    asked = node.transport.take()
    node.handle_now(commit(OTHERS))
    asked[B].answer(ReadOk(committed=prop(b"third", by=B, mutable=True), vote=vote))
    asked[C].answer(ReadOk(committed=None, vote=None))
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
    asked[B].answer(ReadOk(committed=None, vote=fast_vote(prop(b"x", by=B))))
    asked[C].answer(ReadOk(committed=None, vote=None))
    node.disk.sync()
    assert [type(outcome) for outcome in node.reads] == [ReadFailed]
    assert node.transport.sent == []


def test_a_new_epoch_is_adopted_and_the_write_goes_on_under_it() -> None:
    node, accepts = writing()
    accepts[B].answer(StaleEpoch(config=config_of(epoch=2)))
    node.disk.sync()
    assert node.replica.config.epoch == 2
    assert {to: each.requests for to, each in node.transport.take().items()} == dict.fromkeys(
        (B, C), (prepare(Ballot(2, A), epoch=2),)
    )


def test_a_replica_voted_out_settles_what_it_offered_or_says_that_it_cannot_know() -> None:
    node, accepts = writing()
    accepts[B].answer(StaleEpoch(config=with_learner(epoch=2)))
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
