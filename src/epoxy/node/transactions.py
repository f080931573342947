"""Transactions as a node's doors see them: which keys they may touch, how long they may take, what is read of them.

A key belongs to one engine. It is decided once, by the per-key engine, which is good at that: to give a key to
transactions is to reserve it, with a value that says so. Whoever comes first has it for ever.
"""

from collections.abc import Callable
from functools import partial

from epoxy.model.records import LEGACY_PROPOSAL_ID, Proposal
from epoxy.model.transactions import Executed, Txn, TxnOutcome, TxnRefused, TxnUnknown, WrongEngine, flaw_of
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    Outcome,
    Path,
    ReadAnswer,
    ReadFailed,
    ReadResult,
    Source,
    Write,
)
from epoxy.node.driver import Driver
from epoxy.node.ordered import OrderedEngine
from epoxy.node.pending import Pending

OWNED = b"\xff/ordered"
"""The value of a key that belongs to transactions. No text begins with this byte."""

REMEMBERED = 1 << 16
"""Keys known to belong to transactions: some megabytes. The others are looked up, which is cheap, too."""

LATE = TxnUnknown(reason="not decided in time; it may still take effect")


class Transactions:
    def __init__(self, engine: OrderedEngine, driver: Driver, pending: Pending[TxnOutcome]) -> None:
        self.engine = engine
        self._driver = driver
        self._pending = pending
        self._owned: set[bytes] = set()

    @property
    def refused(self) -> int:
        return self._pending.refused

    @property
    def fast_share(self) -> float | None:
        """Of the commands this node put forward and saw decided, those that took one round."""
        paths = self.engine.paths
        return paths[Path.FAST] / paths.total() if paths else None

    def run(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None:
        flaw = flaw_of(txn)
        if flaw is not None:
            answered(TxnRefused(reason=flaw))
        elif self._pending.count >= self._pending.limit:
            self._pending.refused += 1
            answered(TxnRefused(reason=f"{self._pending.limit} transactions are in flight already"))
        else:
            done = self._pending.begin(answered)
            unknown = [key for key in txn.footprint if not self._is_owned(key)]
            if unknown:
                Claim(unknown, partial(self._claimed, txn, done)).ask(self._driver)
            else:
                self.engine.txn(txn, done)

    def read(self, key: bytes, answered: Callable[[ReadAnswer], None]) -> None:
        """Not to be stale: as a transaction."""
        self.run(Txn(reads=(key,)), lambda outcome: answered(read_of(outcome)))

    def here(self, key: bytes) -> ReadResult:
        """What was executed here."""
        return ReadResult(committed=self.shown(key), source=Source.LEGACY)

    def shown(self, key: bytes) -> Proposal:
        return shown(self.engine.value(key))

    def _is_owned(self, key: bytes) -> bool:
        if key in self._owned:
            return True
        here = self._driver.replica.peek(key, use_cache=False)
        if here is None or not is_owned(here.committed):
            return False
        self._remember(key)
        return True

    def _remember(self, key: bytes) -> None:
        if len(self._owned) >= REMEMBERED:
            self._owned.clear()
        self._owned.add(key)

    def _claimed(self, txn: Txn, done: Callable[[TxnOutcome], None], claim: "Claim") -> None:
        for key in claim.won:
            self._remember(key)
        if claim.lost:
            done(WrongEngine(keys=tuple(claim.lost)))
        elif claim.failed is not None:
            done(TxnRefused(reason=f"it is not known whom a key belongs to: {claim.failed}"))
        else:
            self.engine.txn(txn, done)


class Claim:
    """Asks for several keys at a time. Done when all are answered."""

    def __init__(self, keys: list[bytes], done: Callable[["Claim"], None]) -> None:
        self.won: list[bytes] = []
        self.lost: list[bytes] = []
        self.failed: str | None = None
        self._keys = keys
        self._missing = len(keys)
        self._done = done

    def ask(self, driver: Driver) -> None:
        for key in self._keys:
            driver.write(Write(key=key, value=OWNED), partial(self._heard, key))

    def _heard(self, key: bytes, outcome: Outcome) -> None:
        self._missing -= 1
        if isinstance(outcome, Committed):
            self.won.append(key)
        elif isinstance(outcome, ConsensusFailed) or not hasattr(outcome, "committed"):
            self.failed = getattr(outcome, "reason", "no answer")
        else:
            self.lost.append(key)
        if not self._missing:
            self._done(self)


def is_owned(committed: Proposal | None) -> bool:
    return committed is not None and committed.value == OWNED and not committed.mutable


def shown(value: bytes | None) -> Proposal:
    """A value of the ordered engine, as the per-key engine's doors show values: it has no version."""
    return Proposal(value=value, version=0, mutable=True, proposal_id=LEGACY_PROPOSAL_ID)


def read_of(outcome: TxnOutcome) -> ReadAnswer:
    if isinstance(outcome, Executed):
        return ReadResult(committed=shown(outcome.found[0]), source=Source.QUORUM)
    reason = outcome.reason if isinstance(outcome, TxnRefused | TxnUnknown) else "the key is not one of transactions"
    return ReadFailed(reason=reason)
