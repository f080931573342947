"""Invariants of `KeyState`, checked whenever one is made. Apart from the records, so that this can be compiled."""

from typing import TYPE_CHECKING

from epoxy.model.ballot import FAST_COUNTER, NO_BALLOT

if TYPE_CHECKING:
    from epoxy.model.records import KeyState, Proposal

LINEAGE_LENGTH = 8
"""Earlier decisions whose writes are remembered, so that an overtaken writer learns whether its own is among them.
During one round each of the other replicas, eight in the largest demo, commits at most one. A writer further behind
than that, after an outage for example, gets "unknown"."""


def base_of(proposal: "Proposal") -> int:
    """As `Proposal.base`, compiled: every commit asks for it several times."""
    return proposal.version - 1 - len(proposal.folded)


def assert_well_formed(state: "KeyState") -> None:
    vote, committed = state.vote, state.committed
    if vote is not None:
        version = committed.version if committed is not None else 0
        assert base_of(vote.proposal) == version, state
        assert vote.ballot.counter == FAST_COUNTER or vote.ballot <= state.promised, state
    if committed is not None:
        assert committed.mutable or (vote is None and state.promised == NO_BALLOT), state
        assert len(state.lineage) <= LINEAGE_LENGTH, state
