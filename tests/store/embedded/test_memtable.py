"""Memtables: order while rows are added, and the levels a read looks through."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from epoxy.store.embedded.log import LogPosition
from epoxy.store.embedded.memtable import EMPTY, Memtable, MemtableStack, Replaced, StoreView
from epoxy.store.embedded.tree import Tree
from epoxy.store.mvcc import UndoLog

Rows = dict[bytes, bytes | None]

keys = st.binary(min_size=1, max_size=2)


@given(st.lists(st.dictionaries(keys, st.one_of(st.none(), st.just(b"v")), max_size=8), max_size=8), keys, keys)
def test_rows_are_in_order_after_each_addition(batches: list[Rows], one: bytes, two: bytes) -> None:
    memtable, model = Memtable(), dict[bytes, bytes | None]()
    begin, end = sorted((one, two))
    for batch in batches:
        memtable.add(dict(batch))
        model.update(batch)
        expected = [(key, model[key]) for key in sorted(model) if begin <= key < end]
        assert list(memtable.rows(begin, end, False)) == expected
        assert list(memtable.rows(begin, end, True)) == expected[::-1]


def test_the_newest_level_wins_and_a_cleared_row_hides_those_below(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.apply({b"a": b"tree", b"b": b"tree", b"c": b"tree", b"d": b"tree"}, LogPosition())
    flushing, active, frozen = Memtable({b"a": b"flushing"}), Memtable({b"b": None}), Memtable({b"c": b"frozen"})
    stack = MemtableStack(Memtable({b"e": b"open"}), flushing, active, frozen, tree.view())
    rows = [(b"a", b"flushing"), (b"c", b"frozen"), (b"d", b"tree"), (b"e", b"open")]
    assert stack.range(b"", b"z", limit=9) == rows
    assert stack.range(b"", b"z", limit=2, reverse=True) == rows[:1:-1]
    assert [stack.get(key) for key in (b"a", b"b", b"d", b"x")] == [b"flushing", None, b"tree", None]
    assert stack.durable().get(b"a") == b"tree", "what is being flushed is not durable"
    assert list(stack.keys(b"a", b"d")) == [b"a", b"c"]
    del stack
    tree.close()


def test_a_view_undoes_later_commits(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.apply({b"a": b"tree"}, LogPosition())
    stack = MemtableStack(Memtable({b"b": b"old"}), EMPTY, EMPTY, EMPTY, tree.view())
    log: UndoLog[Replaced] = UndoLog()
    view = StoreView(stack, log.begin_read())
    batches: list[Rows] = [{b"a": b"new", b"c": b"new"}, {b"a": b"newer", b"b": None}]
    for changes in batches:
        log.record({key: stack.replaced(key) for key in changes})
        stack.open.add(changes)
    assert [view.get(key) for key in (b"a", b"b", b"c")] == [b"tree", b"old", None]
    assert view.range(b"", b"z", limit=9) == [(b"a", b"tree"), (b"b", b"old")]
    assert view.has_changed({b"c"}, ())
    assert not view.has_changed({b"d"}, ((b"d", b"z"),))
    del view, stack, log
    tree.close()
