"""Memtables: commits since the last checkpoint, in memory above the tree, and views of both.

    open        commits since the last flush began
    flushing    commits whose flush is under way
    active      commits of this generation that are durable in the log
    frozen      the generation before it, on its way to the tree
    tree

A commit updates the open memtable. When its flush has ended its rows move to the active one, so the three levels below
`flushing` are what is durable, and no row is held twice.

A view shows one moment. It holds the levels of that moment and the undo log from there on (`store/mvcc.py`): a key that
is not in it has not changed since. A stack of levels is never changed: when a memtable moves down, the store goes on
with a new stack, and views keep the old one.
"""

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Final

import lmdb

from epoxy.model.errors import RottenRow
from epoxy.ports import KeyValue
from epoxy.store.conflicts import overlaps
from epoxy.store.embedded.checksums import ROTTEN, unseal
from epoxy.store.embedded.tree import STEM_BYTES, Row, TreeView
from epoxy.store.mvcc import UndoRecord

Replaced = bytes | TreeView | None
"""A value that was only in the tree is not read for the undo log: the tree's view stands for it."""


MISSING: Final = bytes(bytearray(b"missing"))
"""Neither a value nor its absence: look below. Known by its identity; equal bytes are a value."""


RECENT_SHARE = 4
"""A quarter as many recent keys as sorted ones are merged into them."""


class Memtable:
    """Rows that were written; None: cleared. Keys are sorted when the first range is read. From then on new keys are
    collected, and sorted by themselves for the next range: inserting them into the sorted ones takes ten times as
    long, and comparisons of replicas read ranges often."""

    __slots__ = ("_order", "_recent", "_recent_sorted", "values")

    def __init__(self, values: dict[bytes, bytes | None] | None = None) -> None:
        self.values: dict[bytes, bytes | None] = {} if values is None else values
        self._order: list[bytes] | None = None
        self._recent: list[bytes] = []
        self._recent_sorted = True

    def add(self, rows: dict[bytes, bytes | None]) -> None:
        if self._order is not None:
            # Not by a set difference, which would iterate over all keys of the memtable.
            values = self.values
            fresh = [key for key in rows if key not in values]
            if fresh:
                self._recent += fresh
                self._recent_sorted = False
        self.values.update(rows)

    def rows(self, begin: bytes, end: bytes, reverse: bool) -> Iterator[Row]:
        if begin >= end or not self.values:
            return
        order = self._in_order()
        values = self.values
        for key in merged(order, self._recent, begin, end, reverse):
            yield key, values[key]

    def _in_order(self) -> list[bytes]:
        """All sorted keys but the recent ones, which are sorted by themselves."""
        if self._order is None:
            self._order = sorted(self.values)
        elif RECENT_SHARE * len(self._recent) > len(self._order):
            self._order += self._recent
            self._order.sort()
            self._recent = []
            self._recent_sorted = True
        elif not self._recent_sorted:
            # A sort reads all keys even if they are sorted already.
            self._recent.sort()
            self._recent_sorted = True
        return self._order


def merged(first: list[bytes], second: list[bytes], begin: bytes, end: bytes, reverse: bool) -> Iterator[bytes]:
    """The keys of a range from two sorted lists without common keys."""
    i, to_i = bisect_left(first, begin), bisect_left(first, end)
    j, to_j = bisect_left(second, begin), bisect_left(second, end)
    if reverse:
        while to_i > i or to_j > j:
            if to_j == j or (to_i > i and first[to_i - 1] > second[to_j - 1]):
                to_i -= 1
                yield first[to_i]
            else:
                to_j -= 1
                yield second[to_j]
        return
    while i < to_i or j < to_j:
        if j == to_j or (i < to_i and first[i] < second[j]):
            yield first[i]
            i += 1
        else:
            yield second[j]
            j += 1


EMPTY: Final = Memtable()


class MemtableStack:
    """The levels a read looks through, the newest first."""

    __slots__ = ("_active", "_find", "_flushing", "_frozen", "_open", "active", "flushing", "frozen", "open", "tree")

    def __init__(self, open: Memtable, flushing: Memtable, active: Memtable, frozen: Memtable, tree: TreeView) -> None:  # noqa: A002
        self.open = open
        self.flushing = flushing
        self.active = active
        self.frozen = frozen
        self.tree = tree
        self._find = tree.find
        self._open = open.values
        self._flushing = flushing.values
        self._active = active.values
        self._frozen = frozen.values

    def durable(self) -> "MemtableStack":
        return MemtableStack(EMPTY, EMPTY, self.active, self.frozen, self.tree)

    def get(self, key: bytes) -> bytes | None:
        value = self.in_memory(key)
        if value is not MISSING:
            return value
        if not 0 < len(key) < STEM_BYTES:
            return self.tree.get(key)
        try:
            sealed = self._find(key)
        except lmdb.Error as error:
            raise self.tree.failed(error) from error
        if sealed is None:
            return None
        value = unseal(key, sealed)
        if value is ROTTEN:
            raise self.tree.rotten(key)
        return value

    def holds(self, key: bytes) -> bool:
        """Whether the key has a row, be it a rotten one."""
        try:
            return self.get(key) is not None
        except RottenRow:
            return True

    def replaced(self, key: bytes) -> Replaced:
        value = self.in_memory(key)
        return self.tree if value is MISSING else value

    def in_memory(self, key: bytes) -> bytes | None:
        value = self._open.get(key, MISSING)
        if value is MISSING:
            value = self._flushing.get(key, MISSING)
            if value is MISSING:
                value = self._active.get(key, MISSING)
                if value is MISSING:
                    value = self._frozen.get(key, MISSING)
        return value

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        assert limit >= 1, "a range has room for a row"
        return list(islice(self.sound(newest_of_each(self.rows(begin, end, reverse), reverse)), limit))

    def sound(self, rows: Iterator[KeyValue]) -> Iterator[KeyValue]:
        """Raises at a rotten one."""
        for row in rows:
            if row[1] is ROTTEN:
                raise self.tree.rotten(row[0])
            yield row

    def keys(self, begin: bytes, end: bytes) -> Iterable[bytes]:
        """Of rotten rows, too: they can be cleared."""
        return map(itemgetter(0), newest_of_each(self.rows(begin, end, False), False))

    def rows(self, begin: bytes, end: bytes, reverse: bool) -> list[Iterator[Row]]:
        memtables = (self.open, self.flushing, self.active, self.frozen)
        rows: list[Iterator[Row]] = [each.rows(begin, end, reverse) for each in memtables if each.values]
        rows.append(self.tree.rows(begin, end, reverse))
        return rows


class StoreView:
    """The store at one moment: its levels then, with all changes from `later` on undone."""

    __slots__ = ("_later", "_levels")

    def __init__(self, levels: MemtableStack, later: UndoRecord[Replaced]) -> None:
        self._levels = levels
        self._later = later

    def get(self, key: bytes) -> bytes | None:
        record = self._later
        while record.next is not None:
            if key in record.replaced:
                return resolve(record.replaced[key], key)
            record = record.next
        return self._levels.get(key)

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        if self._later.next is None:
            return self._levels.range(begin, end, limit=limit, reverse=reverse)
        assert limit >= 1, "a range has room for a row"
        undone = sorted(self._undone(begin, end), key=itemgetter(0), reverse=reverse)
        levels = self._levels.rows(begin, end, reverse)
        return list(islice(self._levels.sound(newest_of_each([iter(undone), *levels], reverse)), limit))

    def has_changed(self, keys: set[bytes], ranges: tuple[tuple[bytes, bytes], ...]) -> bool:
        """Whether any of this was committed after the view's moment."""
        record: UndoRecord[Replaced] | None = self._later
        while record is not None:
            if overlaps(keys, ranges, record.replaced):
                return True
            record = record.next
        return False

    def _undone(self, begin: bytes, end: bytes) -> list[Row]:
        undone: dict[bytes, bytes | None] = {}
        record: UndoRecord[Replaced] | None = self._later
        while record is not None:
            for key, value in record.replaced.items():
                if begin <= key < end and key not in undone:
                    undone[key] = resolve(value, key)
            record = record.next
        return list(undone.items())


def resolve(value: Replaced, key: bytes) -> bytes | None:
    return value.get(key) if isinstance(value, TreeView) else value


def newest_of_each(levels: list[Iterator[Row]], reverse: bool) -> Iterator[KeyValue]:
    """The first of several rows with one key. The merge keeps the order of its arguments among equals."""
    rows = levels[0] if len(levels) == 1 else heapq.merge(*levels, key=itemgetter(0), reverse=reverse)
    last = b""
    for key, value in rows:
        if key != last:
            last = key
            if value is not None:
                yield key, value
