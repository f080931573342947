"""The write buffer of a transaction."""

import pytest

from epoxy.model.errors import InvalidRequest, TransactionTooLarge
from epoxy.store.buffer import DirectTransaction, WriteBuffer, layered, plus, scan, stamp
from epoxy.store.limits import MAX_ROW_KEY_BYTES, MAX_ROW_VALUE_BYTES, MAX_STAMPED
from epoxy.store.versioned import VersionedMap


def test_a_later_write_replaces_an_earlier_one() -> None:
    buffer = WriteBuffer()
    buffer.add(b"n", 5)
    buffer.set(b"n", plus(None, 1))
    buffer.add(b"n", 2)
    buffer.set(b"a", b"1")
    buffer.clear(b"a")
    assert buffer.effects(VersionedMap({b"n": plus(None, 100)}), 1) == {b"n": plus(None, 3), b"a": None}


def test_a_cleared_range_spares_later_writes() -> None:
    buffer = WriteBuffer()
    buffer.set(b"a", b"1")
    buffer.add(b"c", 1)
    buffer.clear_range(b"a", b"d")
    buffer.set(b"b", b"2")
    buffer.add(b"c", 7)
    found = buffer.effects(VersionedMap({b"a": b"0", b"bb": b"0", b"d": b"0"}), 1)
    assert found == {b"a": None, b"bb": None, b"b": b"2", b"c": plus(None, 7)}


def test_stamped_rows_are_numbered_within_their_commit() -> None:
    buffer = WriteBuffer()
    buffer.set_stamped(b"log/", b"/x", b"1")
    buffer.set_stamped(b"log/", b"", b"2")
    found = list(buffer.effects(VersionedMap({}), 7).items())
    assert found == [(b"log/" + stamp(7, 0) + b"/x", b"1"), (b"log/" + stamp(7, 1), b"2")]
    assert stamp(7, MAX_STAMPED - 1) < stamp(8, 0)


def test_keys_and_values_are_limited() -> None:
    for key in (b"", b"\xff", b"\xffa"):
        with pytest.raises(InvalidRequest):
            WriteBuffer().set(key, b"")
    with pytest.raises(InvalidRequest):
        WriteBuffer().clear_range(b"a", b"\xff\x00")
    with pytest.raises(TransactionTooLarge):
        WriteBuffer().set(b"k" * (MAX_ROW_KEY_BYTES + 1), b"")
    with pytest.raises(TransactionTooLarge):
        WriteBuffer().set(b"k", bytes(MAX_ROW_VALUE_BYTES + 1))
    buffer = WriteBuffer()
    for number in range(15):
        buffer.set(b"%d" % number, bytes(MAX_ROW_VALUE_BYTES))
    with pytest.raises(TransactionTooLarge, match="in one transaction"):
        buffer.set(b"last", bytes(MAX_ROW_VALUE_BYTES))


def test_a_sum_wraps_and_only_integers_are_added_to() -> None:
    assert plus(plus(None, -1), 1) == bytes(8)
    assert plus((2**63 - 1).to_bytes(8, "little"), 1) == (2**63).to_bytes(8, "little")
    with pytest.raises(InvalidRequest):
        plus(b"text", 1)


def test_reads_see_the_transactions_own_writes() -> None:
    tx = DirectTransaction(VersionedMap({b"a": b"1", b"b": b"2", b"c": b"3"}))
    tx.set(b"aa", b"new")
    tx.clear(b"b")
    assert tx.range(b"", b"z", limit=2) == [(b"a", b"1"), (b"aa", b"new")]
    assert tx.range(b"", b"z", limit=9, reverse=True) == [(b"c", b"3"), (b"aa", b"new"), (b"a", b"1")]
    tx.clear_range(b"a", b"b")
    assert [tx.get(key) for key in (b"a", b"aa", b"c")] == [None, None, b"3"]


def test_a_scan_reads_a_range_in_pages_both_ways() -> None:
    rows = VersionedMap({b"%03d" % number: b"v" for number in range(100)})
    keys = [b"%03d" % number for number in range(10, 90)]
    assert [key for key, _ in scan(rows, b"010", b"090", 16, False)] == keys
    assert [key for key, _ in scan(rows, b"010", b"090", 16, True)] == keys[::-1]


def test_changes_are_merged_into_ordered_rows() -> None:
    rows = [(b"a", b"1"), (b"c", b"3")]
    assert list(layered(rows, [(b"b", b"2"), (b"a", None)], False)) == [(b"b", b"2"), (b"c", b"3")]
