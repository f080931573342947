"""An ordered map in memory with snapshots."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from sortedcontainers import SortedList

from epoxy.ports import KeyValue
from epoxy.store.buffer import layered
from epoxy.store.conflicts import Values, overlaps
from epoxy.store.mvcc import UndoLog


class VersionedMap:
    """A dict for single keys. Only ranges need an order, so it is brought up to date when one is read."""

    __slots__ = ("_order", "_unordered", "undo", "values")

    def __init__(self, contents: Mapping[bytes, bytes]) -> None:
        self.values = dict(contents)
        self.undo: UndoLog[bytes | None] = UndoLog()
        self._order: SortedList[bytes] = SortedList()
        self._unordered = set(self.values)

    def apply(self, effects: Values) -> None:
        """One commit. Clearing an absent key changes nothing, so nothing conflicts with it."""
        values = self.values
        if self.undo.has_readers():
            self.undo.record({k: values.get(k) for k, value in effects.items() if value is not None or k in values})
        for key, value in effects.items():
            if value is None:
                if values.pop(key, None) is not None:
                    self._unordered.add(key)
            else:
                if key not in values:
                    self._unordered.add(key)
                values[key] = value

    def get(self, key: bytes) -> bytes | None:
        return self.values.get(key)

    def keys(self, begin: bytes, end: bytes, reverse: bool = False) -> Iterable[bytes]:
        if begin >= end:
            return ()
        if self._unordered:
            self._update_order()
        return self._order.irange(begin, end, (True, False), reverse)

    def _update_order(self) -> None:
        appeared = self._unordered & self.values.keys()
        for key in self._unordered - appeared:
            self._order.discard(key)
        self._order.update([key for key in appeared if key not in self._order])
        self._unordered.clear()

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        assert limit >= 1, "a range has room for a row"
        return list(islice(self.rows(begin, end, reverse), limit))

    def rows(self, begin: bytes, end: bytes, reverse: bool) -> Iterator[KeyValue]:
        values = self.values
        for key in self.keys(begin, end, reverse):
            yield key, values[key]


class MapView:
    """The map as it was when the view was made."""

    __slots__ = ("_changed", "_later", "_map")

    def __init__(self, source: VersionedMap) -> None:
        self._map = source
        self._later = source.undo.begin_read()
        self._changed: dict[bytes, bytes | None] = {}

    @property
    def changed(self) -> Values:
        """The keys committed since, each with the value it had when the view was made."""
        record = self._later
        while record.next is not None:
            for key, value in record.replaced.items():
                self._changed.setdefault(key, value)
            record = record.next
        self._later = record
        return self._changed

    def has_changed(self, keys: set[bytes], ranges: tuple[tuple[bytes, bytes], ...]) -> bool:
        return overlaps(keys, ranges, self.changed)

    def get(self, key: bytes) -> bytes | None:
        changed = self.changed
        return changed[key] if key in changed else self._map.values.get(key)

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        if not (changed := self.changed):
            return self._map.range(begin, end, limit=limit, reverse=reverse)
        own = [row for row in changed.items() if begin <= row[0] < end]
        return list(islice(layered(self._map.rows(begin, end, reverse), own, reverse), limit))
