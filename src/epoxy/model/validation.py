"""What must hold of a record, apart from the records: this is looked at whenever one is made, and may be compiled."""

from typing import TYPE_CHECKING

from epoxy.model.ballot import FAST_COUNTER, NO_BALLOT

if TYPE_CHECKING:
    from epoxy.model.records import KeyState

LINEAGE_LENGTH = 8
"""Settled versions remembered beside the newest one, so that an overtaken writer can be told whose its version was. In
the time of one round, each of the other replicas of the largest demo gets at most one version in: eight. Who is further
behind than that, after an outage say, is told "unknown"."""


def assert_well_formed(state: "KeyState") -> None:
    vote, committed = state.vote, state.committed
    if vote is not None:
        version = committed.version if committed is not None else 0
        assert vote.proposal.version == version + 1, state
        assert vote.ballot.counter == FAST_COUNTER or vote.ballot <= state.promised, state
    if committed is not None:
        assert committed.mutable or (vote is None and state.promised == NO_BALLOT), state
        assert len(state.lineage) <= LINEAGE_LENGTH, state
