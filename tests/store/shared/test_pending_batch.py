"""Commits that share one transaction of the database."""

from epoxy.store.buffer import stamp
from epoxy.store.shared.pending_batch import FarValue, PendingBatch, resolve
from epoxy_sim.datacenter.memory_database import DatabaseTables, MemoryDatabase


def test_stamped_keys_end_with_the_last_stamp() -> None:
    batch = PendingBatch()
    batch.stamped = [[(b"a/", b"", b"1"), (b"a/", b"/x", b"2")], [(b"b/", b"", b"3")]]
    batch.sequence = 9
    assert list(batch.stamped_keys()) == [b"a/" + stamp(8, 0), b"a/" + stamp(8, 1) + b"/x", b"b/" + stamp(9, 0)]
    assert PendingBatch().stamped_keys() == {}


def test_a_far_value_is_read_once() -> None:
    tables = DatabaseTables(lambda: 0.0)
    tables.rows.apply({b"k": b"old"})
    database = MemoryDatabase(tables, lambda _: None)
    far, absent = FarValue(b"k"), FarValue(b"l")
    batch = PendingBatch()
    batch.before = {b"k": far, b"l": absent, b"m": b"near", b"n": None}
    assert batch.far() == [far, absent]
    assert [resolve(each, database) for each in batch.before.values()] == [b"old", None, b"near", None]
    tables.rows.apply({b"k": b"new", b"l": b"new"})
    assert (resolve(far, database), resolve(absent, database)) == (b"old", None)
    assert batch.far() == []


def test_only_rows_that_the_database_has_are_deleted_there() -> None:
    known, absent = FarValue(b"k"), FarValue(b"l")
    known.value, absent.value = b"", None
    batch = PendingBatch()
    batch.before = {b"k": known, b"l": absent, b"m": b"near", b"n": None}
    assert [key for key in batch.before if batch.replaces(key)] == [b"k", b"m"]
