"""The store in memory: the reference for every driver, and the simulator's disk.

Commits are visible at once and durable later, many in one flush, as with group commit to a real disk: commits during a
flush wait for the next one, and those that are not urgent for one that something else begins, or for the delay. The
flush is a parameter, so that the simulator can delay it, lose it in a crash, or never finish it.
"""

from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice

from epoxy.model.errors import StoreFailed
from epoxy.ports import Snapshot, StoreCut
from epoxy.store.buffer import WriteBuffer
from epoxy.store.conflicts import Values
from epoxy.store.cut import ViewCut, at_once
from epoxy.store.transact import Post, Transactor
from epoxy.store.versioned import MapView, VersionedMap

Flush = Callable[[Callable[[], None]], None]
"""Starts to sync all commits so far, and calls back when they are durable; never, if it fails."""

SEQUENCE_ROW = b"\xff/sequence"
"""Part of `survivors`: the last stamp, so that stamps rise even when every stamped row has been cleared."""

POSITION_ROW = b"\xff/position"
"""Part of `survivors`: the position."""


class MemoryStore(Transactor):
    """`pending` transactions are committed and not yet durable. Without `flush` everything is durable at once."""

    def __init__(
        self,
        flush: Flush | None = None,
        *,
        contents: Mapping[bytes, bytes] | None = None,
        delay: Post | None = None,
    ) -> None:
        super().__init__()
        self._delay = delay
        self._urgent = True
        rows = dict(contents or {})
        self._sequence = self._durable_sequence = int.from_bytes(rows.pop(SEQUENCE_ROW, b""), "big")
        self._position = int.from_bytes(rows.pop(POSITION_ROW, b""), "big")
        self._counts = True
        self._visible = VersionedMap(rows)
        self._durable = self._visible if flush is None else VersionedMap(rows)
        self._flush = flush
        self._flushing = False
        self._pending: deque[tuple[Values, int, bool]] = deque()
        """Effects, the last stamp, and whether the position rises."""

    def view(self) -> MapView:
        return MapView(self._visible)

    def newest(self) -> Snapshot:
        if self._dead is not None:
            raise StoreFailed(self._dead)
        return self._visible

    def durable(self) -> Snapshot:
        self._assert_alive()
        return MapView(self._durable)

    def cut(self, done: Callable[[StoreCut], None]) -> None:
        self.when_durable(lambda: done(ViewCut(MapView(self._durable), at_once)))

    def newest_stamp(self) -> int:
        return self._sequence

    def position(self) -> int:
        return self._position

    def put(
        self,
        rows: dict[bytes, bytes | None],
        stamped: tuple[bytes, bytes, bytes] | None,
        *,
        urgent: bool = True,
    ) -> None:
        self._urgent = urgent
        try:
            super().put(rows, stamped)
        finally:
            self._urgent = True

    def remember(self, rows: dict[bytes, bytes | None]) -> None:
        self._counts = False
        try:
            self.put(rows, None)
        finally:
            self._counts = True

    def close(self) -> None:
        self._die("the store is closed")

    def survivors(self, keep: int = 0) -> dict[bytes, bytes]:
        """What a crash leaves: all that is durable, and the first `keep` of the other transactions. A disk may have
        written some of those, in their order."""
        assert 0 <= keep <= len(self._pending), keep
        contents, sequence, position = VersionedMap(self._durable.values), self._durable_sequence, self._position
        for effects, reached, counts in islice(self._pending, keep):
            contents.apply(effects)
            sequence = reached
            position += counts
        for row, number in ((SEQUENCE_ROW, sequence), (POSITION_ROW, position)):
            if number:
                contents.values[row] = number.to_bytes(8, "big")
        return contents.values

    def write(self, transaction: WriteBuffer) -> None:
        sequence = self._sequence + 1 if transaction.stamped else self._sequence
        effects = transaction.effects(self._visible, sequence)
        self._visible.apply(effects)
        if transaction.stamped:
            self._stamped_bytes += transaction.stamped_size()
        self._sequence = sequence
        self.commits += 1
        if self._flush is None:
            self._durable_sequence, self._synced, self._begun = sequence, self.commits, self.commits
            self._position += self._counts
            return
        self._pending.append((effects, sequence, self._counts))
        # The effects are held until they are synced; a late write to the buffer must not change them.
        transaction.values = {}
        if self._urgent:
            self._want()
        else:
            self._want_later()

    def _want(self) -> None:
        self._due = self.commits
        if self._flush is not None and not self._flushing:
            self._start_flush(self._flush)

    def _start_flush(self, flush: Flush) -> None:
        self._flushing = True
        through = self._begun = self.commits
        flush(lambda: self._flushed(flush, through))

    def _flushed(self, flush: Flush, through: int) -> None:
        """Everything up to commit number `through` is durable. What the callbacks commit shares the next flush."""
        if self._dead is not None:
            return
        assert self._synced < through, "a flush ends once"
        while self._synced < through:
            effects, self._durable_sequence, counts = self._pending.popleft()
            self._position += counts
            self._durable.apply(effects)
            self._synced += 1
        while self._waiting and self._waiting[0][0] <= self._synced:
            self._waiting.popleft()[1]()
        self._flushing = False
        if self._due > self._synced:
            self._flush_rest(flush)

    def _flush_rest(self, flush: Flush) -> None:
        """A function of its own: a callback may have failed the store, which mypyc does not see within one function."""
        if self._dead is None:
            self._start_flush(flush)
