"""Transactions as a node's APIs see them: which keys they may touch, how long they may take, and reads of their keys.

A key belongs to one engine, for ever. The per-key engine decides which: the first transaction of a key reserves it
there, with a value that gives it to transactions, unless a write came first."""

from collections.abc import Callable
from functools import partial

from epoxy.model.errors import RottenRow
from epoxy.model.records import LEGACY_PROPOSAL_ID, Proposal
from epoxy.model.transactions import Executed, Txn, TxnOutcome, TxnRefused, TxnUnknown, WrongEngine, flaw_of
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    Consistency,
    Outcome,
    Path,
    ReadAnswer,
    ReadFailed,
    ReadOutcome,
    ReadResult,
    Refused,
    Source,
    Write,
)
from epoxy.node.keys.driver import Driver
from epoxy.node.txn.engine import OrderedEngine
from epoxy.protocol.txn.queue import QueuedTransaction
from epoxy.runtime.admission import Admission

OWNED = b"\xff/ordered"
"""The value of a key that belongs to transactions. No text begins with this byte."""

REMEMBERED = 1 << 16
"""Keys known to belong to transactions: some megabytes. The others are looked up, which is cheap too."""

ENGINES_UNKNOWN = "it is not known which engine a key belongs to"
MAY_BE_CLAIMED = "Keys it names may belong to transactions from now on"

NOT_BEGUN = TxnRefused(reason="it was not proposed in time, because of earlier transactions; nothing was done")

LATE = TxnUnknown(reason="not decided in time; it may still take effect")


class Transactions:
    def __init__(self, engine: OrderedEngine, driver: Driver, admission: Admission[TxnOutcome]) -> None:
        self.engine = engine
        self._driver = driver
        self._admission = admission
        self._owned: set[bytes] = set()

    @property
    def refused(self) -> int:
        return self._admission.refused

    @property
    def fast_share(self) -> float | None:
        """The share of commands decided in one round, among those this node proposed."""
        paths = self.engine.paths
        return paths[Path.FAST] / paths.total() if paths else None

    def run(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None:
        flaw = flaw_of(txn)
        if flaw is not None:
            answered(TxnRefused(reason=flaw))
        elif self._admission.count >= self._admission.limit:
            self._admission.refused += 1
            answered(TxnRefused(reason=f"{self._admission.limit} transactions are in flight already"))
        else:
            entry = Entry(self.engine, txn, answered)
            entry.done = self._admission.begin(entry.tell)
            unknown = [key for key in txn.footprint if not self._is_owned(key)]
            if not unknown or self.engine.refusal is not None:
                self._put_forward(entry)
            elif len(unknown) == 1:
                # If that fails, nothing was done.
                self._claim(unknown, entry)
            else:
                # A claim is for ever, and a transaction that is refused for another key should leave none behind.
                KeyEngines(unknown, partial(self._settled, entry)).read(self._driver)

    def read(self, key: bytes, answered: Callable[[ReadAnswer], None]) -> None:
        """Linearizable: as a transaction."""
        self.run(Txn(reads=(key,)), lambda outcome: answered(read_of(outcome)))

    def here(self, key: bytes) -> ReadResult:
        """Local: what was executed here."""
        return ReadResult(committed=self.shown(key), source=Source.LOCAL)

    def shown(self, key: bytes) -> Proposal:
        return shown(self.engine.value(key))

    def _is_owned(self, key: bytes) -> bool:
        if key in self._owned:
            return True
        try:
            here = self._driver.replica.peek(key, use_cache=False)
        except RottenRow:
            return False
        if here is None or not is_owned(here.committed):
            return False
        self._remember(key)
        return True

    def _remember(self, key: bytes) -> None:
        if len(self._owned) >= REMEMBERED:
            self._owned.clear()
        self._owned.add(key)

    # The engines of its keys

    def _claim(self, keys: list[bytes], entry: "Entry") -> None:
        entry.claims = True
        KeyEngines(keys, partial(self._settled, entry)).claim(self._driver)

    def _settled(self, entry: "Entry", engines: "KeyEngines") -> None:
        for key in engines.owned:
            self._remember(key)
        if engines.elsewhere:
            claimed = tuple(engines.owned) if entry.claims else ()
            entry.done(WrongEngine(keys=tuple(engines.elsewhere), claimed=claimed))
        elif engines.failed is not None or entry.is_late:
            entry.done(TxnRefused(reason=f"{ENGINES_UNKNOWN}: {engines.failed}"))
        elif engines.free:
            self._claim(engines.free, entry)
        else:
            self._put_forward(entry)

    def _put_forward(self, entry: "Entry") -> None:
        entry.begun = True
        entry.ticket = self.engine.txn(entry.txn, entry.done)


class Entry:
    """A transaction on its way to the engine, and in its queue. If its time is over before it was proposed, it never
    is, so its client gets a definite answer."""

    def __init__(self, engine: OrderedEngine, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None:
        self.txn = txn
        self.claims = self.begun = self.is_late = False
        self.done: Callable[[TxnOutcome], None] = answered
        self.ticket: QueuedTransaction | None = None
        self._engine = engine
        self._answered = answered

    def tell(self, outcome: TxnOutcome) -> None:
        if outcome is LATE and not self.begun:
            self.is_late = True
            outcome = TxnRefused(reason=f"{ENGINES_UNKNOWN}: no answer in time")
        elif outcome is LATE and self.ticket is not None and self._engine.withdraw(self.ticket):
            outcome = NOT_BEGUN
            self.done(outcome)
        if self.claims and isinstance(outcome, TxnRefused):
            outcome = TxnRefused(reason=f"{outcome.reason}. {MAY_BE_CLAIMED}")
        self._answered(outcome)


class KeyEngines:
    """The engines of several keys, read or claimed at the same time. Done when all answers have come."""

    def __init__(self, keys: list[bytes], done: Callable[["KeyEngines"], None]) -> None:
        self.free: list[bytes] = []
        self.owned: list[bytes] = []
        self.elsewhere: list[bytes] = []
        self.failed: str | None = None
        self._keys = keys
        self._missing = len(keys)
        self._done = done

    def read(self, driver: Driver) -> None:
        for key in self._keys:
            driver.read(key, Consistency.LINEARIZABLE, partial(self._answered, key))

    def claim(self, driver: Driver) -> None:
        for key in self._keys:
            driver.write(Write(key=key, value=OWNED), partial(self._answered, key))

    def _answered(self, key: bytes, outcome: ReadOutcome | Outcome) -> None:
        self._missing -= 1
        if isinstance(outcome, ReadFailed | ConsensusFailed | Refused):
            self.failed = outcome.reason
        else:
            self._list_for(outcome).append(key)
        if not self._missing:
            self._done(self)

    def _list_for(self, outcome: ReadResult | Outcome) -> list[bytes]:
        match outcome:
            case ReadResult() if outcome.value is None:
                return self.free
            case ReadResult():
                return self.owned if is_owned(outcome.committed) else self.elsewhere
            case Committed() if is_owned(outcome.proposal):
                return self.owned
            case _:
                return self.elsewhere


def is_owned(committed: Proposal | None) -> bool:
    return committed is not None and committed.value == OWNED and not committed.mutable


def shown(value: bytes | None) -> Proposal:
    """A value of the ordered engine in the form of the per-key engine: it has no version."""
    return Proposal(value=value, version=0, mutable=True, proposal_id=LEGACY_PROPOSAL_ID)


def is_of_transactions(committed: Proposal) -> bool:
    """Whether `shown` made it: no version of a mutable key is numbered 0."""
    return committed.mutable and committed.version == 0


def read_of(outcome: TxnOutcome) -> ReadAnswer:
    if isinstance(outcome, Executed):
        return ReadResult(committed=shown(outcome.found[0]), source=Source.QUORUM)
    reason = outcome.reason if isinstance(outcome, TxnRefused | TxnUnknown) else "the key is not one for transactions"
    return ReadFailed(reason=reason)
