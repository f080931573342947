"""Transactions as a node's APIs see them: their keys, how long they may take, and reads of their keys.

A key that is named in a transaction belongs to transactions from then on. The per-key engine decides that: it gives the
key a mark, with what the key held (`model/marks.py`), and never writes it again. A coordinator whose replica has no row
of such a key yet adds to its transaction what the mark holds. So do all, until one of them was executed, and then there
is a row. A reserved name keeps its place in the per-key engine: transactions get a copy of it, which they cannot write.
"""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from epoxy.model.errors import RottenRow, StoreUnavailable
from epoxy.model.marks import OWNED, handed_over, is_owned
from epoxy.model.records import LEGACY_PROPOSAL_ID, Proposal
from epoxy.model.transactions import (
    MAX_MOVED_BYTES,
    MAX_PARTS,
    MAX_TRANSACTION_BYTES,
    NO_ROW,
    Executed,
    Expire,
    Import,
    OrderedValue,
    Txn,
    TxnOutcome,
    TxnRefused,
    TxnUnknown,
    WrongEngine,
    flaw_of,
)
from epoxy.model.writes import (
    Committed,
    ExpectedValueDoesNotMatch,
    Outcome,
    Path,
    ReadAnswer,
    ReadFailed,
    ReadResult,
    Source,
    Write,
)
from epoxy.node.keys.driver import Driver
from epoxy.node.txn.engine import OrderedEngine
from epoxy.node.txn.watch import TransactionWatch, WatchedTransaction
from epoxy.protocol.txn.queue import QueuedTransaction
from epoxy.runtime.admission import Admission, Caller

REMEMBERED = 1 << 16
"""Keys that need nothing before a transaction names them: some megabytes. The others are looked up, which is cheap
too."""

UNCLAIMED = "it is not known whether its keys belong to transactions"

NOT_BEGUN = TxnRefused(reason="it was not proposed in time, because of earlier transactions; nothing was done")

LATE = TxnUnknown(reason="not decided in time; it may still take effect")


class Transactions:
    def __init__(self, engine: OrderedEngine, driver: Driver, admission: Admission[TxnOutcome]) -> None:
        self.engine = engine
        self._driver = driver
        self._admission = admission
        self._ready: set[bytes] = set()
        """Keys of transactions that have a row here, or never held anything else."""
        self.watch = TransactionWatch(driver.clock)
        self.over: Callable[[bytes], int] = lambda _: 0
        """The version of a key whose time to live is over by this replica's count; 0: there is none."""

    @property
    def refused(self) -> int:
        return self._admission.refused

    @property
    def fast_share(self) -> float | None:
        """The share of commands decided in one round, among those this node proposed."""
        paths = self.engine.paths
        return paths[Path.FAST] / paths.total() if paths else None

    def refuse(self, txn: Txn, answered: Callable[[TxnOutcome], None], refusal: TxnRefused) -> None:
        """Of a node that executes none now."""
        if self.watch.on:
            _, answered = self.watch.follow(txn, answered)
        answered(refusal)

    def run(self, txn: Txn, answered: Callable[[TxnOutcome], None], caller: Caller | None = None) -> None:
        watched = None
        if self.watch.on:
            watched, answered = self.watch.follow(txn, answered)
        flaw = flaw_of(txn)
        if flaw is not None:
            answered(TxnRefused(reason=flaw))
        elif self._admission.count >= self._admission.limit:
            self._admission.refused += 1
            answered(TxnRefused(reason=f"{self._admission.limit} transactions are in flight already"))
        else:
            entry = Entry(self.engine, txn, answered, watched)
            entry.done = self._admission.begin(entry.tell, caller)
            unclaimed = [key for key in txn.footprint if not self._is_claimed(key, entry)]
            if unclaimed and self.engine.refusal is None:
                Claims(unclaimed, partial(self._claimed, entry)).write(self._driver)
            else:
                self._put_forward(entry)

    def read(self, key: bytes, answered: Callable[[ReadAnswer], None]) -> None:
        """Linearizable: as a transaction."""
        self.run(Txn(reads=(key,)), lambda outcome: answered(read_of(outcome)))

    def here(self, key: bytes, mark: Proposal) -> ReadResult:
        """Local: what was executed here."""
        return ReadResult(committed=self.shown(key, mark), source=Source.LOCAL)

    def shown(self, key: bytes, mark: Proposal) -> Proposal:
        return shown(self.held(key, mark))

    def held(self, key: bytes, mark: Proposal) -> OrderedValue:
        """Without a row, no transaction with the key was executed here, and it holds what it was handed over with."""
        return held_since(self.engine.held(key), mark)

    # Before it is put forward

    def _is_claimed(self, key: bytes, entry: "Entry") -> bool:
        """Whether it is known here that the key belongs to transactions, or that it is reserved. A row that cannot be
        read says nothing: the key is claimed, which has an outcome in any case."""
        if key in self._ready:
            return True
        try:
            here = self._driver.replica.peek(key, use_cache=False)
        except (RottenRow, StoreUnavailable):
            return False
        if here is None or here.committed is None or here.committed.mutable:
            return False
        self._import(key, here.committed, entry)
        return True

    def _import(self, key: bytes, final: Proposal, entry: "Entry") -> None:
        """`final`: what the per-key engine has decided for ever."""
        held = imported(final)
        if held == NO_ROW or self.engine.held(key) != NO_ROW:
            self._remember(key)
        else:
            entry.imports.append(Import(key=key, held=held))

    def _remember(self, key: bytes) -> None:
        if len(self._ready) >= REMEMBERED:
            self._ready.clear()
        self._ready.add(key)

    def _claimed(self, entry: "Entry", claims: "Claims") -> None:
        for key, final in claims.final.items():
            self._import(key, final, entry)
        if claims.too_long:
            entry.done(WrongEngine(keys=tuple(claims.too_long)))
        elif claims.failed is not None:
            entry.done(TxnRefused(reason=f"{UNCLAIMED}: {claims.failed}"))
        else:
            self._put_forward(entry)

    def _put_forward(self, entry: "Entry") -> None:
        """With what is to be imported. What does not fit goes first, in transactions of its own: an import changes
        nothing that a client could see. So does the end of what is over."""
        too_long = [each.key for each in entry.imports if len(each.held.value or b"") > MAX_MOVED_BYTES]
        whole = replace(entry.txn, imports=tuple(entry.imports)) if entry.imports else entry.txn
        if too_long:
            entry.done(WrongEngine(keys=tuple(too_long)))
        elif entry.is_late:
            entry.done(TxnRefused(reason=f"{UNCLAIMED}: no answer in time"))
        elif ends := self._ends(entry):
            self.engine.txn(Txn(then=ends), partial(self._imported, entry))
        elif flaw_of(whole) is None:
            entry.begun = True
            entry.ticket = self.engine.txn(whole, entry.done)
            if entry.watched is not None and entry.ticket is not None:
                entry.ticket.decided = entry.watched.decided
        else:
            first = fitting(entry.imports)
            del entry.imports[: len(first)]
            self.engine.txn(Txn(imports=tuple(first)), partial(self._imported, entry))

    def _ends(self, entry: "Entry") -> tuple[Expire, ...]:
        """What is over is ended before a transaction looks at it: that is a decision of its own."""
        if entry.has_ended:
            return ()
        entry.has_ended = True
        over = [(key, self.over(key)) for key in entry.txn.footprint]
        return tuple([Expire(key=key, version=version) for key, version in over if version])

    def _imported(self, entry: "Entry", outcome: TxnOutcome) -> None:
        if isinstance(outcome, Executed):
            self._put_forward(entry)
        else:
            reason = outcome.reason if isinstance(outcome, TxnRefused | TxnUnknown) else ""
            entry.done(TxnRefused(reason=f"its keys could not be handed over to transactions: {reason}"))


class Entry:
    """A transaction on its way to the engine, and in its queue. If its time is over before it was proposed, it never
    is, so its client gets a definite answer."""

    def __init__(
        self,
        engine: OrderedEngine,
        txn: Txn,
        answered: Callable[[TxnOutcome], None],
        watched: WatchedTransaction | None = None,
    ) -> None:
        self.txn = txn
        self.watched = watched
        self.imports: list[Import] = []
        self.begun = self.is_late = self.has_ended = False
        self.done: Callable[[TxnOutcome], None] = answered
        self.ticket: QueuedTransaction | None = None
        self._engine = engine
        self._answered = answered

    def tell(self, outcome: TxnOutcome) -> None:
        if outcome is LATE and not self.begun:
            self.is_late = True
            outcome = TxnRefused(reason=f"{UNCLAIMED}: no answer in time")
        elif outcome is LATE and self.ticket is not None and self._engine.withdraw(self.ticket):
            outcome = NOT_BEGUN
            self.done(outcome)
        self._answered(outcome)


class Claims:
    """Several keys are given to transactions at the same time. Done when all answers have come."""

    def __init__(self, keys: list[bytes], done: Callable[["Claims"], None]) -> None:
        self.final: dict[bytes, Proposal] = {}
        """By key, its mark, or the name that it is reserved for."""
        self.too_long: list[bytes] = []
        self.failed: str | None = None
        self._keys = keys
        self._missing = len(keys)
        self._done = done

    def write(self, driver: Driver) -> None:
        for key in self._keys:
            driver.write(Write(key=key, value=OWNED), partial(self._answered, key))

    def _answered(self, key: bytes, outcome: Outcome) -> None:
        self._missing -= 1
        match outcome:
            case Committed():
                self.final[key] = outcome.proposal
            case ExpectedValueDoesNotMatch() if not outcome.committed.mutable:
                self.final[key] = outcome.committed
            case ExpectedValueDoesNotMatch():
                self.too_long.append(key)
            case _:
                self.failed = getattr(outcome, "reason", type(outcome).__name__)
        if not self._missing:
            self._done(self)


def fitting(imports: list[Import]) -> list[Import]:
    """As many of the first as one transaction takes; one at least."""
    count = size = 0
    for each in imports:
        size += each.size
        if count == MAX_PARTS or (count and size > MAX_TRANSACTION_BYTES):
            break
        count += 1
    return imports[:count]


def imported(final: Proposal) -> OrderedValue:
    """What transactions begin with: what the key was handed over with, or the reserved name, which they cannot write.
    The latter counts as version 1 at least."""
    if is_owned(final):
        return handed_over(final.value or b"")
    return OrderedValue(value=final.value, version=max(1, final.version), immutable=True)


def held_since(row: OrderedValue, mark: Proposal) -> OrderedValue:
    """Since a key was handed over with this mark: what its row says, if it has one."""
    return row if row != NO_ROW else handed_over(mark.value or b"")


def shown(held: OrderedValue) -> Proposal:
    """In the form of the per-key engine."""
    return Proposal(
        value=held.value,
        version=held.at,
        mutable=not held.immutable,
        proposal_id=LEGACY_PROPOSAL_ID,
        expiry=held.expiry,
    )


def is_of_transactions(committed: Proposal) -> bool:
    """Whether `shown` made it: a write of the per-key engine has an id, unless it is as old as the first layout, which
    had no mutable keys."""
    return committed.mutable and committed.proposal_id == LEGACY_PROPOSAL_ID


def read_of(outcome: TxnOutcome) -> ReadAnswer:
    if isinstance(outcome, Executed):
        return ReadResult(committed=shown(outcome.reads[0]), source=Source.QUORUM)
    reason = outcome.reason if isinstance(outcome, TxnRefused | TxnUnknown) else "its value is too long"
    return ReadFailed(reason=reason)
