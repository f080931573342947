"""What was committed since the last checkpoint, in memory above the tree, and views of both.

A view shows one moment. It holds the levels as they were then, and the first element of a list to which every later
commit adds the values it replaced: a key that is not in the list has not changed since. Levels are never taken apart
under a view. When a generation is frozen or reaches the tree, the store goes on with new levels, and the old ones stay
as long as somebody looks through them.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Final

from sortedcontainers import SortedList

from epoxy.ports import KeyValue
from epoxy.store.conflicts import Values, overlaps
from epoxy.store.tree import Row, TreeView

Before = dict[bytes, bytes | TreeView | None]
"""Replaced values. A value that was only in the tree is not read for this: the tree's view stands for it."""


MISSING: Final = bytes(bytearray(b"missing"))
"""Neither a value nor its absence: look one level below. Known by its identity; equal bytes are a value."""


class Past:
    """What one or more commits replaced, as those before them see it."""

    __slots__ = ("before", "next")

    def __init__(self) -> None:
        self.before: Before = {}
        self.next: Past | None = None

    def record(self, before: Before) -> "Past":
        """Become the commit that replaced these values, and name what comes after it."""
        assert self.next is None, "history is written once"
        self.before = before
        self.next = Past()
        return self.next


class Layer:
    """The rows of one generation; None: cleared. Order is brought up to date when a range asks for it."""

    __slots__ = ("_order", "values")

    def __init__(self, values: dict[bytes, bytes | None] | None = None) -> None:
        self.values = {} if values is None else values
        self._order: SortedList[bytes] = SortedList()

    def rows(self, begin: bytes, end: bytes, reverse: bool) -> Iterator[Row]:
        if begin >= end or not self.values:
            return iter(())
        values = self.values
        if len(self._order) < len(values):
            # A dict keeps its keys in the order they came, and none is ever removed: the new ones are the last.
            self._order.update(islice(values, len(self._order), None))
        return ((key, values[key]) for key in self._order.irange(begin, end, (True, False), reverse))


class Levels:
    """Where to look for a row, the newest first. Commits go to `active`; `frozen` is on its way to the tree."""

    __slots__ = ("active", "frozen", "newer", "older", "tree")

    def __init__(self, active: Layer, frozen: Layer, tree: TreeView) -> None:
        self.active = active
        self.frozen = frozen
        self.tree = tree
        self.newer = active.values
        self.older = frozen.values

    def rows(self, begin: bytes, end: bytes, reverse: bool) -> list[Iterator[Row]]:
        return [level.rows(begin, end, reverse) for level in (self.active, self.frozen, self.tree)]

    def apply(self, effects: Values) -> tuple[Values, Before]:
        """Commit: what this changes, and what it replaces. Clearing what is absent changes nothing."""
        changed: dict[bytes, bytes | None] = {}
        before: Before = {}
        newer, older, tree = self.newer, self.older, self.tree
        for key, value in effects.items():
            old: bytes | TreeView | None = newer.get(key, MISSING)
            if old is MISSING:
                old = older.get(key, MISSING)
                if old is MISSING:
                    old = tree if value is not None else tree.get(key)
            if value is not None or old is not None:
                changed[key] = value
                before[key] = old
        newer.update(changed)
        return changed, before


class View:
    """The store at one moment: levels, with everything undone that was committed from `later` on."""

    __slots__ = ("_later", "_levels")

    def __init__(self, levels: Levels, later: Past) -> None:
        self._levels = levels
        self._later = later

    def get(self, key: bytes) -> bytes | None:
        past: Past | None = self._later
        while past is not None:
            if key in past.before:
                return resolve(past.before[key], key)
            past = past.next
        levels = self._levels
        value = levels.newer.get(key, MISSING)
        if value is MISSING:
            value = levels.older.get(key, MISSING)
            if value is MISSING:
                return levels.tree.get(key)
        return value

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        assert limit >= 1, "a range without rows was not meant"
        return list(islice(self.rows(begin, end, reverse), limit))

    def keys(self, begin: bytes, end: bytes) -> Iterable[bytes]:
        return (key for key, _ in self.rows(begin, end, False))

    def rows(self, begin: bytes, end: bytes, reverse: bool) -> Iterator[KeyValue]:
        undone = self._undone(begin, end)
        undone.sort(key=itemgetter(0), reverse=reverse)
        levels = self._levels.rows(begin, end, reverse)
        return newest_of_each(heapq.merge(undone, *levels, key=itemgetter(0), reverse=reverse))

    def has_changed(self, keys: set[bytes], ranges: tuple[tuple[bytes, bytes], ...]) -> bool:
        """Whether any of this was committed after the view's moment."""
        past: Past | None = self._later
        while past is not None:
            if overlaps(keys, ranges, past.before):
                return True
            past = past.next
        return False

    def _undone(self, begin: bytes, end: bytes) -> list[Row]:
        undone: dict[bytes, bytes | None] = {}
        past: Past | None = self._later
        while past is not None:
            for key, value in past.before.items():
                if begin <= key < end and key not in undone:
                    undone[key] = resolve(value, key)
            past = past.next
        return list(undone.items())


def resolve(value: bytes | TreeView | None, key: bytes) -> bytes | None:
    return value.get(key) if isinstance(value, TreeView) else value


def newest_of_each(rows: Iterable[Row]) -> Iterator[KeyValue]:
    """The first of several rows with one key. The merge keeps the order of its arguments among equals."""
    last = b""
    for key, value in rows:
        if key != last:
            last = key
            if value is not None:
                yield key, value
