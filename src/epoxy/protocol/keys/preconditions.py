"""Preconditions of a client's write: what the committed value of its key allows.

The committed version of a mutable key only rises, and an immutable value never changes, so some answers follow from
what this replica holds, however old. The others need the newest version of a quorum first.
"""

from epoxy.model.integers import LEAST_INTEGER, MOST_INTEGER, integer_of
from epoxy.model.marks import mark_of
from epoxy.model.records import Expiry, Proposal
from epoxy.model.transactions import MAX_MOVED_BYTES
from epoxy.model.writes import (
    Committed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
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
        return Answered(refused_for_ever(write, committed, path))
    if not write.mutable:
        # A deleted mutable key is free again; one that holds a value here may have been deleted since.
        if committed is None or committed.value is None:
            return None
        if write.is_claim and len(committed.value) <= MAX_MOVED_BYTES:
            return None
        return Answered(taken(write, committed, path)) if confirmed else Unconfirmed()
    version = committed.version if committed is not None else 0
    if write.if_version is not None and write.if_version != version:
        hopeless = write.if_version < version or confirmed
        return Answered(VersionMismatch(committed=committed, path=path)) if hopeless else Unconfirmed()
    if write.value is None:
        return check_change(write, committed, path, confirmed=confirmed)
    if write.if_absent and committed is not None and not committed.is_tombstone:
        refusal = ExpectedValueDoesNotMatch(committed=committed, path=path)
        return Answered(refusal) if confirmed else Unconfirmed()
    return None


def check_change(write: Write, committed: Proposal | None, path: Path, *, confirmed: bool) -> Verdict:
    """Of a write without a value of its own: it deletes or touches one that is there, or adds to it."""
    if (write.is_delete or write.touch) and (committed is None or committed.is_tombstone):
        return Answered(NothingToDelete(committed=committed, path=path)) if confirmed else Unconfirmed()
    if write.amount is not None and (reason := not_addable(write.amount, committed)) is not None:
        assert committed is not None, "an absent number counts as 0"
        return Answered(NotAnInteger(committed=committed, path=path, reason=reason)) if confirmed else Unconfirmed()
    return None


def refused_for_ever(write: Write, committed: Proposal, path: Path) -> Outcome:
    """By an immutable value."""
    if not write.mutable:
        return taken(write, committed, path)
    refusal = ExpectedValueDoesNotMatch if write.if_absent else ImmutableKey
    return refusal(committed=committed, path=path)


def is_lasting(write: Write, outcome: Outcome) -> bool:
    """Whether a refusal holds for ever, whichever replica evaluates the write again."""
    match outcome:
        case ImmutableKey():
            return True
        case ExpectedValueDoesNotMatch():
            return not outcome.committed.mutable
        case VersionMismatch(committed=Proposal(version=version)):
            return write.if_version is not None and write.if_version < version
        case _:
            return False


def not_addable(amount: int, committed: Proposal | None) -> str | None:
    number = integer_of(committed.value if committed is not None else None)
    if number is None:
        return "value is not an integer or out of range"
    return None if LEAST_INTEGER <= number + amount <= MOST_INTEGER else "increment or decrement would overflow"


def result_of(write: Write, committed: Proposal | None) -> bytes | None:
    """The value that a write makes whose preconditions hold."""
    if write.amount is None:
        if write.is_claim:
            return mark_of(committed)
        return committed.value if write.touch and committed is not None else write.value
    number = integer_of(committed.value if committed is not None else None)
    assert number is not None, "a precondition"
    return b"%d" % (number + write.amount)


def expiry_of(write: Write, committed: Proposal | None, version: int) -> Expiry | None:
    """The expiry of the value that a write makes as this version. One that is kept goes on counting from the version it
    was given at: a value that is written again and again would never end otherwise."""
    if (write.keep_expiry or write.amount is not None) and committed is not None and not committed.is_tombstone:
        return committed.expiry
    if not (write.ttl_ms or write.session):
        return None
    return Expiry(ttl_ms=write.ttl_ms, since=version, session=write.session)


def taken(write: Write, committed: Proposal, path: Path) -> Outcome:
    if committed.value == write.value:
        return Committed(proposal=committed, mine=False, path=path)
    return ExpectedValueDoesNotMatch(committed=committed, path=path)
