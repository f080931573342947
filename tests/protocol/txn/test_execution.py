"""What transactions do to a state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.model.transactions import (
    LEAST,
    MOST,
    Add,
    Compare,
    Delete,
    Done,
    Executed,
    Get,
    Put,
    Txn,
    Wrong,
    flaw_of,
)
from epoxy.protocol.txn.execution import ExecutionState, execute


def state(**values: bytes) -> ExecutionState:
    held = {key.encode(): value for key, value in values.items()}
    return ExecutionState(held.get)


def test_operations_see_what_those_before_them_did() -> None:
    at = state(a=b"1")
    txn = Txn(then=(Put(key=b"a", value=b"2"), Get(key=b"a"), Delete(key=b"a"), Get(key=b"a")), reads=(b"a", b"b"))
    done = tuple(Done(value=value) for value in (b"1", b"2", b"2", None))
    assert execute(txn, at) == Executed(succeeded=True, seen=(), done=done, found=(b"1", None))
    assert at.written == {b"a": None}


def test_adds_do_not_commute() -> None:
    """Their answers depend on their order, and at the limits so does what is left: they must interfere."""
    up, down = Txn(then=(Add(key=b"a", amount=1),)), Txn(then=(Add(key=b"a", amount=-1),))
    one, other = state(a=b"5"), state(a=b"5")
    assert [execute(txn, one) for txn in (up, down)] != [execute(txn, other) for txn in (down, up)][::-1]
    assert one.written == other.written
    one, other = state(a=b"%d" % MOST), state(a=b"%d" % MOST)
    for txn, otherwise in ((up, down), (down, up)):
        execute(txn, one)
        execute(otherwise, other)
    assert one.written == {b"a": b"%d" % (MOST - 1)}
    assert other.written == {b"a": b"%d" % MOST}


@pytest.mark.parametrize(
    ("compare", "holds"),
    [
        (Compare(key=b"a", values=(b"1",)), True),
        (Compare(key=b"a", values=(b"0", b"1")), True),
        (Compare(key=b"a", values=(b"2",)), False),
        (Compare(key=b"a", absent=True), False),
        (Compare(key=b"b", absent=True), True),
        (Compare(key=b"b", values=(b"1",)), False),
        (Compare(key=b"b", values=(b"1",), absent=True), True),
    ],
)
def test_compares(compare: Compare, holds: bool) -> None:
    at = state(a=b"1")
    txn = Txn(compares=(compare,), then=(Put(key=b"x", value=b"y"),), otherwise=(Get(key=b"a"),))
    result = execute(txn, at)
    assert result.succeeded is holds
    assert at.written == ({b"x": b"y"} if holds else {})
    assert result.seen == (b"1" if compare.key == b"a" else None,)


@pytest.mark.parametrize(
    ("before", "amount", "expected"),
    [
        (None, 5, Done(value=b"5")),
        (b"-7", 5, Done(value=b"-2")),
        (b"x", 5, Done(value=b"x", wrong=Wrong.NOT_A_NUMBER)),
        (b"01", 5, Done(value=b"01", wrong=Wrong.NOT_A_NUMBER)),
        (b" 1", 5, Done(value=b" 1", wrong=Wrong.NOT_A_NUMBER)),
        (b"%d" % MOST, 1, Done(value=b"%d" % MOST, wrong=Wrong.OVERFLOW)),
        (b"%d" % (MOST + 1), 1, Done(value=b"%d" % (MOST + 1), wrong=Wrong.NOT_A_NUMBER)),
        (b"9" * 30, 1, Done(value=b"9" * 30, wrong=Wrong.NOT_A_NUMBER)),
    ],
)
def test_adding(before: bytes | None, amount: int, expected: Done) -> None:
    at = ExecutionState(lambda _: before)
    assert execute(Txn(then=(Add(key=b"n", amount=amount),)), at).done == (expected,)
    assert bool(at.written) == (expected.wrong is None)


@given(st.integers(LEAST, MOST), st.integers(0, MOST), st.booleans())
def test_sums_are_sums_or_stay(before: int, amount: int, negative: bool) -> None:
    at = ExecutionState(lambda _: b"%d" % before)
    (done,) = execute(Txn(then=(Add(key=b"n", amount=amount, negative=negative),)), at).done
    total = before - amount if negative else before + amount
    assert done.value == (b"%d" % total if LEAST <= total <= MOST else b"%d" % before)


def test_a_footprint_names_every_key_and_whether_it_may_be_written() -> None:
    txn = Txn(
        compares=(Compare(key=b"a", absent=True),),
        then=(Put(key=b"b", value=b""), Get(key=b"c")),
        otherwise=(Delete(key=b"a"),),
        reads=(b"d",),
    )
    assert txn.footprint == {b"a": True, b"b": True, b"c": False, b"d": False}
    assert not txn.is_read_only
    assert Txn(reads=(b"d",)).is_read_only


def test_limits_are_told() -> None:
    assert flaw_of(Txn(reads=(b"k",))) is None
    assert "128 compares" in (flaw_of(Txn(reads=(b"k",) * 129)) or "")
    assert "1 to 1024 bytes" in (flaw_of(Txn(reads=(b"",))) or "")
    assert "131072 bytes" in (flaw_of(Txn(then=(Put(key=b"k", value=bytes(128 << 10)),))) or "")
