"""Folds: what waits at a home becomes one proposal, and is found again in what was decided.

Writes are applied in order to the version that the round builds on. The rules F1 to F5 of docs/protocol/per-key.md keep
each of them from taking effect twice, although a write may be in the folds of several replicas.
"""

from collections.abc import Iterable, Sequence

from epoxy.model.records import MAX_FOLD_WRITES, Expiry, Proposal, ProposalId, Settled
from epoxy.model.strings import KEEP, PERSIST, Evaluated
from epoxy.model.writes import Committed, ConsensusFailed, ImmutableKey, Outcome, Path, Unchanged
from epoxy.protocol.keys.evaluation import Evaluation
from epoxy.protocol.keys.operations import Answered, Fold, PendingWrite, Unconfirmed, Unfolded
from epoxy.protocol.keys.preconditions import check_preconditions, expiry_of, is_lasting, result_of

MAX_FOLD_BYTES = 256 << 10
"""Of the values of the writes in a fold. A larger write is proposed alone."""

ABSENT = 0
UNKNOWN = -1

STILL_HANDED_OVER = ConsensusFailed(reason="it was handed to another replica, and may still take effect there")
UNANSWERED = ConsensusFailed(reason="it took effect, but what it answered is not known")


def room(waiting: Iterable[PendingWrite]) -> int:
    """How many of the first of these go into one fold (F5): one at least."""
    count = size = 0
    for pending in waiting:
        size += len(pending.write.value or b"") if pending.write.steps is None else pending.write.steps.size
        if count == MAX_FOLD_WRITES or (count and size > MAX_FOLD_BYTES):
            break
        count += 1
    return count


def fold(
    writes: Sequence[PendingWrite], committed: Proposal | None, me: int, *, confirmed: bool = False
) -> Fold | Unfolded:
    """Each write sees the value that the one before it made, and the same writes on the same base always make the same
    proposal. Refusals in a fold are confirmed with it: that the base was the newest version is what is decided.
    `confirmed`: a quorum knows no newer version than this."""
    if len(writes) == 1:
        return fold_one(writes[0], committed, me, confirmed=confirmed)
    current, ids, answers = committed, list[ProposalId](), list[Outcome]()
    for pending in writes:
        applied = apply(pending, current, confirmed=True)
        if isinstance(applied, Committed):
            current = applied.proposal
            ids.append(pending.proposal_id)
            answers.append(applied)
        else:
            assert isinstance(applied, Answered), applied
            answers.append(applied.outcome)
    if not ids:
        return Unfolded(tuple(answers if confirmed else [answer_here(each, committed) for each in writes]))
    assert current is not None, "an id for each version"
    if len(ids) > 1 or ids[-1].replica_id != me:
        current = Proposal(
            value=current.value,
            version=current.version,
            mutable=current.mutable,
            proposal_id=current.proposal_id,
            folded=tuple(ids[:-1]),
            proposer=me if ids[-1].replica_id != me else 0,
            expiry=current.expiry,
        )
    return Fold(proposal=current, answers=tuple(answers), base=committed)


def fold_one(pending: PendingWrite, committed: Proposal | None, me: int, *, confirmed: bool) -> Fold | Unfolded:
    """As `fold`, for the commonest case."""
    applied = apply(pending, committed, confirmed=confirmed, proposer=0 if pending.proposal_id.replica_id == me else me)
    if isinstance(applied, Committed):
        return Fold(proposal=applied.proposal, answers=(applied,), base=committed)
    return Unfolded((applied.outcome if isinstance(applied, Answered) else None,))


def apply(
    pending: PendingWrite, committed: Proposal | None, *, confirmed: bool, proposer: int = 0
) -> Committed | Answered | Unconfirmed:
    """One write on top of a version: the next one, as its answer, or why there is none."""
    write = pending.write
    if pending.evaluation is not None:
        return apply_steps(pending, pending.evaluation, committed, confirmed=confirmed)
    verdict = check_preconditions(write, committed, confirmed=confirmed)
    if verdict is not None:
        return verdict
    version = committed.version + 1 if committed is not None else 1
    value, expiry = write.value, None
    if value is None or write.is_claim:
        value = result_of(write, committed)
    if value is not None and write.mutable:
        expiry = expiry_of(write, committed, version)
    proposal = Proposal(
        value=value,
        version=version,
        mutable=write.mutable,
        proposal_id=pending.proposal_id,
        proposer=proposer,
        expiry=expiry,
    )
    return Committed(proposal=proposal, mine=True, path=Path.FAST, previous=committed)


def apply_steps(
    pending: PendingWrite, evaluation: Evaluation, committed: Proposal | None, *, confirmed: bool
) -> Committed | Answered | Unconfirmed:
    """Steps that write nothing are a read: their replies are as old as the version they were evaluated on."""
    write, path = pending.write, Path.SLOW if confirmed else Path.LOCAL
    is_final = committed is not None and not committed.mutable
    if not is_final:
        verdict = check_preconditions(write, committed, confirmed=confirmed)
        if verdict is not None:
            return verdict
    evaluated = evaluation.on(committed)
    if not evaluated.changed:
        unchanged = Unchanged(committed=committed, path=path, replies=evaluated.replies)
        return Answered(unchanged) if confirmed or is_final else Unconfirmed()
    if committed is not None and is_final:
        return Answered(ImmutableKey(committed=committed, path=path))
    version = committed.version + 1 if committed is not None else 1
    proposal = Proposal(
        value=evaluated.value,
        version=version,
        mutable=True,
        proposal_id=pending.proposal_id,
        expiry=evaluated_expiry(evaluated, committed, version),
    )
    return Committed(proposal=proposal, mine=True, path=Path.FAST, previous=committed, replies=evaluated.replies)


def evaluated_expiry(evaluated: Evaluated, committed: Proposal | None, version: int) -> Expiry | None:
    if evaluated.value is None or evaluated.expiry == PERSIST:
        return None
    if evaluated.expiry == KEEP:
        return committed.expiry if committed is not None else None
    return Expiry(ttl_ms=evaluated.expiry, since=version)


def answer_here(pending: PendingWrite, committed: Proposal | None) -> Outcome | None:
    """Without a quorum, if that can be."""
    applied = apply(pending, committed, confirmed=False)
    return applied.outcome if isinstance(applied, Answered) else None


def tellable(pending: PendingWrite, outcome: Outcome) -> Outcome:
    """Rule F6: a write that another replica may still fold has not failed, unless it must fail there, too. A refusal
    leaves no trace in the lineage by which that replica would know of it. What a replica refuses of another home's it
    never folds again, and it tells that home alone, which knows what it has done with the write itself."""
    if pending.is_guest or not pending.handed_over:
        return outcome
    is_final = isinstance(outcome, Committed | ConsensusFailed) or is_lasting(pending.write, outcome)
    return outcome if is_final else STILL_HANDED_OVER


def decisions(committed: Proposal, lineage: tuple[Settled, ...]) -> tuple[Proposal | Settled, ...]:
    return (committed, *lineage)


def version_in(decided: Proposal | Settled, proposal_id: ProposalId) -> int:
    """The version that a write has in a decision; ABSENT: it is not in it."""
    if decided.proposal_id == proposal_id:
        return decided.version
    if proposal_id in decided.folded:
        return decided.base + 1 + decided.folded.index(proposal_id)
    return ABSENT


def find(pending: PendingWrite, committed: Proposal, lineage: tuple[Settled, ...]) -> int:
    """Rule F3: the version a write became, ABSENT from all decisions up to the committed one, or UNKNOWN. A write that
    only its home puts forward is in no other instance than that on top of its floor; one that was handed over may be in
    any later one, so the lineage must reach back to its floor without a gap. Decisions up to its floor were looked
    through before."""
    reached, is_whole = committed.version, True
    if reached <= pending.floor:
        return version_in(committed, pending.proposal_id)
    for decided in decisions(committed, lineage):
        version = version_in(decided, pending.proposal_id)
        if version != ABSENT:
            return version
        is_whole = is_whole and decided.version == reached
        reached = decided.base
        if reached <= pending.floor:
            is_known = reached == pending.floor and (is_whole or not pending.handed_over)
            return ABSENT if is_known else UNKNOWN
    return UNKNOWN


def is_decided(proposal: Proposal, committed: Proposal, lineage: tuple[Settled, ...]) -> bool:
    """Whether this very fold is the decision of its instance. The same writes in the same order on the same base have
    the same answers, so comparing ids is enough."""
    for decided in decisions(committed, lineage):
        if decided.version == proposal.version and decided.proposal_id == proposal.proposal_id:
            return decided.folded == proposal.folded
    return False


def answer_found(pending: PendingWrite, version: int, committed: Proposal, path: Path) -> Outcome:
    """Rule F4b: the answer of a write that was decided in a fold of another replica, if it can be rebuilt."""
    write = pending.write
    value, expiry = write.value, None
    if write.amount is not None or write.touch or write.is_claim:
        if committed.version != version:
            return UNANSWERED
        value, expiry = committed.value, committed.expiry
    elif write.expires:
        expiry = expiry_of(write, None, version)
    if write.returning or write.steps is not None:
        return UNANSWERED
    mine = Proposal(value=value, version=version, mutable=write.mutable, proposal_id=pending.proposal_id, expiry=expiry)
    return Committed(proposal=mine, mine=True, path=path)
