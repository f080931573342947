"""An ordered map in memory whose readers keep the state they began with."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from sortedcontainers import SortedList

from epoxy.ports import KeyValue
from epoxy.store.buffer import layered
from epoxy.store.conflicts import Change, Since, Values


class VersionedMap:
    """A dict for single keys. Order is needed by ranges alone, so it is brought up to date when one asks for it."""

    __slots__ = ("_order", "_unordered", "newest", "values")

    def __init__(self, contents: Mapping[bytes, bytes]) -> None:
        self.values = dict(contents)
        self.newest = Change()
        self._order: SortedList[bytes] = SortedList()
        self._unordered = set(self.values)

    def apply(self, effects: Values) -> None:
        """One commit. Clearing what is absent changes nothing, so nobody conflicts with it."""
        values, before = self.values, dict[bytes, bytes | None]()
        for key, value in effects.items():
            old = values.get(key)
            if value is not None:
                values[key] = value
            elif old is not None:
                del values[key]
            else:
                continue
            before[key] = old
            if old is None or value is None:
                self._unordered.add(key)
        self.newest = self.newest.record(before)

    def get(self, key: bytes) -> bytes | None:
        return self.values.get(key)

    def keys(self, begin: bytes, end: bytes, reverse: bool = False) -> Iterable[bytes]:
        if begin >= end:
            return ()
        if self._unordered:
            self._bring_in_order()
        return self._order.irange(begin, end, (True, False), reverse)

    def _bring_in_order(self) -> None:
        appeared = self._unordered & self.values.keys()
        for key in self._unordered - appeared:
            self._order.discard(key)
        self._order.update(key for key in appeared if key not in self._order)
        self._unordered.clear()

    def rows(self, begin: bytes, end: bytes, reverse: bool) -> Iterator[KeyValue]:
        values = self.values
        return ((key, values[key]) for key in self.keys(begin, end, reverse))


class View(Since):
    """The map as it was when the view was made."""

    __slots__ = ("_map",)

    def __init__(self, source: VersionedMap) -> None:
        self._map = source
        self._newest = source.newest
        self._changed = {}

    def get(self, key: bytes) -> bytes | None:
        if self._newest.next is None and not self._changed:
            return self._map.values.get(key)
        changed = self.changed
        return changed[key] if key in changed else self._map.values.get(key)

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        assert limit >= 1, "a range without rows was not meant"
        rows = self._map.rows(begin, end, reverse)
        if changed := self.changed:
            rows = layered(rows, [row for row in changed.items() if begin <= row[0] < end], reverse)
        return list(islice(rows, limit))
