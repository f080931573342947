"""Ballots: the numbers of rounds.

A ballot is (counter, replica_id), ordered lexicographically: with a higher counter any replica can overtake a stalled
proposer, and the replica id makes ballots of one counter different. Counter 1 is the fast round, shared by all
proposers of an instance; a replica votes in it once. From counter 2 on it is classic Paxos."""

from msgspec import Struct

FAST_COUNTER = 1
FIRST_CLASSIC_COUNTER = 2


class Ballot(Struct, frozen=True, order=True, gc=False):
    """Invariants: 1. counter >= 0, replica_id >= 0.  2. counter 0 only in `NO_BALLOT`."""

    counter: int
    replica_id: int

    @property
    def is_fast(self) -> bool:
        return self.counter == FAST_COUNTER

    @property
    def is_classic(self) -> bool:
        return self.counter >= FIRST_CLASSIC_COUNTER

    def __str__(self) -> str:
        return f"({self.counter},{self.replica_id})"


NO_BALLOT = Ballot(0, 0)
"""The promise of a replica that has promised nothing; below every real ballot."""


def fast_ballot(replica_id: int) -> Ballot:
    return Ballot(FAST_COUNTER, replica_id)


def next_classic(replica_id: int, *seen: Ballot, rank: int = 0) -> Ballot:
    """The lowest classic ballot of this replica above all those seen. The first one of an instance may be higher, by
    `rank`."""
    highest = max((ballot.counter for ballot in seen), default=0)
    return Ballot(max(FIRST_CLASSIC_COUNTER + rank, highest + 1), replica_id)
