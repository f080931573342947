"""Single writes of keys that belong to transactions. A put, a deletion or an addition without a condition is one
operation of a transaction. Everything else is evaluated here by the rules of folds, as in the per-key engine, on the
row that is known here, and takes effect if that is still the newest: the transaction compares its version. If it is
not, the answer has the newer row, and the write is evaluated again.
"""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from epoxy.model.records import LEGACY_PROPOSAL_ID, Expiry, Proposal
from epoxy.model.transactions import (
    NO_ROW,
    Add,
    Compare,
    Delete,
    Done,
    Executed,
    Expire,
    Operation,
    OrderedValue,
    Put,
    Txn,
    TxnOutcome,
    TxnRefused,
    TxnUnknown,
    flaw_of,
    is_addable,
)
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    NotAnInteger,
    NothingToDelete,
    Outcome,
    Path,
    Refused,
    VersionMismatch,
    Write,
)
from epoxy.node.keys.leases import Leases
from epoxy.node.txn.transactions import Transactions, held_since, shown
from epoxy.protocol.keys.folding import fold
from epoxy.protocol.keys.operations import Fold, PendingWrite
from epoxy.protocol.txn.execution import Values

MOST_TRIES = 16
"""Each that fails means that another write of the key took effect meanwhile."""

TOO_MANY = Refused(reason=f"the key was written by others {MOST_TRIES} times while this write waited; nothing was done")

Answer = Callable[[Outcome], None]


class OwnedWrites:
    def __init__(self, transactions: Transactions, me: int, pending: Callable[[Write], PendingWrite]) -> None:
        """`pending`: a write with what evaluates it."""
        self._transactions = transactions
        self._me = me
        self._pending = pending

    def run(self, write: Write, mark: Proposal, answered: Answer) -> None:
        operation = native(write)
        if operation is not None:
            txn = Txn(then=(operation,))
            self._run(txn, answered, lambda executed: answered(native_outcome(write, executed.done[0])))
        else:
            self._try(self._pending(write), self._transactions.held(write.key, mark), MOST_TRIES, answered)

    def end_with(self, leases: Leases) -> None:
        """Values of transactions end as others do: by this replica's count, and by a decision."""

        def written(values: Values) -> None:
            for key, held in values.items():
                if held.expiry is not None or leases.counts(key):
                    leases.follow(key, shown(held))

        replica = self._transactions.engine.replica
        leases.end_elsewhere = self.end
        leases.held_elsewhere = lambda key, mark: shown(held_since(replica.newest(key), mark))
        leases.indexes.append(replica.expiring)
        self._transactions.over = leases.over_version
        replica.on_written = written

    def end(self, key: bytes, version: int, answered: Answer) -> bool:
        """Decide that a value is over, if that is still its version: `Leases.end_elsewhere`."""

        def executed(result: Executed) -> None:
            before = result.compared[0]
            if result.succeeded and before.value is not None:
                gone = version_of(None, version + 1)
                answered(Committed(proposal=gone, mine=True, path=Path.SLOW, previous=shown(before)))
            else:
                answered(VersionMismatch(committed=base_of(before), path=Path.SLOW))

        compares = (Compare(key=key, version=version),)
        self._run(Txn(compares=compares, then=(Expire(key=key, version=version),)), answered, executed)
        return True

    def _run(self, txn: Txn, answered: Answer, executed: Callable[[Executed], None]) -> None:
        flaw = flaw_of(txn)
        if flaw is not None:
            answered(Refused(reason=f"the key belongs to transactions: {flaw}"))
            return

        def told(outcome: TxnOutcome) -> None:
            if isinstance(outcome, Executed):
                executed(outcome)
            else:
                answered(failure_of(outcome))

        self._transactions.run(txn, told)

    def _try(self, pending: PendingWrite, held: OrderedValue, tries: int, answered: Answer) -> None:
        """A refusal, too, holds only if the row it follows from is the newest."""
        key, committed = pending.write.key, base_of(held)
        result = fold((pending,), committed, self._me, confirmed=True)
        outcome = result.answers[0]
        assert outcome is not None, "confirmed"
        then = (operation_of(key, result.proposal),) if isinstance(result, Fold) else ()
        txn = Txn(compares=(Compare(key=key, version=held.at),), then=then)
        self._run(txn, answered, partial(self._compared, pending, outcome, tries - 1, answered))

    def _compared(
        self, pending: PendingWrite, outcome: Outcome, tries: int, answered: Answer, executed: Executed
    ) -> None:
        if executed.succeeded:
            answered(as_told(outcome))
        elif not tries:
            answered(TOO_MANY)
        else:
            self._try(pending, executed.compared[0], tries, answered)


def base_of(held: OrderedValue) -> Proposal | None:
    return None if held == NO_ROW else shown(held)


def native(write: Write) -> Operation | None:
    """The operation that does the same, if there is one."""
    if write.if_version is not None or write.if_absent or write.touch or write.steps is not None:
        return None
    if write.amount is not None:
        if write.session or not is_addable(write.amount):
            return None
        return Add(key=write.key, amount=write.amount, ttl_ms=write.ttl_ms)
    if write.value is None:
        return Delete(key=write.key)
    return Put(
        key=write.key,
        value=write.value,
        ttl_ms=write.ttl_ms,
        session=write.session,
        keep_expiry=write.keep_expiry,
    )


def native_outcome(write: Write, done: Done) -> Outcome:
    path = Path.SLOW
    if done.wrong is not None:
        held = version_of(done.value, done.version)
        return NotAnInteger(committed=held, path=path, reason=done.wrong.value)
    if write.is_delete and done.value is None:
        gone = version_of(None, done.version) if done.version else None
        return NothingToDelete(committed=gone, path=path)
    before = version_of(done.value, done.version - 1) if done.version > 1 and write.amount is None else None
    value = done.value if write.amount is not None else write.value
    expiry = Expiry(ttl_ms=write.ttl_ms, since=done.version, session=write.session) if write.expires else None
    proposal = replace(version_of(value, done.version), expiry=expiry if write.amount is None else None)
    return Committed(proposal=proposal, mine=True, path=path, previous=before)


def version_of(value: bytes | None, version: int) -> Proposal:
    return Proposal(value=value, version=version, mutable=True, proposal_id=LEGACY_PROPOSAL_ID)


def operation_of(key: bytes, proposal: Proposal) -> Operation:
    """What makes of the row, at the version that was compared, what the fold made of it."""
    if proposal.value is None:
        return Delete(key=key)
    expiry = proposal.expiry
    if expiry is None:
        return Put(key=key, value=proposal.value)
    if expiry.since != proposal.version:
        return Put(key=key, value=proposal.value, keep_expiry=True)
    return Put(key=key, value=proposal.value, ttl_ms=expiry.ttl_ms, session=expiry.session)


def as_told(outcome: Outcome) -> Outcome:
    """As of a key of transactions, whose versions have no ids."""
    if not isinstance(outcome, Committed):
        return outcome
    return replace(outcome, proposal=replace(outcome.proposal, proposal_id=LEGACY_PROPOSAL_ID), path=Path.SLOW)


def failure_of(outcome: TxnOutcome) -> Outcome:
    match outcome:
        case TxnUnknown():
            return ConsensusFailed(reason=outcome.reason)
        case TxnRefused():
            return Refused(reason=outcome.reason, no_quorum=outcome.no_quorum)
        case _:
            return Refused(reason="the value is too long for a transaction")
