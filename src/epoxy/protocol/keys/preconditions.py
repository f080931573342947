"""Preconditions of a client's write: what the committed value of its key allows.

The committed version of a mutable key only rises, and an immutable value never changes, so some answers follow from
what this replica holds, however old. The others need the newest version of a quorum first.
"""

from epoxy.model.records import Proposal, ProposalId, Settled
from epoxy.model.writes import (
    Committed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NothingToDelete,
    Outcome,
    Path,
    VersionMismatch,
    Write,
)
from epoxy.protocol.keys.operations import Answered, Unconfirmed, Verdict


def check_preconditions(write: Write, committed: Proposal | None, *, confirmed: bool) -> Verdict:
    """Whether this write may propose on top of `committed`. `confirmed`: a quorum knows no newer version."""
    path = Path.SLOW if confirmed else Path.LOCAL
    if committed is not None and not committed.mutable:
        return Answered(
            ImmutableKey(committed=committed, path=path) if write.mutable else taken(write, committed, path)
        )
    if not write.mutable:
        # A deleted mutable key is free again; one that holds a value here may have been deleted since.
        if committed is None or committed.is_tombstone:
            return None
        return Answered(taken(write, committed, path)) if confirmed else Unconfirmed()
    version = committed.version if committed is not None else 0
    if write.if_version is not None and write.if_version != version:
        hopeless = write.if_version < version or confirmed
        return Answered(VersionMismatch(committed=committed, path=path)) if hopeless else Unconfirmed()
    if write.is_delete and (committed is None or committed.is_tombstone):
        return Answered(NothingToDelete(committed=committed, path=path)) if confirmed else Unconfirmed()
    return None


def taken(write: Write, committed: Proposal, path: Path) -> Outcome:
    if committed.value == write.value:
        return Committed(proposal=committed, mine=False, path=path)
    return ExpectedValueDoesNotMatch(committed=committed, path=path)


def winner(version: int, committed: Proposal, lineage: tuple[Settled, ...]) -> ProposalId | None:
    """Whose write became `version`. None: the lineage no longer reaches back to it, so its writer may not be told that
    it lost."""
    if committed.version == version:
        return committed.proposal_id
    return next((settled.proposal_id for settled in lineage if settled.version == version), None)
