"""A node with one register for each key, for fuzzers: what it does about a write or read is what a cluster would do."""

from collections.abc import Callable
from random import Random

from epoxy.model.records import Proposal, ProposalId
from epoxy.model.strings import Register, Steps
from epoxy.model.transactions import Txn, TxnOutcome, TxnRefused
from epoxy.model.writes import Committed, Consistency, Outcome, Path, ReadAnswer, ReadResult, Source, Unchanged, Write
from epoxy.protocol.keys.operations import Answered
from epoxy.protocol.keys.preconditions import check_preconditions, result_of
from epoxy.protocol.strings.evaluation import evaluate
from epoxy.runtime.admission import Caller
from epoxy.scripting.scripts import LuaScripts


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
        self.scripts = LuaScripts()

    def renew(self) -> None:
        self.held = dict(HELD)
        self.touched = 0

    def release(self, dice: Random) -> None:
        while self.late:
            self.late.pop(dice.randrange(len(self.late)))()

    def write(self, write: Write, answered: Callable[[Outcome], None], caller: Caller | None = None) -> None:  # noqa: ARG002
        self._soon(lambda: answered(self._outcome(write)))

    def read(
        self,
        key: bytes,
        consistency: Consistency,
        answered: Callable[[ReadAnswer], None],
        caller: Caller | None = None,  # noqa: ARG002
    ) -> None:
        del consistency
        self._soon(lambda: answered(ReadResult(committed=self.held.get(key), source=Source.QUORUM)))

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None], caller: Caller | None = None) -> None:  # noqa: ARG002
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
        verdict = check_preconditions(write, before, confirmed=True)
        if isinstance(verdict, Answered):
            return verdict.outcome
        version = before.version + 1 if before is not None else 1
        if write.steps is not None:
            return self._evaluated(write.key, write.steps, before, version)
        after = self.held[write.key] = held(result_of(write, before), version, mutable=write.mutable)
        self.overwritten(write.key)
        return Committed(proposal=after, mine=True, path=Path.FAST, previous=before)

    def _evaluated(self, key: bytes, steps: Steps, before: Proposal | None, version: int) -> Outcome:
        done = evaluate(
            steps,
            Register(value=before.value if before is not None else None, version=version - 1),
            self.scripts.run,
        )
        if not done.changed:
            return Unchanged(committed=before, path=Path.SLOW, replies=done.replies)
        after = self.held[key] = held(done.value, version)
        self.overwritten(key)
        return Committed(proposal=after, mine=True, path=Path.FAST, previous=before, replies=done.replies)
