"""Carry: writes of a home that was beaten travel to the replica that won, which folds them into its next proposal.

A Carry changes no acceptor's state, and may be lost, late or repeated: by the ids and floors of its writes (F2, F3)
nothing takes effect twice, however many replicas fold it.
"""

from collections.abc import Sequence

from epoxy.model.integers import LEAST_INTEGER
from epoxy.model.messages import CarriedWrite, CarryAnswer, CarryResult
from epoxy.model.records import Proposal, Settled
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    Outcome,
    Path,
    Refused,
    Unchanged,
    VersionMismatch,
    Write,
)
from epoxy.protocol.keys.folding import ABSENT, MAX_FOLD_BYTES, UNKNOWN, find
from epoxy.protocol.keys.operations import PendingWrite
from epoxy.protocol.keys.preconditions import expiry_of

MAX_REASON = 256

MAX_ANSWERS_BYTES = 1 << 20
"""Of the values in one CarryAnswers, and one more: a frame has 4 MiB."""

NO_LIFE = 0
"""The receiver of a Carry before its life is known."""


def may_be_carried(write: Write) -> bool:
    """A reservation that lost needs no other round, and a large value travels once. An amount travels as 63 bits and a
    sign, into which the least number does not fit. Steps are evaluated at their home, once for each input: a script
    need not be deterministic."""
    return (
        write.mutable
        and len(write.value or b"") <= MAX_FOLD_BYTES
        and write.amount != LEAST_INTEGER
        and write.steps is None
    )


def packed(pending: PendingWrite) -> CarriedWrite:
    write = pending.write
    return CarriedWrite(
        proposal_id=pending.proposal_id,
        floor=pending.floor,
        value=write.value,
        mutable=write.mutable,
        if_version=write.if_version,
        returning=write.returning,
        amount=abs(write.amount) if write.amount is not None else None,
        negative=write.amount is not None and write.amount < 0,
        if_absent=write.if_absent,
        touch=write.touch,
        keep_expiry=write.keep_expiry,
        ttl_ms=write.ttl_ms,
        session=write.session,
    )


def unpacked(key: bytes, carried: CarriedWrite) -> PendingWrite:
    amount = carried.amount
    write = Write(
        key=key,
        value=carried.value,
        mutable=carried.mutable,
        if_version=carried.if_version,
        amount=-amount if amount is not None and carried.negative else amount,
        returning=carried.returning,
        if_absent=carried.if_absent,
        touch=carried.touch,
        keep_expiry=carried.keep_expiry,
        ttl_ms=carried.ttl_ms,
        session=carried.session,
    )
    return PendingWrite(
        write=write, proposal_id=carried.proposal_id, floor=carried.floor, handed_over=True, is_guest=True
    )


def place(pending: PendingWrite, committed: Proposal | None, lineage: tuple[Settled, ...]) -> int:
    """Where a write that was handed over is among the decisions known here, as in `find`. A replica that knows no more
    than its home did has nothing to look through."""
    if committed is None or committed.version <= pending.floor:
        return ABSENT
    version = find(pending, committed, lineage)
    if version == ABSENT:
        pending.floor = committed.version
    return version


def is_declined(found: int) -> bool:
    """The lineage here does not reach back to the floor of the write, so it must not be folded here."""
    return found == UNKNOWN


def was_taken_by_none(receiver: int) -> bool:
    """Whether a Carry that is not for this process is definitely declined. One for an earlier process of this replica
    may be a copy of what that took: its fold may still be decided."""
    return receiver == NO_LIFE


def answer_to(pending: PendingWrite, outcome: Outcome) -> CarryAnswer:
    result, version, value, committed, reason = CarryResult.UNKNOWN, 0, None, None, ""
    match outcome:
        case Committed():
            result, version, committed = CarryResult.DONE, outcome.proposal.version, outcome.previous
            value = outcome.proposal.value if pending.write.amount is not None or pending.write.touch else None
        case ExpectedValueDoesNotMatch():
            result, committed = CarryResult.TAKEN, outcome.committed
        case VersionMismatch():
            result, committed = CarryResult.MISMATCH, outcome.committed
        case ImmutableKey():
            result, committed = CarryResult.IMMUTABLE, outcome.committed
        case NothingToDelete():
            result, committed = CarryResult.ABSENT, outcome.committed
        case NotAnInteger():
            result, committed, reason = CarryResult.NO_INTEGER, outcome.committed, outcome.reason
        case Unchanged():
            raise AssertionError("steps are evaluated at their home alone")
        case ConsensusFailed():
            reason = outcome.reason
        case Refused():
            result, reason = CarryResult.REFUSED, outcome.reason
    return CarryAnswer(
        proposal_id=pending.proposal_id,
        result=result,
        version=version,
        value=value,
        committed=committed,
        reason=reason[:MAX_REASON],
    )


def in_messages(answers: Sequence[CarryAnswer]) -> list[list[CarryAnswer]]:
    """The answers of a fold in messages that fit into a frame: each refusal may name a value of 1 MiB."""
    messages: list[list[CarryAnswer]] = [[]]
    size = 0
    for answer in answers:
        committed = answer.committed
        size += len(committed.value or b"") if committed is not None else 0
        if size > MAX_ANSWERS_BYTES and messages[-1]:
            messages.append([])
            size = 0
        messages[-1].append(answer)
    return messages


def outcome_of(pending: PendingWrite, answer: CarryAnswer) -> Outcome:
    """What the client of a carried write is told."""
    write, committed, path = pending.write, answer.committed, Path.SLOW
    match answer.result:
        case CarryResult.DONE:
            value = answer.value if write.amount is not None or write.touch else write.value
            proposal = Proposal(
                value=value,
                version=answer.version,
                mutable=write.mutable,
                proposal_id=pending.proposal_id,
                expiry=expiry_of(write, None, answer.version) if write.expires and write.amount is None else None,
            )
            return Committed(proposal=proposal, mine=True, path=path, previous=committed)
        case CarryResult.MISMATCH:
            return VersionMismatch(committed=committed, path=path)
        case CarryResult.ABSENT:
            return NothingToDelete(committed=committed, path=path)
        case CarryResult.TAKEN if committed is not None:
            return ExpectedValueDoesNotMatch(committed=committed, path=path)
        case CarryResult.IMMUTABLE if committed is not None:
            return ImmutableKey(committed=committed, path=path)
        case CarryResult.NO_INTEGER if committed is not None:
            return NotAnInteger(committed=committed, path=path, reason=answer.reason)
        case CarryResult.REFUSED:
            return Refused(reason=answer.reason)
        case _:
            return ConsensusFailed(reason=answer.reason)
