"""The rows of a node: in its memory and in the database, and views of them."""

import pytest

from epoxy.model.errors import StoreFailed
from epoxy.model.shards import ALL_SHARDS
from epoxy.store.shared.rows import SharedRows
from epoxy_sim.datacenter.memory_database import DatabaseTables, MemoryDatabase
from tests.store.conformance import rows
from tests.store.shared.shared_bench import SplitLayout


class Rows:
    """With the batches' way to the database done by hand."""

    def __init__(self, cache_bytes: int = 1 << 20) -> None:
        self.tables = DatabaseTables(lambda: 0.0)
        self.database = MemoryDatabase(self.tables, lambda _: None)
        self.rows = SharedRows(self.database, SplitLayout(), cache_bytes)
        self.rows.own(ALL_SHARDS, {})
        self.commits = 0

    def write(self, **values: bytes | None) -> None:
        self.commits += 1
        self.rows.write({name.encode(): value for name, value in values.items()}, (), True, self.commits)

    def send(self) -> None:
        """The oldest batch takes effect."""
        batch = self.rows.batches[0]
        batch.is_sealed = True
        for each in batch.far():
            each.value = self.tables.rows.get(each.key)
        self.tables.rows.apply(batch.rows)

    def settle(self) -> None:
        self.send()
        self.rows.settle()


def test_a_row_written_in_two_batches_stays_until_both_are_durable() -> None:
    here = Rows()
    here.write(k=b"1")
    here.send()
    here.write(k=b"2", a=b"2")
    assert len(here.rows.batches) == 2
    assert (here.rows.get(b"k"), here.rows.get_durable(b"k")) == (b"2", None)
    here.rows.settle()
    assert (here.rows.get(b"k"), here.rows.get_durable(b"k")) == (b"2", b"1")
    here.database.is_reachable = False
    here.settle()
    assert (here.rows.get(b"k"), here.rows.get_durable(b"k")) == (b"2", b"2")
    assert (here.rows.get(b"a"), here.rows.get_durable(b"a")) == (b"2", b"2")


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_views_keep_their_moment_however_many_batches_follow(cache_bytes: int) -> None:
    here = Rows(cache_bytes)
    here.write(a=b"1", k=b"1", l=b"1")
    here.settle()
    newest, durable = here.rows.view(), here.rows.durable()
    before = [(b"a", b"1"), (b"k", b"1"), (b"l", b"1")]
    here.write(a=b"2", k=None, m=b"2")
    later = here.rows.view()
    for _ in range(3):
        here.write(a=b"3", k=b"3", l=None)
        here.settle()
        for view in (newest, durable):
            assert rows(view) == before
            assert [view.get(key) for key in (b"a", b"k", b"l", b"m")] == [b"1", b"1", b"1", None]
    assert rows(later) == [(b"a", b"2"), (b"l", b"1"), (b"m", b"2")]
    assert rows(here.rows) == rows(here.rows.durable()) == [(b"a", b"3"), (b"k", b"3"), (b"m", b"2")]


def test_stamped_rows_are_changes_of_the_moment_they_are_durable() -> None:
    here = Rows()
    view = here.rows.view()
    here.rows.write({}, ((b"log/", b"", b"v"),), True, 1)
    assert not view.has_changed(set(), ((b"log/", b"log0"),))
    here.rows.batches[0].sequence = 1
    here.rows.settle()
    assert view.has_changed(set(), ((b"log/", b"log0"),))
    assert not view.has_changed(set(), ((b"logs", b"logt"),))


def test_without_readers_nothing_is_remembered_of_what_is_replaced() -> None:
    here = Rows()
    here.write(k=b"1")
    here.settle()
    rows(here.rows.durable())
    here.write(k=b"2")
    here.settle()
    assert not here.rows.undo.has_readers()
    assert not here.rows.durable_undo.has_readers()


def test_views_fail_when_everything_is_forgotten() -> None:
    here = Rows()
    here.write(a=b"1", k=b"1")
    here.settle()
    views = here.rows.view(), here.rows.durable(), here.rows
    here.write(k=b"2")
    here.rows.forget("fenced")
    for view in views:
        with pytest.raises(StoreFailed):
            view.get(b"k")
        with pytest.raises(StoreFailed):
            rows(view, b"a", b"b")
