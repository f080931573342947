"""What a committed value means to a client's write.

A register's committed version only rises, and an immutable value never changes, so some answers can be given from what
this replica holds, however old. The others need the truth of a quorum first.
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


def judge(write: Write, committed: Proposal | None, *, confirmed: bool) -> Verdict:
    """May this write propose on top of `committed`? `confirmed`: a quorum says that is the newest version."""
    path = Path.SLOW if confirmed else Path.LOCAL
    if committed is not None and not committed.mutable:
        return Answered(met_immutable(write, committed, path))
    if not write.mutable:
        return judge_reserve(write, committed, confirmed=confirmed)
    version = committed.version if committed is not None else 0
    if write.if_version is not None and write.if_version != version:
        hopeless = write.if_version < version or confirmed
        return Answered(VersionMismatch(committed=committed, path=path)) if hopeless else Unconfirmed()
    if write.is_delete and is_absent(committed):
        return Answered(NothingToDelete(committed=committed, path=path)) if confirmed else Unconfirmed()
    return None


def judge_reserve(write: Write, committed: Proposal | None, *, confirmed: bool) -> Verdict:
    """A name whose mutable value was deleted is free again; one that holds a value may have been deleted since."""
    if committed is None or committed.is_tombstone:
        return None
    return Answered(met_value(write, committed, Path.SLOW)) if confirmed else Unconfirmed()


def met_immutable(write: Write, committed: Proposal, path: Path) -> Outcome:
    return ImmutableKey(committed=committed, path=path) if write.mutable else met_value(write, committed, path)


def met_value(write: Write, committed: Proposal, path: Path) -> Outcome:
    if committed.value == write.value:
        return Committed(proposal=committed, mine=False, path=path)
    return ExpectedValueDoesNotMatch(committed=committed, path=path)


def is_absent(committed: Proposal | None) -> bool:
    return committed is None or committed.is_tombstone


def winner(version: int, committed: Proposal, lineage: tuple[Settled, ...]) -> ProposalId | None:
    """Whose write became `version`. None: it was overtaken too long ago to tell, so its writer cannot be told "no"."""
    if committed.version == version:
        return committed.proposal_id
    return next((settled.proposal_id for settled in lineage if settled.version == version), None)
