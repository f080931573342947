"""Rule F3 where decisions are missing from a lineage. Simulation meets a handed-over write in such a gap too rarely."""

import pytest

from epoxy.model.records import Proposal, ProposalId, Settled
from epoxy.model.writes import Write
from epoxy.protocol.keys import folding
from epoxy.protocol.keys.folding import ABSENT, UNKNOWN
from epoxy.protocol.keys.operations import PendingWrite

COMMITTED = Proposal(value=b"v", version=9, mutable=True, proposal_id=ProposalId(2, 9))
SIX, FIVE = Settled(6, ProposalId(2, 6)), Settled(5, ProposalId(2, 5))
EIGHT, SEVEN = Settled(8, ProposalId(2, 8)), Settled(7, ProposalId(2, 7))
WHOLE, WITH_GAP = (EIGHT, SEVEN, SIX, FIVE), (EIGHT, SIX, FIVE)


def pending(floor: int, *, handed_over: bool) -> PendingWrite:
    write = Write(key=b"k", value=b"x", mutable=True)
    return PendingWrite(write=write, proposal_id=ProposalId(1, 1), floor=floor, handed_over=handed_over)


@pytest.mark.parametrize(
    ("floor", "lineage", "found"),
    [(4, WHOLE, ABSENT), (7, WHOLE, ABSENT), (4, WITH_GAP, UNKNOWN), (7, WITH_GAP, ABSENT), (3, WHOLE, UNKNOWN)],
)
def test_a_write_that_was_handed_over_may_be_in_any_later_decision(
    floor: int, lineage: tuple[Settled, ...], found: int
) -> None:
    assert folding.find(pending(floor, handed_over=True), COMMITTED, lineage) == found


def test_a_write_that_only_its_home_puts_forward_is_on_top_of_its_floor_or_nowhere() -> None:
    assert folding.find(pending(4, handed_over=False), COMMITTED, WITH_GAP) == ABSENT
    assert folding.find(pending(6, handed_over=False), COMMITTED, WITH_GAP) == UNKNOWN


def test_found_is_found_also_beyond_a_gap() -> None:
    mine = Settled(5, ProposalId(2, 5), (ProposalId(1, 1),))
    assert folding.find(pending(3, handed_over=True), COMMITTED, (EIGHT, mine)) == 4
