"""Votes that are counted by those they were not given to."""

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.instances import InstanceId
from epoxy.protocol.txn import votes
from epoxy.protocol.txn.votes import Votes

ID = InstanceId(1, 1)
LOW, HIGH = Ballot(1, 2), Ballot(2, 3)


def test_one_voter_counts_once() -> None:
    heard = Votes()
    heard.count(2, ID, NO_BALLOT)
    assert heard.count(2, ID, NO_BALLOT) == {2}
    assert heard.count(3, ID, NO_BALLOT) == {2, 3}


def test_votes_of_different_ballots_are_not_added_up() -> None:
    heard = Votes()
    heard.count(1, ID, LOW)
    assert heard.count(2, ID, HIGH) == {2}
    assert heard.count(3, ID, LOW) == set(), "a ballot that was overtaken"
    assert heard.count(3, ID, HIGH) == {2, 3}


def test_instances_are_counted_apart_and_dropped_when_decided() -> None:
    heard = Votes()
    heard.count(1, ID, LOW)
    assert heard.count(2, InstanceId(1, 2), LOW) == {2}
    heard.drop(ID)
    assert heard.count(2, ID, LOW) == {2}
    heard.drop(InstanceId(9, 9))


def test_the_oldest_is_given_up_when_there_are_too_many() -> None:
    heard = Votes()
    for slot in range(1, votes.MAX_COUNTED + 2):
        heard.count(1, InstanceId(1, slot), LOW)
    assert heard.count(2, InstanceId(1, 1), LOW) == {2}
    assert heard.count(2, InstanceId(1, votes.MAX_COUNTED + 1), LOW) == {1, 2}
