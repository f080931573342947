"""Requests that cannot be made."""

import pytest

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.messages import Accept, Prepare
from epoxy.model.records import Proposal, ProposalId


def prop(version: int) -> Proposal:
    return Proposal(value=b"x", version=version, mutable=False, proposal_id=ProposalId(1, 1))


@pytest.mark.parametrize("ballot", [NO_BALLOT, Ballot(1, 3)])
def test_the_fast_round_has_no_phase_one(ballot: Ballot) -> None:
    with pytest.raises(AssertionError):
        Prepare(key=b"k", epoch=1, ballot=ballot, base=0)


@pytest.mark.parametrize("ballot", [NO_BALLOT, Ballot(0, 5)])
def test_a_vote_needs_a_ballot(ballot: Ballot) -> None:
    with pytest.raises(AssertionError):
        Accept(key=b"k", epoch=1, ballot=ballot, proposal=prop(1))


def test_legacy_values_are_never_voted_for() -> None:
    with pytest.raises(AssertionError):
        Accept(key=b"k", epoch=1, ballot=Ballot(1, 1), proposal=prop(0))
