"""An ordered map with the transactions of LMDB, as far as `store/embedded/tree.py` uses them: one writer, whose commit
is atomic and durable when it returns; readers that see one moment for as long as they are held.

LMDB itself is trusted here: no power cut tears its pages. `tests/store/power_cuts.py` puts the real one to the test.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from random import Random
from typing import Self

import lmdb

LONGEST_KEY = 511

Sync = Callable[[Callable[[bool], None]], None]
"""Makes a commit durable, by calling it with whether the disk lies; may raise before, instead or after."""


class Rows:
    """A version of the map. It is not changed once it is committed."""

    __slots__ = ("keys", "values")

    def __init__(self, keys: list[bytes], values: dict[bytes, bytes]) -> None:
        self.keys = keys
        self.values = values

    def copy(self) -> "Rows":
        return Rows(self.keys.copy(), self.values.copy())

    def put(self, key: bytes, value: bytes) -> None:
        check(key)
        if key not in self.values:
            insort(self.keys, key)
        self.values[key] = value

    def delete(self, key: bytes) -> bool:
        check(key)
        if self.values.pop(key, None) is None:
            return False
        del self.keys[bisect_left(self.keys, key)]
        return True


class OrderedMap:
    """The file of such a map. `before`: the version that a power cut brings back, if the disk lied since."""

    def __init__(self, rows: Rows | None = None) -> None:
        self.rows = rows or Rows([], {})
        self.before: list[Rows] = []

    def commit(self, rows: Rows, *, lying: bool) -> None:
        if lying:
            self.before.append(self.rows)
        self.rows = rows

    def cut_power(self, keep: float, dice: Random) -> None:
        """Of the commits that a lying disk reported, the last ones are lost."""
        lost = sum(dice.random() >= keep for _ in self.before)
        if lost:
            self.rows = self.before[-lost]
        self.before.clear()

    def image(self) -> "OrderedMap":
        return OrderedMap(self.rows)


class MapTransaction:
    """With an environment it is a writer: its rows are a copy, committed at the end of its block."""

    def __init__(self, rows: Rows, environment: "MapEnvironment | None" = None) -> None:
        self.rows = rows if environment is None else rows.copy()
        self._environment = environment

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        if reason[0] is None and self._environment is not None:
            self._environment.commit(self.rows)

    def get(self, key: bytes) -> bytes | None:
        check(key)
        return self.rows.values.get(key)

    def put(self, key: bytes, value: bytes) -> bool:
        self.rows.put(key, value)
        return True

    def delete(self, key: bytes) -> bool:
        return self.rows.delete(key)

    def cursor(self) -> "MapCursor":
        return MapCursor(self.rows)


class MapCursor:
    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._at: int | None = None

    def set_range(self, key: bytes) -> bool:
        return self._move(bisect_left(self._rows.keys, key))

    def last(self) -> bool:
        return self._move(len(self._rows.keys) - 1)

    def prev(self) -> bool:
        return self.last() if self._at is None else self._move(self._at - 1)

    def next(self) -> bool:
        return self._move(0 if self._at is None else self._at + 1)

    def key(self) -> bytes:
        return b"" if self._at is None else self._rows.keys[self._at]

    def value(self) -> bytes:
        return b"" if self._at is None else self._rows.values[self._rows.keys[self._at]]

    def iternext(self) -> Iterator[tuple[bytes, bytes]]:
        keys, values = self._rows.keys, self._rows.values
        for at in range(self._at or 0, len(keys)):
            yield keys[at], values[keys[at]]

    def iterprev(self) -> Iterator[tuple[bytes, bytes]]:
        keys, values = self._rows.keys, self._rows.values
        for at in range(len(keys) - 1 if self._at is None else self._at, -1, -1):
            yield keys[at], values[keys[at]]

    def putmulti(self, items: list[tuple[bytes, bytes]]) -> tuple[int, int]:
        for key, value in items:
            self._rows.put(key, value)
        return len(items), len(items)

    def _move(self, at: int) -> bool:
        self._at = at if 0 <= at < len(self._rows.keys) else None
        return self._at is not None


class MapEnvironment:
    """Open in one process. Every commit goes through `sync`."""

    def __init__(self, path: str, file: OrderedMap, sync: Sync) -> None:
        self._path = path
        self._file = file
        self._sync = sync

    def begin(self, *, write: bool = False) -> MapTransaction:
        return MapTransaction(self._file.rows, self if write else None)

    def path(self) -> str:
        return self._path

    def close(self) -> None:
        """Nothing is held."""

    def commit(self, rows: Rows) -> None:
        self._sync(lambda lying: self._file.commit(rows, lying=lying))


def check(key: bytes) -> None:
    if not 0 < len(key) <= LONGEST_KEY:
        raise lmdb.BadValsizeError(f"a key of {len(key)} bytes")
