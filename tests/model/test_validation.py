"""Each invariant of what an acceptor holds for a key, broken by itself."""

import pytest
from msgspec.structs import replace

from epoxy.model.ballot import Ballot, fast_ballot
from epoxy.model.records import KeyState, Proposal, ProposalId, Settled, Vote
from epoxy.model.validation import LINEAGE_LENGTH, assert_well_formed


def proposal(version: int, *, mutable: bool = True) -> Proposal:
    return Proposal(value=b"v", version=version, mutable=mutable, proposal_id=ProposalId(1, version))


def vote(version: int, ballot: Ballot) -> Vote:
    return Vote(proposal=proposal(version), ballot=ballot, epoch=1)


CLASSIC = Ballot(2, 1)
LINEAGE = tuple(Settled(9 - each, ProposalId(1, each)) for each in range(LINEAGE_LENGTH + 1))


@pytest.mark.parametrize(
    "fields",
    [
        {"vote": vote(2, fast_ballot(1))},
        {"committed": proposal(4), "vote": vote(4, fast_ballot(1))},
        {"vote": vote(1, CLASSIC)},
        {"vote": vote(1, Ballot(3, 1)), "promised": CLASSIC},
        {"committed": proposal(1, mutable=False), "promised": CLASSIC},
        {"committed": proposal(1, mutable=False), "vote": vote(2, fast_ballot(1))},
        {"committed": proposal(10), "lineage": LINEAGE},
    ],
    ids=[
        "a vote ahead of its version",
        "a vote for what is committed",
        "a classic vote without a promise",
        "a classic vote above the promise",
        "a promise after a reservation",
        "a vote after a reservation",
        "a lineage too long",
    ],
)
def test_what_no_state_may_be(fields: dict[str, object]) -> None:
    with pytest.raises(AssertionError):
        KeyState(**fields)  # type: ignore[arg-type]


def test_what_a_state_may_be() -> None:
    fast = KeyState(vote=vote(1, fast_ballot(7)))
    assert_well_formed(fast)
    assert_well_formed(replace(fast, promised=CLASSIC))
    assert_well_formed(KeyState(vote=vote(1, CLASSIC), promised=CLASSIC))
    assert_well_formed(KeyState(committed=proposal(10), lineage=LINEAGE[:-1], promised=CLASSIC))
