"""The rows that a node sees: those in its memory, above those in the database.

    pending     written here, not known to be durable: never dropped
    cache       durable rows of the clients' keys that are owned here, bounded; also that a row is absent
    system      all rows of the system shard, where that is owned
    database    everything else, read when it is asked for; rows of other owners' shards are not kept

A view shows one moment of the rows that are owned here: the rows as they are now with later changes undone
(`store/mvcc.py`). A row that is written although its durable value is not in memory has a `FarValue` in its place, so
that a view finds it. Rows that others own, and the changelog, are as the database has them when they are read. Other
sessions' batches may be among them that a crash can still undo: pages of rows are flushed before they are shown, and
the changelog is shown up to the last stamp that this session knows to be durable.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter

from epoxy.model.errors import StoreFailed, StoreUnavailable
from epoxy.model.shards import SYSTEM_SHARD
from epoxy.ports import KeyValue
from epoxy.store.buffer import layered, scan
from epoxy.store.conflicts import overlaps
from epoxy.store.mvcc import UndoLog
from epoxy.store.shared.database import Database
from epoxy.store.shared.pending_batch import Before, FarValue, PendingBatch, StampedRow, resolve
from epoxy.store.shared.row_cache import MISSING, RowCache
from epoxy.store.shared.row_shards import CHANGELOG_SHARD, RowShards
from epoxy.store.versioned import VersionedMap

BATCH_BYTES = 8 << 20
"""A batch that is longer takes no more commits: what a database of 100 MB a second writes in a tenth of a second."""

MAX_PENDING_BYTES = 256 << 20
"""Written and not durable, while the database is away: with small values about a million commits, which is minutes.
After that commits are refused until it is back."""

PAGE_ROWS = 256
"""Rows of one query while a range is cleared."""


class SharedRows:
    """As `ports.Snapshot` these are the newest rows."""

    def __init__(self, database: Database, layout: RowShards, cache_bytes: int) -> None:
        self._database = database
        self._layout = layout
        self.owned: set[int] = set()
        self.config_epoch = 0
        self.flushed_stamp = 0
        """Up to it the changelog is known to be durable, and shown."""
        self.behind: Callable[[], None] = lambda: None
        """Called when the changelog is read: sessions may have added to it since."""
        self._writable: frozenset[int] = frozenset()
        self._pending: dict[bytes, bytes | None] = {}
        self.batches: deque[PendingBatch] = deque()
        """Not durable, the oldest first: those that are executed, then at most one on its way, then the open one."""
        self._pending_bytes = 0
        self._cache = RowCache(cache_bytes, layout.of)
        self._system = VersionedMap({})
        self.undo: UndoLog[Before] = UndoLog()
        self.durable_undo: UndoLog[Before] = UndoLog()
        self._durable_view: DurableView | None = None
        self._dead: str | None = None

    def forget(self, reason: str) -> None:
        """The session is over: another one may have changed every row. Views of these rows fail from here on."""
        self._dead, self._durable_view = reason, None
        self._pending, self.batches, self._pending_bytes = {}, deque(), 0
        self._cache, self._system = RowCache(0, self._layout.of), VersionedMap({})
        self.owned, self._writable = set(), frozenset()

    # Owned shards.

    def own(self, shards: Iterable[int], system: Mapping[bytes, bytes] | None = None) -> None:
        """`system`: all rows of the system shard, if that is among them."""
        self.owned.update(shards)
        if system is not None:
            self._system = VersionedMap(system)
        self._note_writable()

    def disown(self, shards: Sequence[int]) -> None:
        assert not any(each in shards for batch in self.batches for each in batch.shards.values()), "not durable yet"
        self.owned.difference_update(shards)
        self._cache.drop(shards)
        if SYSTEM_SHARD in shards:
            self._system = VersionedMap({})
        self._note_writable()

    def _note_writable(self) -> None:
        """The changelog is truncated by the owner of the system shard."""
        more = (CHANGELOG_SHARD,) if SYSTEM_SHARD in self.owned else ()
        self._writable = frozenset((*self.owned, *more))

    # Reads.

    def get(self, key: bytes) -> bytes | None:
        value = self._pending.get(key, MISSING)
        if value is MISSING:
            value = self._held(key)
            if value is MISSING:
                value = self._read(key)
        return value

    def get_durable(self, key: bytes) -> bytes | None:
        for batch in self.batches:
            if key in batch.before:
                return resolve(batch.before[key], self._database)
        value = self._held(key)
        return self._read(key) if value is MISSING else value

    def is_near(self, key: bytes) -> bool:
        return key in self._pending or self._held(key) is not MISSING

    def is_owned(self, key: bytes) -> bool:
        return self._layout.of(key) in self.owned

    def _held(self, key: bytes) -> bytes | None:
        """The durable value, if it is in memory. For a row that is pending, `before` has it."""
        value = self._cache.get(key)
        if value is MISSING:
            value = self._system.values.get(key, MISSING)
            if value is MISSING and SYSTEM_SHARD in self.owned and self._layout.of(key) == SYSTEM_SHARD:
                return None
        return value

    def _read(self, key: bytes) -> bytes | None:
        self.assert_alive()
        value = self._database.read_rows((key,), flush=not self.is_owned(key)).get(key)
        self.keep(key, value)
        return value

    def keep(self, key: bytes, value: bytes | None) -> None:
        """A durable row as the database has it. Only for rows that are not pending."""
        shard = self._layout.of(key)
        if shard in self.owned and shard != SYSTEM_SHARD:
            self._cache.put(key, value, shard)

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        return self.changed_range(begin, end, limit, reverse, self.pending_within(begin, end))

    def pending_within(self, begin: bytes, end: bytes) -> dict[bytes, bytes | None]:
        return {key: value for key, value in self._pending.items() if begin <= key < end}

    def durable_within(self, begin: bytes, end: bytes) -> dict[bytes, bytes | None]:
        """The durable values of pending rows. One that is still far is in the database."""
        found: dict[bytes, bytes | None] = {}
        for batch in reversed(self.batches):
            for key, before in batch.before.items():
                if begin <= key < end:
                    value = before.value if isinstance(before, FarValue) else before
                    if value is not MISSING:
                        found[key] = value
        return found

    def changed_range(
        self, begin: bytes, end: bytes, limit: int, reverse: bool, changes: Mapping[bytes, bytes | None]
    ) -> Sequence[KeyValue]:
        """The durable rows, with these changes within the range."""
        assert limit >= 1, "a range has room for a row"
        self.assert_alive()
        if begin >= end:
            return []
        below: Iterator[KeyValue]
        if SYSTEM_SHARD in self.owned and self._layout.within_system(begin, end):
            below = self._system.rows(begin, end, reverse)
        else:
            flush = True
            if self._layout.within_changelog(begin, end):
                end, flush = min(end, self._layout.changelog_after(self.flushed_stamp)), False
                self.behind()
                if begin >= end:
                    return []
            if not changes:
                return self._database.read_range(begin, end, limit, reverse, flush=flush)
            below = scan(DatabaseRows(self._database, flush=flush), begin, end, limit, reverse)
        return list(islice(layered(below, list(changes.items()), reverse) if changes else below, limit))

    def keys(self, begin: bytes, end: bytes) -> Iterable[bytes]:
        return map(itemgetter(0), scan(self, begin, end, PAGE_ROWS, False))

    def assert_alive(self) -> None:
        if self._dead is not None:
            raise StoreFailed(self._dead)

    # Writes.

    def write(self, rows: dict[bytes, bytes | None], stamped: Sequence[StampedRow], counts: bool, number: int) -> None:
        """One commit, with its number. The dict belongs to these rows from here on."""
        if self._pending_bytes > MAX_PENDING_BYTES:
            raise StoreUnavailable(f"{self._pending_bytes} bytes wait for the database, which does not answer")
        batch = self._open_batch()
        pending, before = self._pending, batch.before
        size = 0
        for key, value in rows.items():
            size += len(key) + len(value or b"")
            if key not in before:
                shard = self._layout.of(key)
                assert shard in self._writable, f"a row of shard {shard}, which is not owned here: {key!r}"
                batch.shards[key] = shard
                replaced: Before = pending.get(key, MISSING)
                if replaced is MISSING:
                    replaced = self._held(key)
                    if replaced is MISSING:
                        replaced = FarValue(key)
                before[key] = replaced
        if self.undo.has_readers():
            self.undo.record({key: pending[key] if key in pending else before[key] for key in rows})
        pending.update(rows)
        batch.rows.update(rows)
        if stamped:
            batch.stamped.append(stamped)
            size += sum([len(prefix) + len(value) for prefix, _, value in stamped])
        batch.counts |= counts
        batch.commits = number
        batch.size += size
        self._pending_bytes += size

    def _open_batch(self) -> PendingBatch:
        if self.batches:
            last = self.batches[-1]
            if not last.is_sealed and last.size < BATCH_BYTES:
                return last
        batch = PendingBatch(self.config_epoch)
        self.batches.append(batch)
        return batch

    def settle(self) -> PendingBatch:
        """The oldest batch is durable."""
        batch = self.batches.popleft()
        self._durable_view = None
        stamped: dict[bytes, Before] = {**batch.stamped_keys()}
        if self.durable_undo.has_readers():
            self.durable_undo.record(batch.before | stamped)
        if stamped and self.undo.has_readers():
            self.undo.record(stamped)
        pending = self._pending
        system: dict[bytes, bytes | None] = {}
        for key, value in batch.rows.items():
            shard = batch.shards[key]
            if shard == SYSTEM_SHARD:
                system[key] = value
            elif shard != CHANGELOG_SHARD:
                self._cache.put(key, value, shard)
            if not any(key in later.rows for later in self.batches):
                del pending[key]
        self._system.apply(system)
        self._pending_bytes -= batch.size
        return batch

    # Views.

    def view(self) -> "NewestView":
        return NewestView(self, self._database, self.undo)

    def durable(self) -> "DurableView":
        """One view for all reads between two batches."""
        if self._durable_view is None:
            self.assert_alive()
            self._durable_view = DurableView(self, self._database, self.durable_undo)
        return self._durable_view


class DatabaseRows:
    """Rows as the database has them; with `flush`, also those of other sessions."""

    def __init__(self, database: Database, *, flush: bool) -> None:
        self._database = database
        self._flush = flush

    def get(self, key: bytes) -> bytes | None:
        return self._database.read_rows((key,), flush=self._flush).get(key)

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        return self._database.read_range(begin, end, limit, reverse, flush=self._flush)


class NewestView:
    """The newest rows as they were when the view was made."""

    __slots__ = ("_changed", "_database", "_later", "_rows")

    def __init__(self, rows: SharedRows, database: Database, undo: UndoLog[Before]) -> None:
        self._rows = rows
        self._database = database
        self._later = undo.begin_read()
        self._changed: dict[bytes, Before] = {}

    @property
    def changed(self) -> dict[bytes, Before]:
        """The keys that have changed since, each with the value it had when the view was made."""
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
        self._rows.assert_alive()
        changed = self.changed
        return resolve(changed[key], self._database) if key in changed else self._get(key)

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        changes = self._pending(begin, end)
        for key, value in self.changed.items():
            if begin <= key < end:
                changes[key] = resolve(value, self._database)
        return self._rows.changed_range(begin, end, limit, reverse, changes)

    def _get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def _pending(self, begin: bytes, end: bytes) -> dict[bytes, bytes | None]:
        return self._rows.pending_within(begin, end)


class DurableView(NewestView):
    """The durable rows as they were when the view was made."""

    __slots__ = ()

    def _get(self, key: bytes) -> bytes | None:
        return self._rows.get_durable(key)

    def _pending(self, begin: bytes, end: bytes) -> dict[bytes, bytes | None]:
        return self._rows.durable_within(begin, end)
