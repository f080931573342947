"""One command at its coordinator, step by step: who has to answer, and what is done about those who do not."""

from collections.abc import Callable

import pytest

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.cluster import first_epoch
from epoxy.model.instances import (
    MAX_DEPENDENCIES,
    Closed,
    Deps,
    Instance,
    InstanceId,
    OrderedAccept,
    OrderedCommit,
    Overloaded,
    Phase,
    PreAccept,
    PreAcceptOk,
    Recover,
    Validate,
    ValidateOk,
    Voted,
)
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Path
from epoxy.node.txn.replica import OrderedReplica
from epoxy.protocol.effects import Also, Answer, Context, Expired, Local, Next, Open, Tell
from epoxy.protocol.txn.coordinator import Abandoned, CommandDecided, TooMuch, submit
from epoxy.protocol.txn.effects import Begin, FinishFast, Flow, TxnTiming
from epoxy.store.memory import MemoryStore
from tests.protocol.txn.cluster import Dice, Replicas, drive, write

ID = InstanceId(1, 1)
BEGUN = PreAccept(id=ID, command=write(), deps=Deps())


def begun(policy: QuorumPolicy, n: int = 3) -> Flow[object]:
    """A coordinator that has put its command to the others, and waits for the first answer."""
    config = first_epoch(tuple(range(1, n + 1)), policy)
    flow = submit(ID, write(), Context(me=1, config=config, dice=Dice(), timing=TxnTiming()))
    assert drive(flow) == Local(Begin(id=ID, command=write()))
    asked = drive(flow, BEGUN)
    assert isinstance(asked, Open)
    assert asked.envelopes == dict.fromkeys(range(2, n + 1), BEGUN)
    assert drive(flow) == Next()
    return flow


def finish_slow(flow: Flow[object], asked: object, deps: Deps) -> None:
    """It asks all to vote, the silent one too, and one vote beside its own is enough."""
    vote = OrderedAccept(id=ID, ballot=NO_BALLOT, command=write(), deps=deps)
    assert isinstance(asked, Open)
    assert asked.envelopes == {2: vote, 3: vote}
    assert drive(flow) == Local(vote)
    assert drive(flow, Voted()) == Next()
    told = drive(flow, Answer(2, Voted()))
    commit = OrderedCommit(id=ID, command=write(), deps=deps)
    assert told == Tell(envelopes={2: commit, 3: commit})
    assert drive(flow) == Local(commit)
    assert drive(flow) == CommandDecided(Path.SLOW)


def test_with_one_peer_silent_and_a_fast_quorum_of_all_the_coordinator_asks_for_votes_itself() -> None:
    """No replica recovers its command before it counts as stuck."""
    flow = begun(QuorumPolicy.FAST_PAXOS)
    assert drive(flow, Answer(2, PreAcceptOk(also=()))) == Next(), "two of three: the third may still answer"
    finish_slow(flow, drive(flow, Expired()), Deps())


def test_with_one_peer_silent_and_the_other_knowing_more_the_coordinator_does_not_even_wait() -> None:
    flow = begun(QuorumPolicy.OPTIMAL)
    known = InstanceId(2, 7)
    finish_slow(flow, drive(flow, Answer(2, PreAcceptOk(also=(known,)))), Deps(also=(known,)))


def test_a_coordinator_without_answers_sends_three_times_and_leaves_it_to_recovery() -> None:
    flow = begun(QuorumPolicy.OPTIMAL)
    for _ in range(2):
        again = drive(flow, Expired())
        assert isinstance(again, Also)
        assert again.envelopes == {2: BEGUN, 3: BEGUN}
        assert drive(flow) == Next()
    assert drive(flow, Expired()) == Abandoned()


# More than can be said


def crowded(count: int) -> OrderedReplica:
    """A replica that knows of so many commands on the key, all under way."""
    replica = OrderedReplica(1, MemoryStore(), first_epoch((1, 2, 3)))
    for slot in range(1, count + 1):
        instance_id = InstanceId(2, slot)
        held = Instance(id=instance_id, phase=Phase.PREACCEPTED, command=write(), deps=Deps(), initial=Deps())
        replica.log.put(held)
    return replica


def ask_begin(replica: OrderedReplica) -> object:
    return replica.perform(Begin(id=ID, command=write()))


def ask_pre_accept(replica: OrderedReplica) -> object:
    return replica.handle(PreAccept(id=InstanceId(3, 1), command=write(), deps=Deps()))


def ask_validate(replica: OrderedReplica) -> object:
    recover = Recover(id=InstanceId(3, 1), ballot=Ballot(1, 3))
    replica.handle(recover)
    return replica.handle(Validate(id=recover.id, ballot=recover.ballot, command=write(), deps=Deps()))


@pytest.mark.parametrize(
    ("ask", "answer"), [(ask_begin, PreAccept), (ask_pre_accept, PreAcceptOk), (ask_validate, ValidateOk)]
)
def test_who_would_have_to_name_more_than_can_be_said_refuses_and_holds_nothing(
    ask: Callable[[OrderedReplica], object], answer: type
) -> None:
    full = crowded(MAX_DEPENDENCIES)
    assert isinstance(ask(full), answer), "so many can be said"
    over = crowded(MAX_DEPENDENCIES + 1)
    assert ask(over) == Overloaded()
    refused = over.log.get(ID if ask is ask_begin else InstanceId(3, 1))
    assert (refused.phase, refused.command, refused.initial) == (Phase.INITIAL, None, None)


def test_a_coordinator_that_would_have_to_name_too_much_sends_nothing() -> None:
    replicas = Replicas(3)
    flow = submit(ID, write(), replicas.context(1))
    assert isinstance(drive(flow), Local)
    assert drive(flow, Overloaded()) == TooMuch()


def test_a_peer_that_would_have_to_is_not_counted_and_is_asked_again() -> None:
    flow = begun(QuorumPolicy.OPTIMAL)
    assert drive(flow, Answer(2, Overloaded())) == Next()
    assert drive(flow, Answer(3, Overloaded())) == Next(), "neither is a quorum"
    again = drive(flow, Expired())
    assert isinstance(again, Also)
    assert again.envelopes == {2: BEGUN, 3: BEGUN}
    drive(flow)
    assert drive(flow, Answer(3, PreAcceptOk(also=()))) == Local(FinishFast(id=ID))


def test_one_peer_that_refuses_to_vote_is_not_the_end_and_two_of_three_are() -> None:
    flow = begun(QuorumPolicy.OPTIMAL)
    assert isinstance(drive(flow, Answer(2, PreAcceptOk(also=(InstanceId(2, 7),)))), Open)
    assert isinstance(drive(flow), Local)
    assert drive(flow, Voted()) == Next()
    assert drive(flow, Answer(2, Closed(term=1))) == Next(), "the third may still vote"
    assert drive(flow, Answer(3, Closed(term=1))) == Abandoned()
