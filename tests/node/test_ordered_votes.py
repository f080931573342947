"""Slow decisions that are learned from the votes themselves."""

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.ordered import (
    Deps,
    InstanceId,
    Noted,
    OrderedAccept,
    OrderedCommit,
    OrderedVote,
    Phase,
    Recover,
    Voted,
)
from epoxy.model.transactions import Add, Executed, Txn
from tests.node.test_ordered import Cluster
from tests.ordered.cluster import Replicas, write

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
    assert cluster.nodes[3].engine.value(b"k") == b"3"
