"""A node with one register for each key, for fuzzers: what it does about a write or read is what a cluster would do."""

from collections.abc import Callable
from random import Random

from epoxy.model.records import Proposal, ProposalId
from epoxy.model.transactions import Txn, TxnOutcome, TxnRefused
from epoxy.model.writes import (
    Committed,
    Consistency,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    Outcome,
    Path,
    ReadAnswer,
    ReadResult,
    Source,
    VersionMismatch,
    Write,
)
from epoxy.protocol.keys.preconditions import not_addable, result_of


def held(value: bytes | None, version: int = 1, *, mutable: bool = True) -> Proposal:
    return Proposal(value=value, version=version, mutable=mutable, proposal_id=ProposalId(1, 1))


HELD = {b"k": held(b"5"), b"kept": held(b"x", mutable=False), b"gone": held(None), b"long": held(b"v" * 300)}


class Registers:
    """Answers at once, or, if it `is_late`, when `release` is called, in any order."""

    def __init__(self) -> None:
        self.held: dict[bytes, Proposal] = dict(HELD)
        self.touched = 0
        """Operations that reached the node."""
        self.late: list[Callable[[], None]] = []
        self.is_late = False

    def renew(self) -> None:
        self.held = dict(HELD)
        self.touched = 0

    def release(self, dice: Random) -> None:
        while self.late:
            self.late.pop(dice.randrange(len(self.late)))()

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None:
        self._soon(lambda: answered(self._outcome(write)))

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:
        del consistency
        self._soon(lambda: answered(ReadResult(committed=self.held.get(key), source=Source.QUORUM)))

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None:
        del txn
        self._soon(lambda: answered(TxnRefused(reason="this node orders none")))

    def overwritten(self, key: bytes) -> None: ...

    def peek(self, key: bytes) -> ReadResult | None:
        self.touched += 1
        here = self.held.get(key)
        return ReadResult(committed=here, source=Source.LOCAL) if here is not None else None

    def page(self, prefix: bytes, after: bytes | None, limit: int) -> list[tuple[bytes, Proposal]]:
        self.touched += 1
        keys = sorted(key for key in self.held if key.startswith(prefix) and (after is None or key > after))
        return [(key, self.held[key]) for key in keys[:limit]]

    def _soon(self, answer: Callable[[], None]) -> None:
        self.touched += 1
        if self.is_late:
            self.late.append(answer)
        else:
            answer()

    def _outcome(self, write: Write) -> Outcome:
        before = self.held.get(write.key)
        if before is not None and not (before.mutable and write.mutable):
            refusal = ImmutableKey if write.mutable else ExpectedValueDoesNotMatch
            return refusal(committed=before, path=Path.LOCAL)
        if write.if_version is not None and write.if_version != (before.version if before is not None else 0):
            return VersionMismatch(committed=before, path=Path.LOCAL)
        if write.is_delete and (before is None or before.is_tombstone):
            return NothingToDelete(committed=before, path=Path.SLOW)
        if write.amount is not None and (reason := not_addable(write.amount, before)) is not None:
            assert before is not None
            return NotAnInteger(committed=before, path=Path.SLOW, reason=reason)
        version = before.version + 1 if before is not None else 1
        after = self.held[write.key] = held(result_of(write, before), version, mutable=write.mutable)
        self.overwritten(write.key)
        return Committed(proposal=after, mine=True, path=Path.FAST, previous=before)
