"""Transactions at the door of a node: the engines of their keys, and their time limits."""

from collections.abc import Callable

import pytest

from epoxy.model.errors import RottenRow, StoreUnavailable
from epoxy.model.marks import OWNED, is_owned, mark_of
from epoxy.model.records import Expiry, Proposal
from epoxy.model.transactions import (
    MAX_MOVED_BYTES,
    NO_ROW,
    Executed,
    Import,
    OrderedValue,
    Put,
    Txn,
    TxnOutcome,
    TxnRefused,
    TxnUnknown,
    WrongEngine,
)
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    ExpectedValueDoesNotMatch,
    Outcome,
    Path,
    ReadFailed,
    ReadResult,
    Source,
    Write,
)
from epoxy.node.txn.transactions import (
    LATE,
    NOT_BEGUN,
    UNCLAIMED,
    Transactions,
    is_of_transactions,
    read_of,
    shown,
)
from epoxy.protocol.txn.queue import QueuedTransaction
from epoxy.runtime.admission import Admission
from tests.node.bench import HandClock
from tests.protocol.keys.harness import prop

TIMEOUT_MS = 1000.0
DONE = Executed(succeeded=True, reads=(OrderedValue(value=b"7", version=3),))
MARK = prop(OWNED)


class FakeEngine:
    refusal: str | None = None

    def __init__(self) -> None:
        self.taken: list[tuple[Txn, Callable[[TxnOutcome], None]]] = []
        self.withdrawable = True
        self.rows: dict[bytes, OrderedValue] = {}

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> QueuedTransaction:
        self.taken.append((txn, answered))
        return QueuedTransaction(txn, answered)

    def held(self, key: bytes) -> OrderedValue:
        return self.rows.get(key, NO_ROW)

    def withdraw(self, _: QueuedTransaction) -> bool:
        return self.withdrawable


class FakeDriver:
    """The per-key engine: what a quorum holds, and what this replica holds."""

    def __init__(self) -> None:
        self.replica = self
        self.clock = HandClock()
        self.here: dict[bytes, Proposal] = {}
        self.truth: dict[bytes, Proposal] = {}
        self.claimed: list[bytes] = []
        self.silent = False
        self.fails = False
        self.unread: Exception | None = None
        self.too_long: set[bytes] = set()

    def peek(self, key: bytes, *, use_cache: bool) -> ReadResult | None:
        assert not use_cache
        if self.unread is not None:
            raise self.unread
        found = self.here.get(key)
        return ReadResult(committed=found, source=Source.LOCAL) if found is not None else None

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None:
        assert write.value == OWNED
        self.claimed.append(write.key)
        if self.fails:
            answered(ConsensusFailed(reason="no quorum"))
        elif write.key in self.too_long:
            answered(ExpectedValueDoesNotMatch(committed=prop(b"long", mutable=True), path=Path.SLOW))
        elif not self.silent:
            held = self.truth.setdefault(write.key, MARK)
            answered(Committed(proposal=held, mine=held is MARK, path=Path.FAST, previous=None))


class Door:
    def __init__(self, most: int = 10) -> None:
        self.clock, self.engine, self.driver = HandClock(), FakeEngine(), FakeDriver()
        self.pending: Admission[TxnOutcome] = Admission(self.clock, most, TIMEOUT_MS, LATE)
        self.transactions = Transactions(self.engine, self.driver, self.pending)  # type: ignore[arg-type]
        self.told: list[TxnOutcome] = []

    def run(self, *keys: bytes) -> None:
        self.transactions.run(Txn(then=tuple(Put(key=key, value=b"v") for key in keys)), self.told.append)


def test_one_key_is_claimed_at_once_and_known_from_then_on() -> None:
    door = Door()
    door.run(b"k")
    door.run(b"k")
    assert door.driver.claimed == [b"k"]
    assert len(door.engine.taken) == 2
    for _, answered in door.engine.taken:
        answered(DONE)
    assert door.told == [DONE, DONE]


def test_a_key_that_is_marked_here_is_not_claimed() -> None:
    door = Door()
    door.driver.here[b"k"] = MARK
    door.run(b"k")
    assert (door.driver.claimed, len(door.engine.taken)) == ([], 1)


def test_several_keys_are_claimed_at_once() -> None:
    door = Door()
    door.driver.truth[b"b"] = MARK
    door.run(b"a", b"b", b"c")
    assert sorted(door.driver.claimed) == [b"a", b"b", b"c"]
    assert door.engine.taken[0][0].imports == ()


def test_what_a_key_held_is_imported_until_there_is_a_row() -> None:
    door = Door()
    held = OrderedValue(value=b"v", version=4, expiry=Expiry(ttl_ms=9, since=3))
    door.driver.truth[b"k"] = prop(mark_of(shown(held)))
    door.run(b"k")
    door.run(b"k")
    assert [txn.imports for txn, _ in door.engine.taken] == [(Import(key=b"k", held=held),)] * 2
    door.engine.rows[b"k"] = OrderedValue(value=None, version=5)
    door.run(b"k")
    assert door.engine.taken[2][0].imports == (), "a deletion leaves a row"


def test_a_reserved_name_is_imported_as_it_is_for_ever() -> None:
    door = Door()
    door.driver.here[b"k"] = prop(b"ada", version=2)
    door.run(b"k")
    assert door.driver.claimed == []
    assert door.engine.taken[0][0].imports == (
        Import(key=b"k", held=OrderedValue(value=b"ada", version=2, immutable=True)),
    )


def test_what_does_not_fit_is_imported_first() -> None:
    door = Door()
    keys = [b"%d" % i for i in range(5)]
    for key in keys:
        door.driver.here[key] = prop(mark_of(shown(OrderedValue(value=bytes(60_000), version=1))))
    door.run(*keys)
    names = []
    while not door.told:
        txn, answered = door.engine.taken.pop()
        names.append([each.key for each in txn.imports])
        answered(DONE)
    assert names == [[b"0", b"1"], [b"2", b"3"], [b"4"]]


def test_values_that_are_too_long_are_named() -> None:
    door = Door()
    door.driver.here[b"name"] = prop(bytes(MAX_MOVED_BYTES + 1))
    door.run(b"name")
    assert door.told == [WrongEngine(keys=(b"name",))]
    door.driver.too_long.add(b"k")
    door.run(b"k")
    assert door.told[1] == WrongEngine(keys=(b"k",))
    assert door.engine.taken == []


@pytest.mark.parametrize("keys", [(b"k",), (b"a", b"b")])
def test_without_a_quorum_nothing_is_begun(keys: tuple[bytes, ...]) -> None:
    door = Door()
    door.driver.fails = True
    door.run(*keys)
    (outcome,) = door.told
    assert isinstance(outcome, TxnRefused)
    assert outcome.reason.startswith(UNCLAIMED)
    assert door.pending.count == 0


def test_one_whose_engines_are_not_known_in_time_is_refused_for_certain() -> None:
    door = Door()
    door.driver.silent = True
    door.run(b"k")
    door.clock.advance(TIMEOUT_MS)
    (outcome,) = door.told
    assert isinstance(outcome, TxnRefused)
    assert door.engine.taken == []


@pytest.mark.parametrize("unread", [RottenRow(b"row"), StoreUnavailable("the database is away")])
def test_one_whose_rows_cannot_be_read_here_has_one_outcome_and_leaves_nothing(unread: Exception) -> None:
    door = Door()
    door.driver.unread, door.driver.fails = unread, True
    door.run(b"k")
    door.clock.advance(TIMEOUT_MS)
    assert ([type(outcome) for outcome in door.told], door.pending.count) == ([TxnRefused], 0)
    door.driver.fails = False
    door.run(b"k")
    assert (door.driver.claimed, len(door.engine.taken)) == ([b"k", b"k"], 1)


@pytest.mark.parametrize(("withdrawable", "expected"), [(True, NOT_BEGUN), (False, LATE)])
def test_one_that_is_late_is_withdrawn_if_it_still_can_be(withdrawable: bool, expected: TxnOutcome) -> None:
    door = Door()
    door.driver.here[b"k"] = MARK
    door.engine.withdrawable = withdrawable
    door.run(b"k")
    door.clock.advance(TIMEOUT_MS)
    assert door.told == [expected]
    assert door.pending.count == (0 if withdrawable else 1)


def test_too_many_are_refused_and_counted() -> None:
    door = Door(most=1)
    door.driver.here[b"k"] = MARK
    door.run(b"k")
    door.run(b"k")
    assert [type(outcome) for outcome in door.told] == [TxnRefused]
    assert door.transactions.refused == 1


def test_values_of_transactions_are_told_from_others() -> None:
    assert is_of_transactions(shown(OrderedValue(value=b"v", version=3)))
    assert not is_of_transactions(prop(b"v", mutable=True))
    assert is_owned(MARK)
    assert not is_owned(prop(OWNED, mutable=True)), "a value that a client wrote"
    assert not is_owned(None)


def test_a_read_is_what_the_transaction_found() -> None:
    found = read_of(DONE)
    assert isinstance(found, ReadResult)
    assert (found.value, found.source) == (b"7", Source.QUORUM)
    assert read_of(TxnUnknown(reason="late")) == ReadFailed(reason="late")
    assert isinstance(read_of(WrongEngine(keys=(b"k",))), ReadFailed)
