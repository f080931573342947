"""The shortest way of a write, and where it is left to the flow."""

from typing import Any

import msgspec
import pytest

from epoxy.model.ballot import Ballot, fast_ballot
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    AlreadyCommitted,
    Behind,
    Commit,
    EpochAhead,
    Failed,
    HigherBallot,
    Prepare,
    StaleEpoch,
    UpdateConfig,
)
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    ExpectedValueDoesNotMatch,
    Outcome,
    Path,
    VersionMismatch,
    Write,
)
from epoxy.node.keys import uncontended
from epoxy.node.keys.replica import Replica
from epoxy.node.keys.uncontended import Uncontended
from epoxy.protocol.effects import Context
from epoxy.protocol.keys.folding import STILL_HANDED_OVER
from epoxy.protocol.keys.operations import Select
from epoxy.protocol.keys.proposer import FoldIntent, selection
from epoxy_sim.patching import Patch, applied
from tests.node.bench import Node, with_learner
from tests.node.keys.driver_bench import MINE, OTHERS, answers_then_raises, kinds, writing
from tests.protocol.keys.harness import KEY, TIMING, A, B, C, accept, commit, config_of, prepare, prop, waiting

WON = Committed(proposal=MINE, mine=True, path=Path.FAST, previous=None)


def test_one_round_commits_and_all_are_told_once_that_is_durable() -> None:
    node, accepts = writing()
    assert kinds(accepts) == {B: [Accept], C: [Accept]}
    accepts[C].answer(AcceptOk())
    assert (node.outcomes, node.transport.sent) == ([], []), "the commit is not durable yet"
    node.disk.sync()
    assert node.outcomes == [WON]
    assert kinds(node.transport.take()) == {B: [Commit], C: [Commit]}
    assert node.clock.pending == []


def test_nothing_is_sent_before_the_local_vote_is_durable() -> None:
    node = Node()
    node.write()
    assert node.transport.sent == []


def test_a_replica_alone_is_its_own_fast_quorum() -> None:
    node = Node(config=config_of(1))
    node.handle(Prepare(key=b"other", epoch=1, ballot=Ballot(2, B), base=0))
    node.write()
    node.disk.sync_once()
    assert node.outcomes == [], "neither vote nor commit is durable"
    node.disk.sync_once()
    assert node.outcomes == [WON], "both became durable with one sync"
    assert node.transport.sent == []


def test_a_vote_that_is_no_quorum_is_synced_before_it_is_counted() -> None:
    node = Node()
    node.write()
    node.disk.sync_once()
    assert kinds(node.transport.take()) == {B: [Accept], C: [Accept]}


@pytest.mark.pure("plants a fault in the selection")
def test_this_is_noticed_if_every_vote_decides() -> None:
    def always(intent: FoldIntent, ctx: Context, *, insists: bool = False) -> Select:
        return msgspec.structs.replace(selection(intent, ctx, insists=insists), decides=True)

    with applied((Patch(uncontended, "selection", always),)), pytest.raises(AssertionError):
        test_nothing_is_sent_before_the_local_vote_is_durable()


@pytest.mark.parametrize(
    ("reply", "missed"), [(EpochAhead(epoch=0), UpdateConfig), (Behind(version=0), Commit)], ids=["epoch", "version"]
)
def test_a_replica_that_missed_something_is_sent_it_once(reply: Behind | EpochAhead, missed: type) -> None:
    node = Node()
    node.handle_now(commit(prop(b"before", mutable=True)))
    node.write(mutable=True)
    node.disk.sync()
    node.transport.take()[B].answer(reply)
    helped = node.transport.take()
    assert kinds(helped) == {B: [missed, Accept]}
    helped[B].answer(reply)
    assert node.transport.sent == [], "the second time it counts as a refusal"


def test_a_decision_made_elsewhere_is_learned_and_answers_the_write() -> None:
    node, accepts = writing()
    accepts[B].answer(AlreadyCommitted(committed=OTHERS))
    node.disk.sync()
    node.clock.advance(0)  # folded again
    node.disk.sync()
    (outcome,) = node.outcomes
    assert isinstance(outcome, ExpectedValueDoesNotMatch)
    assert node.state().committed == OTHERS


def test_a_new_epoch_is_adopted_and_the_write_goes_on_in_it() -> None:
    node, accepts = writing()
    accepts[B].answer(StaleEpoch(config=config_of(epoch=2)))
    node.disk.sync()
    node.clock.advance(0)  # folded again
    node.disk.sync()
    assert node.replica.config.epoch == 2
    asked = [request for each in node.transport.sent for request in each.requests]
    assert asked
    assert all(isinstance(request, Prepare) and request.epoch == 2 for request in asked)


@pytest.mark.parametrize("reply", [HigherBallot(ballot=Ballot(2, C)), Failed(reason="busy")])
def test_a_fast_quorum_out_of_reach_is_left_at_once(reply: HigherBallot | Failed) -> None:
    node, accepts = writing()
    accepts[B].answer(reply)
    accepts[B].answer(reply)
    assert node.transport.sent == [], "one sender counts once"
    accepts[C].answer(reply)
    node.disk.sync()
    assert kinds(node.transport.take()) == {B: [Prepare], C: [Prepare]}


def test_a_promise_made_meanwhile_forbids_the_fast_commit() -> None:
    node, accepts = writing()
    node.handle_now(prepare(Ballot(2, C)))
    accepts[B].answer(AcceptOk())
    node.disk.sync()
    assert node.outcomes == []
    assert node.transport.sent == [], "C has its turn first"
    node.clock.advance(TIMING.hedge_ms)
    node.disk.sync()
    assert kinds(node.transport.take()) == {B: [Prepare], C: [Prepare]}


def test_the_turn_of_a_rival_ends_when_its_decision_is_learned() -> None:
    node = Node()
    node.handle_now(accept(OTHERS, fast_ballot(C)))
    node.write()
    node.disk.sync()
    assert (node.transport.sent, node.outcomes) == ([], [])
    node.handle_now(commit(OTHERS))
    node.clock.advance(0)
    node.disk.sync()
    assert [type(outcome) for outcome in node.outcomes] == [ExpectedValueDoesNotMatch]
    assert node.transport.sent == []


def test_an_open_round_ends_when_its_decision_is_learned_here() -> None:
    node, _ = writing()
    node.handle_now(commit(OTHERS))
    node.clock.advance(0)
    node.disk.sync()
    assert [type(outcome) for outcome in node.outcomes] == [ExpectedValueDoesNotMatch]


def test_nothing_is_put_forward_if_the_instance_was_decided_while_the_own_vote_was_synced() -> None:
    """Exposed on top of an old base, the writes of a hot key could be found in no lineage any more."""
    node = Node()
    node.write()
    node.handle(commit(OTHERS))
    node.disk.sync()
    node.clock.advance(0)
    node.disk.sync()
    assert [type(outcome) for outcome in node.outcomes] == [ExpectedValueDoesNotMatch]
    assert not [sent for sent in node.transport.sent if isinstance(sent.requests[-1], Accept)]


def test_so_does_a_round_of_the_flow_and_one_begun_before_its_ballot_was_durable() -> None:
    for is_open in (True, False):
        node, accepts = writing()
        for peer in (B, C):
            accepts[peer].answer(Failed(reason="busy"))
        if is_open:
            node.disk.sync()
            assert kinds(node.transport.take()) == {B: [Prepare], C: [Prepare]}
        node.handle(commit(OTHERS))
        node.disk.sync()
        node.clock.advance(0)
        node.disk.sync()
        assert [type(outcome) for outcome in node.outcomes] == [ExpectedValueDoesNotMatch], is_open


def test_a_decision_below_the_round_does_not_end_it() -> None:
    node = Node()
    node.handle_now(commit(prop(b"one", mutable=True)))
    node.write(mutable=True)
    node.disk.sync()
    node.handle_now(commit(prop(b"one", mutable=True)))
    node.clock.advance(0)
    assert node.outcomes == []
    accepts = node.transport.take()
    accepts[B].answer(AcceptOk())
    node.disk.sync()
    assert [type(outcome) for outcome in node.outcomes] == [Committed]


def test_the_request_of_a_rival_is_its_refusal() -> None:
    """Each proposer votes for itself first, so with two rivals of three the fast quorum is out of reach."""
    node, _ = writing()
    for rival, value in ((B, b"of B"), (C, b"of C")):
        assert kinds(node.transport.take()) == {}
        node.handle_now(accept(prop(value, by=rival), fast_ballot(rival)))
        node.clock.advance(0)
    node.disk.sync()
    assert kinds(node.transport.take()) == {B: [Prepare], C: [Prepare]}


def test_a_refusal_names_a_rival_that_will_refuse_too() -> None:
    node, accepts = writing()
    accepts[B].answer(HigherBallot(ballot=fast_ballot(C)))
    node.disk.sync()
    assert kinds(node.transport.take()) == {B: [Prepare], C: [Prepare]}


def test_a_replica_without_a_vote_proposes_nothing() -> None:
    node = Node(config=with_learner())
    node.write()
    node.disk.sync()
    assert node.transport.sent == []
    assert [outcome.reason for outcome in node.outcomes if not isinstance(outcome, Committed)] == [  # type: ignore[union-attr]
        f"replica {A} is not an active member"
    ]


def test_each_round_of_prepares_is_counted_once() -> None:
    node, ended = Node(), list[FoldIntent]()
    write = Uncontended(node.driver, KEY, [waiting(Write(key=KEY, value=b"v"))], node.driver.plan(), ended.append)
    write.start()
    node.disk.sync()
    assert write.prepares == 0
    node.clock.advance(TIMING.hedge_ms)
    node.disk.sync()
    assert write.prepares == 1
    node.clock.advance(TIMING.round_timeout_ms + TIMING.backoff_ms)
    node.disk.sync()
    assert write.prepares == 2
    assert ended == []


@pytest.mark.pure("plants a fault in the replica")
def test_a_bug_answers_the_client_and_frees_the_key() -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a bug")

    node = Node()
    reports: list[str] = []
    node.driver.failures.report = lambda flow, _: reports.append(flow)
    with applied((Patch(Replica, "perform", fails),)):
        node.write()
    assert node.outcomes == [ConsensusFailed(reason="failed at RuntimeError('a bug')")]
    assert reports == ["write"]
    node.write()
    node.disk.sync()
    assert kinds(node.transport.take()) == {B: [Accept], C: [Accept]}, "the next write of the key"


def test_a_client_that_fails_at_its_answer_is_not_answered_twice() -> None:
    node, heard = Node(config=config_of(1)), list[Outcome]()

    def fails(outcome: Outcome) -> None:
        heard.append(outcome)
        raise RuntimeError("the client's own")

    node.driver.write(Write(key=KEY, value=b"v"), fails)
    with pytest.raises(RuntimeError):
        node.disk.sync()
    assert heard == [WON]
    assert node.driver.failures.count["write"] == 0


def test_a_write_that_is_left_to_the_flow_while_it_is_sent_and_then_breaks_is_answered_once() -> None:
    """A transport may answer at once, and raise at the next replica: the flow of the first answer still ends."""
    node = Node()
    reports: list[str] = []
    node.driver.failures.report = lambda flow, _: reports.append(flow)
    node.write()
    transport: Any = node.transport
    transport.send = answers_then_raises(AlreadyCommitted(committed=OTHERS))
    node.disk.sync()
    node.disk.sync()
    assert node.outcomes == [ConsensusFailed(reason="failed at OSError('no route')")]
    assert reports == ["write"]


@pytest.mark.parametrize("is_guest", [False, True])
def test_a_refusal_in_a_fold_is_not_told_while_another_replica_may_fold_the_write(is_guest: bool) -> None:
    """Rule F6. A replica that refuses a write of another home tells that home, which knows what else it did with it."""
    node, ended = Node(config=config_of(1)), list[FoldIntent]()
    put = waiting(Write(key=KEY, value=b"v", mutable=True))
    handed_over = waiting(Write(key=KEY, value=b"w", mutable=True, if_version=3), nonce=2, floor=0)
    handed_over.handed_over, handed_over.is_guest = True, is_guest
    Uncontended(node.driver, KEY, [put, handed_over], node.driver.plan(), ended.append).start()
    node.disk.sync()
    assert isinstance(put.outcome, Committed)
    told = handed_over.outcome
    assert isinstance(told, VersionMismatch) if is_guest else told == STILL_HANDED_OVER
