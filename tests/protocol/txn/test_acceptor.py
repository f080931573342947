"""One message at one replica: every rule of docs/protocol/ordered.md."""

import pytest

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.errors import InvariantViolation
from epoxy.model.instances import (
    NOTHING,
    Decided,
    Deps,
    InstanceId,
    Noted,
    OrderedAccept,
    OrderedCommit,
    Overtaken,
    Phase,
    PreAcceptOk,
    Recover,
    RecoverOk,
    Rival,
    Validate,
    ValidateOk,
    Voted,
)
from epoxy.protocol.txn.effects import FinishFast, Join
from tests.protocol.txn.cluster import Replicas, read, write

ONE, TWO = InstanceId(1, 1), InstanceId(2, 1)
BALLOT = Ballot(1, 3)


def test_a_replica_adds_what_else_it_knows() -> None:
    at = Replicas(3)
    first, second = at.begin(1, write()), at.begin(2, write())
    assert (first.deps, second.deps) == (NOTHING, NOTHING)
    assert at.tell(first, (3,)) == {3: PreAcceptOk(also=())}
    assert at.tell(second, (3, 1)) == {3: PreAcceptOk(also=(ONE,)), 1: PreAcceptOk(also=(ONE,))}
    assert at.tell(second, (3,)) == {3: PreAcceptOk(also=(ONE,))}, "a resend gets the same answer"


def test_reads_interfere_with_writes_alone() -> None:
    at = Replicas(3)
    at.tell(at.begin(1, read()), (3,))
    assert at.tell(at.begin(2, read()), (3,)) == {3: PreAcceptOk(also=())}
    assert at.tell(at.begin(3, write(), slot=1), (2,)) == {2: PreAcceptOk(also=())}
    assert at.at[3].log.get(InstanceId(3, 1)).initial == Deps(also=(ONE, TWO))


def test_other_keys_do_not_interfere() -> None:
    at = Replicas(3)
    at.tell(at.begin(1, write(b"a")), (3,))
    assert at.tell(at.begin(2, write(b"b")), (3,)) == {3: PreAcceptOk(also=())}


def test_who_joined_a_ballot_pre_accepts_no_more() -> None:
    at = Replicas(3)
    begun = at.begin(1, write())
    assert at.tell(Recover(id=ONE, ballot=BALLOT), (2,))[2] == RecoverOk(held=at.at[3].log.get(ONE))
    assert at.tell(begun, (2,)) == {2: Overtaken(ballot=BALLOT)}
    assert at.tell(Recover(id=ONE, ballot=BALLOT), (2,)) == {2: Overtaken(ballot=BALLOT)}


def test_joining_hides_no_vote() -> None:
    """The bug of the first EPaxos: 24 steps, three replicas, two decisions."""
    at = Replicas(3)
    begun = at.begin(1, write())
    vote = OrderedAccept(id=ONE, ballot=NO_BALLOT, command=begun.command, deps=NOTHING)
    assert at.tell(vote, (2,)) == {2: Voted()}
    (first,) = at.tell(Recover(id=ONE, ballot=Ballot(1, 3)), (2,)).values()
    (second,) = at.tell(Recover(id=ONE, ballot=Ballot(2, 3)), (2,)).values()
    assert isinstance(first, RecoverOk)
    assert isinstance(second, RecoverOk)
    assert (first.held.accepted, second.held.accepted) == (NO_BALLOT, NO_BALLOT)
    assert second.held.phase is Phase.ACCEPTED
    assert second.held.ballot == Ballot(1, 3)


def test_votes_below_the_ballot_are_refused() -> None:
    at = Replicas(3)
    at.tell(Recover(id=ONE, ballot=Ballot(2, 3)), (2,))
    low = OrderedAccept(id=ONE, ballot=Ballot(1, 3), command=None, deps=NOTHING)
    assert at.tell(low, (2,)) == {2: Overtaken(ballot=Ballot(2, 3))}
    high = OrderedAccept(id=ONE, ballot=Ballot(2, 3), command=None, deps=NOTHING)
    assert at.tell(high, (2,)) == {2: Voted()}


def test_a_decision_is_told_whatever_is_asked_and_never_changes() -> None:
    at = Replicas(3)
    begun = at.begin(1, write())
    commit = OrderedCommit(id=ONE, command=begun.command, deps=NOTHING)
    assert at.tell(commit, (2,)) == {2: Noted()}
    assert at.tell(commit, (2,)) == {2: Noted()}
    assert at.tell(begun, (2,)) == {2: Decided(commit=commit)}
    held = at.tell(Recover(id=ONE, ballot=Ballot(9, 3)), (2,))[2]
    assert isinstance(held, RecoverOk)
    assert held.held.is_committed
    with pytest.raises(InvariantViolation, match="two decisions"):
        at.tell(OrderedCommit(id=ONE, command=None, deps=NOTHING), (2,))


def test_a_coordinator_that_joined_a_ballot_does_not_finish_fast() -> None:
    at = Replicas(3)
    at.begin(1, write())
    assert isinstance(at.at[1].perform(FinishFast(id=ONE)), OrderedCommit)
    other = Replicas(3)
    other.begin(1, write())
    other.tell(Recover(id=ONE, ballot=BALLOT), (1,))
    assert other.at[1].perform(FinishFast(id=ONE)) == Overtaken(ballot=BALLOT)


def test_ballots_are_used_once_also_after_a_restart() -> None:
    at = Replicas(3)
    first = at.at[2].perform(Join(id=ONE, above=NO_BALLOT))
    second = at.restart(2).perform(Join(id=ONE, above=Ballot(7, 1)))
    third = at.restart(2).perform(Join(id=ONE, above=NO_BALLOT))
    requests = [each[1] for each in (first, second, third) if isinstance(each, tuple)]
    assert [request.ballot for request in requests] == [Ballot(1, 2), Ballot(8, 2), Ballot(9, 2)]


def test_rivals_are_those_that_do_not_know_of_each_other() -> None:
    at = Replicas(5)
    first, second = at.begin(1, write()), at.begin(2, write())
    at.tell(first, (3,))
    at.tell(second, (4, 5))
    at.tell(Recover(id=ONE, ballot=Ballot(1, 3)), (3, 4, 5))
    ask = Validate(id=ONE, ballot=Ballot(1, 3), command=first.command, deps=NOTHING)
    met = ValidateOk(rivals=(Rival(id=TWO, is_committed=False),))
    assert at.tell(ask, (3, 4)) == {3: ValidateOk(rivals=()), 4: met}
    at.tell(OrderedCommit(id=TWO, command=second.command, deps=Deps(also=(ONE,))), (5,))
    assert at.tell(ask, (5,)) == {5: ValidateOk(rivals=())}, "it knows of this one"


def test_who_validates_keeps_the_command_in_mind() -> None:
    """Otherwise a command that comes now is committed fast without it, and it without that: see decision 0023."""
    at = Replicas(5)
    first = at.begin(1, write())
    at.tell(first, (2,))
    ballot = Ballot(1, 2)
    at.tell(Recover(id=ONE, ballot=ballot), (2, 4, 5))
    ask = Validate(id=ONE, ballot=ballot, command=first.command, deps=NOTHING)
    assert set(at.tell(ask, (2, 4, 5)).values()) == {ValidateOk(rivals=())}
    late = at.begin(3, write())
    assert at.tell(late, (4, 5)) == {4: PreAcceptOk(also=(ONE,)), 5: PreAcceptOk(also=(ONE,))}
