"""What transactions do to a state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.model.instances import Command
from epoxy.model.records import Expiry
from epoxy.model.transactions import (
    LEAST,
    MOST,
    NO_ROW,
    Add,
    Compare,
    Delete,
    Done,
    Executed,
    Expire,
    Get,
    Import,
    OrderedValue,
    Put,
    Txn,
    Wrong,
    flaw_of,
)
from epoxy.protocol.txn.execution import ExecutionState, execute, execute_command


def state(**values: bytes) -> ExecutionState:
    """Of version 3, each."""
    held = {key.encode(): OrderedValue(value=value, version=3) for key, value in values.items()}
    return ExecutionState(lambda key: held.get(key, NO_ROW))


def written(at: ExecutionState) -> dict[bytes, bytes | None]:
    return {key: held.value for key, held in at.written.items()}


def test_operations_see_what_those_before_them_did() -> None:
    at = state(a=b"1")
    txn = Txn(then=(Put(key=b"a", value=b"2"), Get(key=b"a"), Delete(key=b"a"), Get(key=b"a")), reads=(b"a", b"b"))
    done = tuple(Done(value=value, version=at) for value, at in ((b"1", 4), (b"2", 4), (b"2", 5), (None, 5)))
    reads = (OrderedValue(value=b"1", version=3), NO_ROW)
    assert execute(txn, at) == Executed(succeeded=True, done=done, reads=reads)
    assert at.written == {b"a": OrderedValue(value=None, version=5)}, "a deletion keeps the version"


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
    assert written(one) == {b"a": b"%d" % (MOST - 1)}
    assert written(other) == {b"a": b"%d" % MOST}


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
    assert written(at) == ({b"x": b"y"} if holds else {})
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
    at = state() if before is None else state(n=before)
    (done,) = execute(Txn(then=(Add(key=b"n", amount=amount),)), at).done
    assert (done.value, done.wrong) == (expected.value, expected.wrong)
    assert done.version == (1 if before is None else 4 if expected.wrong is None else 3)
    assert bool(at.written) == (expected.wrong is None)


@given(st.integers(LEAST, MOST), st.integers(0, MOST), st.booleans())
def test_sums_are_sums_or_stay(before: int, amount: int, negative: bool) -> None:
    at = state(n=b"%d" % before)
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


def after(at: ExecutionState, *operations: Put | Delete | Add | Expire) -> OrderedValue:
    execute(Txn(then=operations), at)
    return at.get(b"k")


def test_each_write_raises_the_version_and_an_expiry_is_counted_from_the_one_that_gave_it() -> None:
    at = state()
    assert after(at, Put(key=b"k", value=b"1", ttl_ms=50)) == OrderedValue(
        value=b"1", version=1, expiry=Expiry(ttl_ms=50, since=1)
    )
    assert after(at, Add(key=b"k", amount=1)).expiry == Expiry(ttl_ms=50, since=1), "kept"
    assert after(at, Put(key=b"k", value=b"3", keep_expiry=True)).expiry == Expiry(ttl_ms=50, since=1)
    assert after(at, Put(key=b"k", value=b"4")) == OrderedValue(value=b"4", version=4)
    assert after(at, Delete(key=b"k")) == OrderedValue(value=None, version=5)
    assert after(at, Delete(key=b"k")) == OrderedValue(value=None, version=5), "there was nothing to delete"
    assert after(at, Add(key=b"k", amount=7, ttl_ms=9)) == OrderedValue(
        value=b"7", version=6, expiry=Expiry(ttl_ms=9, since=6)
    )


def test_only_the_version_that_is_over_expires() -> None:
    at = state(k=b"v")
    assert after(at, Expire(key=b"k", version=2)).value == b"v", "it was renewed"
    assert after(at, Expire(key=b"k", version=3)) == OrderedValue(value=None, version=4)
    assert after(at, Expire(key=b"k", version=4)) == OrderedValue(value=None, version=4), "there is nothing"


def test_an_import_takes_effect_once() -> None:
    at = state()
    moved = Txn(imports=(Import(key=b"k", held=OrderedValue(value=b"v", version=7)),), reads=(b"k",))
    assert execute(moved, at).reads == (OrderedValue(value=b"v", version=7),)
    after(at, Put(key=b"k", value=b"w"))
    assert execute(moved, at).reads == (OrderedValue(value=b"w", version=8),)
    after(at, Delete(key=b"k"))
    assert execute(moved, at).reads == (OrderedValue(value=None, version=9),), "a deletion leaves a row"


def test_a_reserved_name_is_read_and_never_written() -> None:
    at = state()
    name = OrderedValue(value=b"ada", version=1, immutable=True)
    operations = (Get(key=b"k"), Put(key=b"k", value=b"w"), Delete(key=b"k"), Add(key=b"k", amount=1))
    result = execute(Txn(imports=(Import(key=b"k", held=name),), then=(*operations, Put(key=b"x", value=b"y"))), at)
    assert [done.wrong for done in result.done] == [None, *[Wrong.IMMUTABLE] * 3, None]
    assert {done.value for done in result.done[:4]} == {b"ada"}
    assert at.get(b"k") == name
    assert at.get(b"x").value == b"y", "the others are done"


def test_commands_of_earlier_releases_count_no_versions() -> None:
    """Some replicas have executed them with the code of then: rows without versions, and none after a deletion."""
    at = ExecutionState(lambda key: OrderedValue(value=b"raw") if key == b"k" else NO_ROW)
    put, delete = Txn(then=(Put(key=b"k", value=b"1"),)), Txn(then=(Delete(key=b"k"),))
    execute_command(Command(txns=(put,), versioned=False), at)
    assert at.get(b"k") == OrderedValue(value=b"1")
    execute_command(Command(txns=(delete,), versioned=False), at)
    assert at.get(b"k") == NO_ROW
    execute_command(Command(txns=(put, put, delete)), at)
    assert at.get(b"k") == OrderedValue(value=None, version=3)
    execute_command(Command(txns=(put,), versioned=False), at)
    assert at.get(b"k") == OrderedValue(value=b"1", version=4), "ordered after one of this release"
