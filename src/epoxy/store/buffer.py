"""The write buffer of a transaction, and reads through it. Drivers bring the snapshot below."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import filterfalse, islice
from operator import itemgetter
from typing import Protocol

from epoxy.codec.tuple import STAMP_BYTES
from epoxy.model.errors import InvalidRequest, TransactionTooLarge
from epoxy.ports import KeyValue, Snapshot
from epoxy.store.limits import (
    FIRST_RESERVED_KEY,
    MAX_ROW_KEY_BYTES,
    MAX_ROW_VALUE_BYTES,
    MAX_STAMPED,
    MAX_TRANSACTION_BYTES,
)


class Current(Protocol):
    """The store's state at a commit."""

    def get(self, key: bytes) -> bytes | None: ...

    def keys(self, begin: bytes, end: bytes) -> Iterable[bytes]: ...


class VersionedView(Snapshot, Protocol):
    def has_changed(self, keys: set[bytes], ranges: tuple[tuple[bytes, bytes], ...]) -> bool:
        """Whether any of this was committed after the view was made."""


class WriteBuffer:
    """The last write of each key: a value (None: cleared), or a number to add to the value at the commit. A cleared
    range hides the rows of the store, not later writes.

    Fields that most transactions never change are defaults of the class, so that starting one costs little.
    """

    size: int = 0
    cleared: tuple[tuple[bytes, bytes], ...] = ()
    added: dict[bytes, int] | None = None
    stamped: Sequence[tuple[bytes, bytes, bytes]] = ()

    def __init__(self) -> None:
        self.values: dict[bytes, bytes | None] = {}

    def set(self, key: bytes, value: bytes) -> None:
        self.size = size = self.size + len(key) + len(value)
        if size > MAX_ROW_KEY_BYTES or not key or key >= FIRST_RESERVED_KEY:
            self._examine(key, value)
        self.values[key] = value
        if self.added:
            self.added.pop(key, None)

    def clear(self, key: bytes) -> None:
        self.size = size = self.size + len(key)
        if size > MAX_ROW_KEY_BYTES or not key or key >= FIRST_RESERVED_KEY:
            self._examine(key, b"")
        self.values[key] = None
        if self.added:
            self.added.pop(key, None)

    def clear_range(self, begin: bytes, end: bytes) -> None:
        if begin >= end:
            return
        self._admit(begin or b"\x00", b"")
        if end > FIRST_RESERVED_KEY:
            raise InvalidRequest("keys from ff on belong to the store")
        self.values = {key: value for key, value in self.values.items() if not begin <= key < end}
        if self.added:
            self.added = {key: delta for key, delta in self.added.items() if not begin <= key < end}
        self.cleared += ((begin, end),)

    def add(self, key: bytes, delta: int) -> None:
        self._admit(key, bytes(8))
        if key in self.values or self.hides(key):
            self.values[key] = plus(self.values.get(key), delta)
            return
        if self.added is None:
            self.added = {}
        self.added[key] = self.added.get(key, 0) + delta

    def set_stamped(self, prefix: bytes, suffix: bytes, value: bytes) -> None:
        self.size = size = self.size + len(prefix) + STAMP_BYTES + len(suffix) + len(value)
        if size > MAX_ROW_KEY_BYTES or not prefix or prefix >= FIRST_RESERVED_KEY:
            self._examine(prefix + bytes(STAMP_BYTES) + suffix, value)
        if len(self.stamped) == MAX_STAMPED:
            raise TransactionTooLarge(f"more than {MAX_STAMPED} stamped rows")
        if isinstance(self.stamped, list):
            self.stamped.append((prefix, suffix, value))
        else:
            self.stamped = [*self.stamped, (prefix, suffix, value)]

    def hides(self, key: bytes) -> bool:
        """Whether a cleared range covers what the store holds for this key."""
        return any(begin <= key < end for begin, end in self.cleared)

    def effects(self, current: Current, sequence: int) -> dict[bytes, bytes | None]:
        """What a commit changes; the buffer is not used after it. Stamped rows come last: no write of the transaction
        could have named them."""
        effects = self.values
        if self.cleared or self.added:
            effects = self._effects_on(current)
        for index, (prefix, suffix, value) in enumerate(self.stamped):
            effects[prefix + stamp(sequence, index) + suffix] = value
        return effects

    def stamped_size(self) -> int:
        return sum([len(prefix) + STAMP_BYTES + len(suffix) + len(value) for prefix, suffix, value in self.stamped])

    def _effects_on(self, current: Current) -> dict[bytes, bytes | None]:
        effects: dict[bytes, bytes | None] = {}
        for begin, end in self.cleared:
            effects.update(dict.fromkeys(current.keys(begin, end)))
        effects.update(self.values)
        for key, delta in (self.added or {}).items():
            effects[key] = plus(current.get(key), delta)
        return effects

    def _admit(self, key: bytes, value: bytes) -> None:
        self.size += len(key) + len(value)
        self._examine(key, value)

    def _examine(self, key: bytes, value: bytes) -> None:
        """Skipped for an ordinary key in a small transaction: if the sum is small, so is every part."""
        if not key or key >= FIRST_RESERVED_KEY:
            raise InvalidRequest("a key is not empty, and keys from ff on belong to the store")
        if len(key) > MAX_ROW_KEY_BYTES:
            raise TransactionTooLarge(f"a key of {len(key)} bytes; the limit is {MAX_ROW_KEY_BYTES}")
        if len(value) > MAX_ROW_VALUE_BYTES:
            raise TransactionTooLarge(f"a value of {len(value)} bytes; the limit is {MAX_ROW_VALUE_BYTES}")
        if self.size > MAX_TRANSACTION_BYTES:
            raise TransactionTooLarge(f"{self.size} bytes in one transaction; the limit is {MAX_TRANSACTION_BYTES}")


class ReadingBuffer(WriteBuffer):
    """Reads through the buffer to the store below it."""

    def __init__(self, base: Snapshot) -> None:
        self.values = {}
        self._base = base

    @property
    def is_read_only(self) -> bool:
        return not (self.values or self.cleared or self.added or self.stamped)

    def peek(self, key: bytes) -> bytes | None:
        if key in self.values:
            return self.values[key]
        if self.hides(key):
            return None
        if self.added and key in self.added:
            return plus(self._base.get(key), self.added[key])
        return self._base.get(key)

    def peek_range(self, begin: bytes, end: bytes, limit: int, reverse: bool) -> Sequence[KeyValue]:
        own = [(key, self.peek(key)) for key in (*self.values, *(self.added or ())) if begin <= key < end]
        if not own and not self.cleared:
            return self._base.range(begin, end, limit=limit, reverse=reverse)
        below = filterfalse(lambda row: self.hides(row[0]), scan(self._base, begin, end, limit, reverse))
        return list(islice(layered(below, own, reverse), limit))


class DirectTransaction(ReadingBuffer):
    """What `transact` gives to its function. The function runs without interleaving, so it reads the current state and
    what it read is not tracked. (If it commits something else itself, it is run again in a transaction that tracks
    its reads.)"""

    @property
    def snapshot(self) -> Snapshot:
        return self

    def get(self, key: bytes) -> bytes | None:
        values = self.values
        if key in values:
            return values[key]
        if self.cleared or self.added:
            return self.peek(key)
        return self._base.get(key)

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        return self.peek_range(begin, end, limit, reverse)

    def add_read_conflict(self, begin: bytes, end: bytes) -> None:
        """Nothing can conflict with it."""

    def commit(self) -> None:
        raise AssertionError("`transact` commits when its function returns")


class BufferedTransaction(ReadingBuffer):
    """Tracks what it read. `apply` is the driver's commit."""

    read_ranges: tuple[tuple[bytes, bytes], ...] = ()

    def __init__(self, view: VersionedView, apply: Callable[["BufferedTransaction"], None]) -> None:
        self.values = {}
        self.read_keys: set[bytes] = set()
        self.view = self._base = view
        self._apply: Callable[[BufferedTransaction], None] | None = apply

    def commit(self) -> None:
        apply, self._apply = self._apply, None
        assert apply is not None, "a transaction is committed once"
        if not self.is_read_only:
            apply(self)

    @property
    def snapshot(self) -> Snapshot:
        return SnapshotReads(self)

    def get(self, key: bytes) -> bytes | None:
        # A value written here does not depend on what others commit; any other comes from the store below.
        if key in self.values:
            return self.values[key]
        self.read_keys.add(key)
        if self.cleared or self.added:
            return self.peek(key)
        return self._base.get(key)

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        rows = self.peek_range(begin, end, limit, reverse)
        if len(rows) == limit:
            # Nothing beyond the last row was read.
            begin, end = (rows[-1][0], end) if reverse else (begin, rows[-1][0] + b"\x00")
        self.add_read_conflict(begin, end)
        return rows

    def add_read_conflict(self, begin: bytes, end: bytes) -> None:
        self.read_ranges += ((begin, end),)


class SnapshotReads:
    """A transaction's reads without their conflicts."""

    __slots__ = ("_transaction",)

    def __init__(self, transaction: BufferedTransaction) -> None:
        self._transaction = transaction

    def get(self, key: bytes) -> bytes | None:
        return self._transaction.peek(key)

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        return self._transaction.peek_range(begin, end, limit, reverse)


def plus(value: bytes | None, delta: int) -> bytes:
    """The sum as a little-endian signed 64-bit integer, wrapping; an absent value is 0."""
    if value is not None and len(value) != 8:
        raise InvalidRequest(f"{len(value)} bytes are not a 64-bit integer to add to")
    total = int.from_bytes(value or b"", "little") + delta
    return (total & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little")


def stamp(sequence: int, index: int) -> bytes:
    """Rises with the commits, and within one with the rows it stamps."""
    return (sequence << 16 | index).to_bytes(STAMP_BYTES, "big")


FIRST_ROWS = 4
FETCHED_BYTES = 256 << 10
"""Rows a scan fetches before it knows how long they are, and bytes it fetches at a time after that: the first row must
not wait for 256 rows of a megabyte each."""


def scan(view: Snapshot, begin: bytes, end: bytes, page: int, reverse: bool) -> Iterator[KeyValue]:
    """All rows of a range, fetched a few at a time and then more, up to a page, unless they are long."""
    size = min(page, FIRST_ROWS)
    while True:
        rows = view.range(begin, end, limit=size, reverse=reverse)
        yield from rows
        if len(rows) < size:
            return
        begin, end = (begin, rows[-1][0]) if reverse else (rows[-1][0] + b"\x00", end)
        fetched = sum([len(value) for _, value in rows])
        size = max(1, min(page, 4 * size, size * FETCHED_BYTES // max(1, fetched)))


def layered(rows: Iterable[KeyValue], changes: list[tuple[bytes, bytes | None]], reverse: bool) -> Iterator[KeyValue]:
    """Ordered rows with the changes applied."""
    changes = sorted(changes, key=itemgetter(0), reverse=reverse)
    hidden = {key for key, _ in changes}
    shown = filterfalse(lambda row: row[0] in hidden, rows)
    for key, value in heapq.merge(shown, changes, key=itemgetter(0), reverse=reverse):
        if value is not None:
            yield key, value
