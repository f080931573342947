"""A fold that was put forward: whether a decision with the ids of its writes answers all of them."""

import pytest

from epoxy.model.records import Proposal, ProposalId
from epoxy.model.writes import Committed, NothingToDelete, Path, Write
from epoxy.protocol.effects import Context
from epoxy.protocol.keys.folding import fold
from epoxy.protocol.keys.operations import Fold, PendingWrite
from epoxy.protocol.keys.proposer import FoldIntent, offer_of, settle
from epoxy.protocol.keys.terms import Decision, OwnProposal
from tests.protocol.keys.harness import Bench

KEY = b"k"
BASE = Proposal(value=b"v", version=3, mutable=True, proposal_id=ProposalId(2, 1))


def pending(nonce: int, value: bytes | None, *, is_exposed: bool) -> PendingWrite:
    write = Write(key=KEY, value=value, mutable=True)
    return PendingWrite(write=write, proposal_id=ProposalId(1, nonce), floor=BASE.version if is_exposed else -1)


def offered(*, is_exposed: bool) -> OwnProposal:
    """Delete, delete again, put: the second one is refused."""
    writes = (
        pending(1, None, is_exposed=is_exposed),
        pending(2, None, is_exposed=False),
        pending(3, b"w", is_exposed=is_exposed),
    )
    folded = fold(writes, BASE, 1)
    assert isinstance(folded, Fold)
    return OwnProposal(fold=folded, writes=writes)


def settled(offer: OwnProposal, ctx: Context) -> list[type | None]:
    intent = FoldIntent(KEY, offer.writes)
    intent.offer = offer
    decision = Decision(committed=offer.fold.proposal, path=Path.SLOW)
    assert list(settle(intent, decision, ctx)) == []
    return [type(each.outcome) if each.outcome is not None else None for each in offer.writes]


def test_a_decision_of_new_writes_is_this_fold() -> None:
    offer = offered(is_exposed=False)
    offer.put_forward()
    assert offer.is_new
    assert settled(offer, Bench().context()) == [Committed, NothingToDelete, Committed]


def test_a_decision_of_writes_that_were_handed_over_may_be_older_than_what_is_refused() -> None:
    """An owner may have decided the same ids before the refused write was even asked for."""
    offer = offered(is_exposed=True)
    offer.put_forward()
    assert not offer.is_new
    assert settled(offer, Bench().context()) == [Committed, None, Committed]
    assert offer.writes[1].floor == offer.fold.proposal.version, "it is evaluated again, on top of that"


def test_a_fold_that_is_selected_again_is_the_same_offer() -> None:
    offer = offered(is_exposed=False)
    intent = FoldIntent(KEY, offer.writes)
    assert not offer_of(intent, offer.fold).made
    intent.offer = offer
    offer.put_forward()
    again = fold(offer.writes, BASE, 1)
    assert isinstance(again, Fold)
    assert offer_of(intent, again) is offer
    fewer = fold(offer.writes[:1], BASE, 1)
    assert isinstance(fewer, Fold)
    assert offer_of(FoldIntent(KEY, offer.writes[:1]), fewer) is not offer


@pytest.mark.parametrize("is_exposed", [False, True])
def test_one_write_by_itself_has_nothing_to_refuse(is_exposed: bool) -> None:
    alone = pending(1, b"x", is_exposed=is_exposed)
    folded = fold((alone,), BASE, 1)
    assert isinstance(folded, Fold)
    offer = OwnProposal(fold=folded, writes=(alone,))
    offer.put_forward()
    assert settled(offer, Bench().context()) == [Committed]
