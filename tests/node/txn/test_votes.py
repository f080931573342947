"""Slow decisions that are learned from the votes themselves."""

from collections.abc import Callable, Set

import pytest

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.instances import (
    Deps,
    Instance,
    InstanceId,
    InTerm,
    Noted,
    OrderedAccept,
    OrderedCommit,
    OrderedVote,
    Phase,
    Recover,
    Voted,
)
from epoxy.model.transactions import Add, Executed, Txn
from epoxy.node.txn import replica as ordered_replica
from epoxy.node.txn.engine import OrderedEngine
from epoxy.protocol.txn.votes import Votes, vote_broadcast
from tests.node.txn import test_engine
from tests.node.txn.test_engine import Cluster
from tests.protocol.txn.cluster import Replicas, write

ID = InstanceId(1, 1)
ACCEPT = OrderedAccept(id=ID, ballot=NO_BALLOT, command=write(), deps=Deps())


def vote(sender: int, ballot: Ballot = NO_BALLOT) -> OrderedVote:
    return OrderedVote(sender=sender, id=ID, ballot=ballot)


def accepted(n: int = 5) -> Replicas:
    """A command that everybody has voted for, and nobody knows of anybody else."""
    replicas = Replicas(n)
    replicas.begin(1, write())
    assert set(replicas.tell(ACCEPT, range(1, n + 1)).values()) == {Voted()}
    return replicas


def test_a_slow_quorum_of_votes_is_a_decision_wherever_it_is_counted() -> None:
    replica = accepted().at[3]
    for voter in (3, 1):
        assert replica.handle(vote(voter)) == Noted()
        assert not replica.log.get(ID).is_committed
    replica.handle(vote(2))
    assert replica.log.get(ID).is_committed
    assert replica.log.is_executed(ID)


def test_the_same_voter_twice_is_one_vote() -> None:
    replica = accepted().at[3]
    for voter in (3, 1, 1, 3, 1):
        replica.handle(vote(voter))
    assert not replica.log.get(ID).is_committed


def test_my_own_vote_counts_only_when_i_hear_of_it() -> None:
    """It is on its way to the disk until then."""
    replica = accepted().at[3]
    for voter in (1, 2, 4):
        replica.handle(vote(voter))
    assert not replica.log.get(ID).is_committed
    replica.handle(vote(3))
    assert replica.log.get(ID).is_committed


def test_who_has_not_voted_does_not_know_for_what_the_others_have() -> None:
    replicas = Replicas(5)
    replicas.begin(1, write())
    for voter in (1, 2, 4, 3):
        replicas.at[3].handle(vote(voter))
    assert not replicas.at[3].log.get(ID).is_committed


def test_votes_of_two_ballots_make_no_decision() -> None:
    replica = accepted().at[3]
    later = Ballot(1, 2)
    replica.handle(vote(3))
    replica.handle(vote(1))
    replica.handle(vote(2, later))
    assert not replica.log.get(ID).is_committed
    replica.handle(Recover(id=ID, ballot=later))
    assert isinstance(replica.handle(OrderedAccept(id=ID, ballot=later, command=None, deps=Deps())), Voted)
    replica.handle(vote(4))
    replica.handle(vote(3, later))
    assert not replica.log.get(ID).is_committed, "two of three in the later ballot, three in the other one"
    replica.handle(vote(5, later))
    assert replica.log.get(ID).chosen is None


def test_votes_for_another_ballot_than_mine_say_nothing_of_it() -> None:
    """What I hold is of the first ballot; what they voted for in a later one I have not heard."""
    replica = accepted().at[3]
    later = Ballot(1, 2)
    for voter in (1, 2, 3, 4):
        replica.handle(vote(voter, later))
    assert not replica.log.get(ID).is_committed


def test_a_vote_for_what_is_decided_or_gone_changes_nothing() -> None:
    replicas = accepted(3)
    replicas.tell(OrderedCommit(id=ID, command=write(), deps=Deps()), (1, 2, 3))
    replica = replicas.at[2]
    for other in (1, 3):
        replica.reached(other, (ID,))
    assert replica.handle(vote(3)) == Noted()
    assert replica.forget() == 1
    assert replica.handle(vote(3)) == Noted()
    assert not replica.log.instances


def test_others_learn_a_slow_decision_from_a_coordinator_that_dies_before_it_counts() -> None:
    cluster = Cluster(5)
    add = Txn(then=(Add(key=b"k", amount=1),))
    cluster.txn(1, add)
    told: list[object] = []
    for home in (1, 2):
        cluster.nodes[home].transactions.run(add, told.append)
    cluster.run(3.5)
    held = cluster.nodes[3].engine.replica.log.instances
    assert any(each.phase is Phase.ACCEPTED for each in held.values()), "they met, and are slow"
    cluster.down.add(1)
    cluster.run(2)
    assert all(each.is_committed for each in held.values())
    cluster.run(3000)
    assert all(isinstance(outcome, Executed) for outcome in told)
    assert cluster.nodes[3].engine.held(b"k").value == b"3"


# The rules of votes that were told, each broken: the story that is about it must notice.


def any_ballot(self: Votes, voter: int, instance_id: InstanceId, _ballot: Ballot) -> Set[int]:
    """Adds up votes of all ballots."""
    return count(self, voter, instance_id, NO_BALLOT)


def not_my_own(state: Instance, voters: Set[int], ballot: Ballot, _me: int, slow: int) -> bool:
    """Takes its own vote for durable as soon as it is given."""
    return state.phase is Phase.ACCEPTED and state.accepted == ballot and len(voters) >= slow


def whatever_i_voted_for(state: Instance, voters: Set[int], _ballot: Ballot, me: int, slow: int) -> bool:
    """Takes votes of one ballot for what it holds of another."""
    return state.phase is Phase.ACCEPTED and me in voters and len(voters) >= slow


def tell_at_once(self: OrderedEngine, request: object, reply: object) -> None:
    """Before it is durable."""
    told = vote_broadcast(self.me, self.replica.voters, request, reply)
    if told is not None:
        self._told_vote(InTerm(term=self.replica.number, request=told.vote), told.others)


count = Votes.count


@pytest.mark.pure("plants faults in place of the engine's rules")
@pytest.mark.parametrize(
    ("where", "name", "fault", "story"),
    [
        (Votes, "count", any_ballot, test_votes_of_two_ballots_make_no_decision),
        (ordered_replica, "decides", not_my_own, test_my_own_vote_counts_only_when_i_hear_of_it),
        (ordered_replica, "decides", whatever_i_voted_for, test_votes_for_another_ballot_than_mine_say_nothing_of_it),
        (OrderedEngine, "_tell_vote", tell_at_once, test_engine.test_a_vote_is_told_to_the_others_when_it_is_durable),
    ],
)
def test_a_broken_rule_of_votes_is_noticed(
    monkeypatch: pytest.MonkeyPatch, where: object, name: str, fault: object, story: Callable[[], None]
) -> None:
    story()
    monkeypatch.setattr(where, name, fault)
    with pytest.raises(AssertionError):
        story()
