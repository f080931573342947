"""Ballots: order, the fast round, and the next classic one."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.model.ballot import NO_BALLOT, Ballot, fast_ballot, next_classic

ballots = st.builds(Ballot, st.integers(1, 50), st.integers(1, 9))


def test_the_counter_orders_before_the_replica() -> None:
    in_order = [NO_BALLOT, Ballot(1, 1), Ballot(1, 3), Ballot(2, 1), Ballot(2, 2), Ballot(10, 1)]
    assert all(lower < higher for lower, higher in itertools.pairwise(in_order))


@pytest.mark.parametrize(
    ("ballot", "fast", "classic"),
    [
        (NO_BALLOT, False, False),
        (Ballot(1, 3), True, False),
        (Ballot(2, 3), False, True),
        (Ballot(99, 1), False, True),
    ],
)
def test_counter_one_is_the_fast_round(ballot: Ballot, fast: bool, classic: bool) -> None:
    assert (ballot.is_fast, ballot.is_classic) == (fast, classic)


def test_a_fast_ballot_names_its_proposer() -> None:
    assert fast_ballot(3) == Ballot(1, 3)


def test_a_ballot_prints_as_in_the_papers() -> None:
    assert str(Ballot(2, 7)) == "(2,7)"


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ((), Ballot(2, 5)),
        ((NO_BALLOT,), Ballot(2, 5)),
        ((Ballot(1, 9),), Ballot(2, 5)),
        ((Ballot(2, 9),), Ballot(3, 5)),
        ((Ballot(2, 1), Ballot(7, 1), Ballot(1, 9)), Ballot(8, 5)),
    ],
)
def test_the_next_classic_ballot(seen: tuple[Ballot, ...], expected: Ballot) -> None:
    assert next_classic(5, *seen) == expected


@given(me=st.integers(1, 9), seen=st.lists(ballots))
def test_the_next_classic_ballot_is_above_everything_seen(me: int, seen: list[Ballot]) -> None:
    ballot = next_classic(me, *seen)
    assert ballot.is_classic
    assert ballot.replica_id == me
    assert all(ballot > other for other in seen)
