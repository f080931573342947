"""Single writes of keys that belong to transactions have the outcomes of the per-key engine."""

from collections.abc import Callable

import pytest

from epoxy.model.marks import OWNED
from epoxy.model.records import ProposalId
from epoxy.model.strings import Evaluated, Register, Steps
from epoxy.model.transactions import NO_ROW, OrderedValue, Txn, TxnOutcome, TxnRefused, TxnUnknown
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    ExpectedValueDoesNotMatch,
    NotAnInteger,
    NothingToDelete,
    Outcome,
    Refused,
    Unchanged,
    VersionMismatch,
    Write,
)
from epoxy.node.txn.owned_writes import MOST_TRIES, TOO_MANY, OwnedWrites, failure_of
from epoxy.protocol.keys.evaluation import Evaluation
from epoxy.protocol.keys.operations import PendingWrite
from epoxy.protocol.txn.execution import ExecutionState, execute
from tests.protocol.keys.harness import prop

KEY, MARK = b"k", prop(OWNED)


class FakeTransactions:
    """Executes at once. `stale`: what this replica holds, if it is behind. `meddle`: a write between."""

    def __init__(self, held: OrderedValue) -> None:
        self.state = ExecutionState(lambda _: NO_ROW)
        self.state.replace(KEY, held)
        self.stale: OrderedValue | None = None
        self.meddle: Callable[[], None] = lambda: None
        self.fails: TxnOutcome | None = None
        self.txns: list[Txn] = []

    def held(self, key: bytes, _mark: object) -> OrderedValue:
        return self.stale if self.stale is not None else self.state.get(key)

    def run(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None:
        self.txns.append(txn)
        self.meddle()
        answered(self.fails if self.fails is not None else execute(txn, self.state))


def set_append(steps: Steps, register: Register) -> Evaluated:
    """APPEND of the last argument; nothing for GET."""
    command = steps.commands[0]
    if command[0] == b"GET":
        return Evaluated(value=register.value, replies=(register.value,))
    value = (register.value or b"") + command[-1]
    return Evaluated(value=value, replies=(len(value),), changed=True)


def pending(write: Write) -> PendingWrite:
    evaluation = None
    if write.steps is not None:
        evaluate = lambda steps, held: set_append(steps, Register(value=held.value if held is not None else None))  # noqa: E731
        evaluation = Evaluation(write.steps, evaluate)
    return PendingWrite(write=write, proposal_id=ProposalId(1, 7), evaluation=evaluation)


class Bench:
    def __init__(self, value: bytes | None = b"5", version: int = 3) -> None:
        held = NO_ROW if version == 0 else OrderedValue(value=value, version=version)
        self.transactions = FakeTransactions(held)
        self.writes = OwnedWrites(self.transactions, 1, pending)  # type: ignore[arg-type]

    def write(self, **fields: object) -> Outcome:
        told: list[Outcome] = []
        given = {"key": KEY, "value": None, "mutable": True} | fields
        self.writes.run(Write(**given), MARK, told.append)  # type: ignore[arg-type]
        (outcome,) = told
        return outcome

    @property
    def held(self) -> OrderedValue:
        return self.transactions.state.get(KEY)


def committed(outcome: Outcome) -> Committed:
    assert isinstance(outcome, Committed), outcome
    assert outcome.mine
    return outcome


def test_a_put_is_one_operation_and_tells_what_it_replaced() -> None:
    bench = Bench()
    told = committed(bench.write(value=b"v", ttl_ms=50))
    assert (told.proposal.value, told.proposal.version) == (b"v", 4)
    assert told.proposal.expiry == bench.held.expiry
    assert told.previous is not None
    assert (told.previous.value, told.previous.version) == (b"5", 3)
    assert bench.transactions.txns[0].compares == ()


def test_deletions() -> None:
    bench = Bench()
    assert committed(bench.write()).proposal.is_tombstone
    nothing = bench.write()
    assert isinstance(nothing, NothingToDelete)
    assert nothing.committed is not None
    assert nothing.committed.version == 4
    assert bench.write() == nothing
    never = Bench(version=0).write()
    assert isinstance(never, NothingToDelete)
    assert never.committed is None


def test_additions() -> None:
    bench = Bench()
    assert committed(bench.write(amount=-7)).proposal.value == b"-2"
    refused = Bench(b"x").write(amount=1)
    assert isinstance(refused, NotAnInteger)
    assert refused.committed.value == b"x"
    assert committed(Bench(version=0).write(amount=2, ttl_ms=9)).proposal.version == 1


def test_the_least_number_of_64_bits_has_no_operation_and_is_added_nevertheless() -> None:
    bench = Bench()
    assert committed(bench.write(amount=-(1 << 63))).proposal.value == b"-9223372036854775803"
    assert isinstance(bench.write(amount=-(1 << 63)), NotAnInteger)


@pytest.mark.parametrize("stale", [None, OrderedValue(value=b"4", version=2)])
def test_conditions_hold_for_the_newest_row_whatever_is_known_here(stale: OrderedValue | None) -> None:
    bench = Bench()
    bench.transactions.stale = stale
    assert committed(bench.write(value=b"6", if_version=3)).proposal.version == 4
    mismatch = bench.write(value=b"7", if_version=3)
    assert isinstance(mismatch, VersionMismatch)
    assert mismatch.committed is not None
    assert mismatch.committed.version == 4
    taken = bench.write(value=b"7", if_absent=True)
    assert isinstance(taken, ExpectedValueDoesNotMatch)
    assert taken.committed.value == b"6"
    bench.write()
    assert committed(bench.write(value=b"8", if_absent=True)).proposal.version == 6


def test_a_touch_keeps_the_value_and_gives_the_expiry() -> None:
    bench = Bench()
    committed(bench.write(touch=True, ttl_ms=70))
    assert (bench.held.value, bench.held.version) == (b"5", 4)
    assert bench.held.expiry is not None
    assert (bench.held.expiry.ttl_ms, bench.held.expiry.since) == (70, 4)
    committed(bench.write(value=b"6", keep_expiry=True))
    assert bench.held.expiry.since == 4
    committed(bench.write(touch=True))
    assert bench.held.expiry is None
    assert isinstance(Bench(version=0).write(touch=True, ttl_ms=1), NothingToDelete)


def test_steps_are_evaluated_again_when_the_row_has_changed() -> None:
    bench = Bench()
    once = [True]

    def meddle() -> None:
        if once:
            once.clear()
            bench.transactions.state.set(KEY, b"other")

    bench.transactions.meddle = meddle
    told = committed(bench.write(steps=Steps(commands=((b"APPEND", KEY, b"!"),))))
    assert (told.replies, bench.held.value) == ((6,), b"other!")
    assert len(bench.transactions.txns) == 2


def test_steps_that_write_nothing_are_confirmed() -> None:
    bench = Bench()
    bench.transactions.stale = OrderedValue(value=b"old", version=2)
    told = bench.write(steps=Steps(commands=((b"GET", KEY),)))
    assert isinstance(told, Unchanged)
    assert told.replies == (b"5",)
    assert bench.held.version == 3


def test_a_write_that_is_overtaken_again_and_again_is_refused_for_certain() -> None:
    bench = Bench()

    def meddle() -> None:
        bench.transactions.state.set(KEY, b"other")

    bench.transactions.meddle = meddle
    assert bench.write(touch=True) == TOO_MANY
    assert len(bench.transactions.txns) == MOST_TRIES
    assert bench.held.value == b"other"


def test_failures_keep_what_is_known() -> None:
    assert failure_of(TxnUnknown(reason="late")) == ConsensusFailed(reason="late")
    assert failure_of(TxnRefused(reason="alone", no_quorum=True)) == Refused(reason="alone", no_quorum=True)
    bench = Bench()
    bench.transactions.fails = TxnUnknown(reason="late")
    assert bench.write(value=b"v", if_version=3) == ConsensusFailed(reason="late"), "it is not tried again"
    assert len(bench.transactions.txns) == 1
    assert isinstance(bench.write(value=bytes(200_000)), Refused), "longer than a transaction"


def test_only_the_version_that_is_over_is_ended() -> None:
    bench = Bench()
    told: list[Outcome] = []
    assert bench.writes.end(KEY, 2, told.append)
    assert bench.writes.end(KEY, 3, told.append)
    assert isinstance(told[0], VersionMismatch)
    assert committed(told[1]).proposal.is_tombstone
    assert bench.held == OrderedValue(value=None, version=4)
