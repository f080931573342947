"""The embedded store: a log of our own in front of LMDB.

    commit          visible at once, in the open memtable; one that is not urgent waits there for the next flush, a few
                    milliseconds at most
    end of a tick   the open memtable becomes one frame of the log, written and synced in a thread; then its rows join
                    those of the generation, the next flush starts, and callbacks are called. After a flush of many
                    commits the next waits for a millisecond to be over since that began
    log is long     the generation is frozen, and a new one begins with a new segment of the log; the frozen one goes to
                    the tree in one synced transaction, in a second thread, and its segment is deleted
    start           frames of the log that are not in the tree become a frozen generation; a new segment begins

Reads look through the memtables to the tree (`memtable.py`). Memory and the time of a start depend on the length of the
log, never on the number of rows.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace

from epoxy.model.api import DiskUsage
from epoxy.model.errors import StoreFailed
from epoxy.ports import Snapshot, StoreCut
from epoxy.store.buffer import WriteBuffer, stamp
from epoxy.store.conflicts import Values
from epoxy.store.cut import ViewCut
from epoxy.store.embedded.files import LOG_FOLDER, SYSTEM_FILES, TREE_FOLDER, Files
from epoxy.store.embedded.io_thread import IoExecutor, IoThread, Post
from epoxy.store.embedded.log import LogPosition, WriteAheadLog
from epoxy.store.embedded.log_lane import LogLane, Readers
from epoxy.store.embedded.memtable import EMPTY, MISSING, Memtable, MemtableStack, Replaced, StoreView
from epoxy.store.embedded.migration import PREVIOUS, forget_previous
from epoxy.store.embedded.recovery import recover
from epoxy.store.embedded.scrub import ScrubPage, verify
from epoxy.store.embedded.space import cause_of, not_opened, usage_of
from epoxy.store.embedded.syncs import SyncTimes
from epoxy.store.embedded.tree import DamageReports, Tree
from epoxy.store.mvcc import UndoLog
from epoxy.store.transact import Transactor

FEW_COMMITS = 4
"""In one sync, at most: with so few the loop has little else to do, and may wait for the disk."""

MANY_COMMITS = 16
"""In one flush, as dozens of clients make them. Sixteen clients make seven, and would gain nothing by waiting."""

PAUSE_MS = 1.0
"""From the beginning of such a flush to that of the next. A quick disk is done in a quarter of that; and with the
frames that follow it a sync costs 0.2 ms of CPU, as much as two commits."""

LOG_BYTES = 16 << 20
"""A generation: about 30,000 commits of small values. It takes some 40 MB of memory, twice that while one is on its way
to the tree, and a few tenths of a second to replay."""

MAX_LOG_BYTES = 16 * LOG_BYTES
"""If sixteen generations are committed during one checkpoint, the disk cannot keep up. Then flushes wait for it, and
callers for their acknowledgements, which bounds the log and the memory."""


DELAY_MS = 2.5
"""For commits that are not urgent: how much longer than a message readers of other datacenters wait for news, twice
that at the most. A home that goes on writing needs a vote sooner, and its sync has the news of the last commit, too."""


class EmbeddedStore(Transactor):
    """Belongs to one event loop. `post` runs a function there from any thread (`loop.call_soon_threadsafe`), `schedule`
    at the end of the current tick (`loop.call_soon`), `delay` after `DELAY_MS`; without it all commits are urgent.
    `pause` runs one after `PAUSE_MS`; without it a flush begins as soon as the one before has ended. With `readers`,
    the loop again, frames are written without the interpreter's lock where that was compiled. After `on_failure` the
    process must end: the last commits may or may not be on the disk, and are never acknowledged."""

    def __init__(
        self,
        folder: Path,
        *,
        post: Post,
        schedule: Post,
        on_failure: Callable[[StoreFailed], None],
        on_rot: Callable[[bytes], None] | None = None,
        delay: Post | None = None,
        pause: Post | None = None,
        io_thread: Callable[[str, Post], IoExecutor] | None = None,
        readers: Readers | None = None,
        log_bytes: int = LOG_BYTES,
        files: Files = SYSTEM_FILES,
    ) -> None:
        super().__init__()
        self._rotten: set[bytes] = set()
        """Keys that were reported, until they are written again."""
        self._mended = False
        """A rotten row was written again: the generation goes to the tree soon."""
        # Posted, since cuts are read in a thread.
        reports = DamageReports(
            on_rot=lambda key: post(lambda: self._report_rot(key)),
            on_damage=lambda failure: post(lambda: self._fail(failure)),
        )
        try:
            self._tree, self._log, replayed, reached = open_folder(folder, log_bytes, files, reports)
        except OSError as error:
            raise not_opened(error, str(folder), folder, files) from error
        self._folder = folder
        self._files = files
        self._has_previous = files.exists(folder / PREVIOUS)
        self._schedule = schedule
        self._on_failure = on_failure
        self._on_rot = on_rot
        self._delay = delay
        self._pause = pause
        self._log_limit = log_bytes
        self._writer = (io_thread or IoThread)("epoxy-log", post)
        self._lane = LogLane(self._log, self._writer, inline=io_thread is None)
        if readers is not None and (frame_writer := files.frame_writer()) is not None:
            self._lane.watch(frame_writer, readers)
        self._checkpointer = (io_thread or IoThread)("epoxy-checkpoint", post)
        self._levels = MemtableStack(Memtable(), EMPTY, Memtable(), Memtable(replayed), self._tree.view())
        self._durable = self._levels.durable()
        # One view for all reads between two flushes.
        self._durable_view: StoreView | None = None
        self._undo: UndoLog[Replaced] = UndoLog()
        self._durable_undo: UndoLog[Replaced] = UndoLog()
        self._sequence = reached.sequence
        self._position = reached.frame
        self._counted = False
        """Whether a commit since the last flush began counts for the position."""
        self._log_bytes = 0
        self._scheduled = self._writing = self._pausing = False
        self._closed = False
        self._cuts: list[tuple[int, Callable[[StoreCut], None]]] = []
        """Wanted: with the commits that the tree must have."""
        self._frozen_through = 0
        """The commits that the tree will have after the checkpoint under way, or has."""
        self._checkpointing = True
        self._rotated(reached)

    def view(self) -> StoreView:
        return StoreView(self._levels, self._undo.begin_read())

    def newest(self) -> Snapshot:
        if self._dead is not None:
            raise StoreFailed(self._dead)
        return self._levels

    def durable(self) -> Snapshot:
        if self._durable_view is None:
            self._assert_alive()
            self._durable_view = StoreView(self._durable, self._durable_undo.begin_read())
        return self._durable_view

    def cut(self, done: Callable[[StoreCut], None]) -> None:
        """The tree right after a checkpoint that is made for it: LMDB keeps the pages of that moment. A view of the
        memtables would keep every value that is overwritten while it is read."""
        self._assert_alive()
        self._cuts.append((self.commits, done))
        self._freeze_if_due()

    def newest_stamp(self) -> int:
        return self._sequence

    def position(self) -> int:
        return self._position

    @property
    def syncs(self) -> SyncTimes:
        return self._log.syncs

    def longest_sync_ms(self) -> float:
        """Of the last seconds: every acknowledgement waits for a sync."""
        return 1000 * self._log.syncs.longest_s()

    def disk_usage(self) -> DiskUsage:
        log, tree = self._folder / LOG_FOLDER, self._folder / TREE_FOLDER
        return usage_of(self._folder, log, tree, self._files, self._log.syncs.recent())

    def scrub(self, after: bytes, rows: int, done: Callable[[ScrubPage], None]) -> None:
        """Check the rows of the tree that come after this key, at most so many, in the checkpoints' thread."""
        self._assert_alive()
        self._checkpointer.submit(
            lambda: verify(self._tree.view(), after, rows), lambda page: self._scrubbed(page, done), self._fail
        )

    def _scrubbed(self, page: ScrubPage, done: Callable[[ScrubPage], None]) -> None:
        if self._dead is not None:
            return
        # What was written since is on its way to the tree, in place of the rotten row.
        rotten = tuple(key for key in page.rotten if self._levels.in_memory(key) is MISSING)
        for key in rotten:
            self._report_rot(key)
        done(replace(page, rotten=rotten))

    def _report_rot(self, key: bytes) -> None:
        if self._dead is None and key not in self._rotten:
            self._rotten.add(key)
            if self._on_rot is not None:
                self._on_rot(key)

    def close(self) -> None:
        """What is not durable by now may be lost."""
        if self._closed:
            return
        self._closed = True
        if self._dead is None:
            self._die("the store is closed")
        self._lane.close()
        self._writer.close()
        self._checkpointer.close()
        self._log.close()
        self._tree.close()

    def write(self, transaction: WriteBuffer) -> None:
        levels = self._levels
        sequence = self._sequence + 1 if transaction.stamped else self._sequence
        effects = transaction.effects(levels, sequence)
        if None in effects.values():
            # Clearing an absent key changes nothing.
            for key in [key for key, value in effects.items() if value is None and not levels.holds(key)]:
                del effects[key]
        if self._undo.has_readers():
            self._undo.record({key: levels.replaced(key) for key in effects})
        levels.open.add(effects)
        if transaction.stamped:
            self._stamped_bytes += transaction.stamped_size()
        self._sequence = sequence
        self._counted = True
        self.commits += 1
        self._want()

    def put(
        self,
        rows: dict[bytes, bytes | None],
        stamped: tuple[bytes, bytes, bytes] | None,
        *,
        urgent: bool = True,
    ) -> None:
        """As `write`, for the hot path of commits: clearing an absent key is not detected, and adds it to the log."""
        self._counted = True
        if stamped is not None:
            self._sequence += 1
            row, value = stamped[0] + stamp(self._sequence, 0) + stamped[1], stamped[2]
            rows[row] = value
            self._stamped_bytes += len(row) + len(value)
        self._add(rows)
        if urgent:
            self._want()
        else:
            self._want_later()

    def put_batch(
        self, rows: dict[bytes, bytes | None], stamped: Sequence[Sequence[tuple[bytes, bytes, bytes]]], *, counts: bool
    ) -> int:
        """Commits that were made elsewhere, together: their rows, and of each of them that has some the rows to be
        stamped. Returns the last stamp given."""
        for commit in stamped:
            self._sequence += 1
            for index, (prefix, suffix, value) in enumerate(commit):
                row = prefix + stamp(self._sequence, index) + suffix
                rows[row] = value
                self._stamped_bytes += len(row) + len(value)
        self._counted |= counts
        self.commits += max(0, len(stamped) - 1)  # as many as they are: a sync with many of them is not light
        self.remember(rows)
        return self._sequence

    def remember(self, rows: dict[bytes, bytes | None]) -> None:
        self._add(rows)
        self._want()

    def _add(self, rows: dict[bytes, bytes | None]) -> None:
        if self._dead is not None:
            raise StoreFailed(self._dead)
        levels = self._levels
        if self._undo.newest is not None and self._undo.has_readers():
            self._undo.record({key: levels.replaced(key) for key in rows})
        levels.open.add(rows)
        self.commits += 1

    def _want(self) -> None:
        self._due = self.commits
        if not (self._scheduled or self._writing or self._pausing):
            self._scheduled = True
            self._schedule(self._flush)

    def _flush(self) -> None:
        """Write the open memtable to the log, if something in it is wanted. One flush, or start of a generation, is
        under way at a time, and one of many commits is followed by a pause."""
        self._scheduled = False
        if self._dead is not None or self._writing or self._pausing:
            return
        if self._due <= self._synced or self._too_far_ahead():
            return
        through, levels = self.commits, self._levels
        self._begun = through
        effects = levels.open
        self._levels = MemtableStack(Memtable(), effects, levels.active, levels.frozen, levels.tree)
        self._writing = True
        position = self._log.next_frame if self._counted else self._position
        self._counted = False

        def flushed(size: int) -> None:
            self._flushed(through, position, size)

        # Encoded here: in the thread it would wait for the interpreter's lock once more beside a busy loop.
        frame = self._log.frame(self._sequence, effects.values)
        light = through - self._synced <= FEW_COMMITS
        if self._pause is not None and through - self._synced >= MANY_COMMITS:
            self._pausing = True
            self._pause(self._pause_over)
        if self._has_previous:
            self._writer.submit(lambda: self._first_write(frame), flushed, self._fail)
        else:
            self._lane.write(frame, flushed, self._fail, light=light)

    def _pause_over(self) -> None:
        self._pausing = False
        self._flush()

    def _first_write(self, frame: bytes) -> int:
        """After a migration: what was migrated lacks this write, and must not be brought back."""
        forget_previous(self._folder, self._files)
        self._has_previous = False
        return self._log.write(frame)

    def _too_far_ahead(self) -> bool:
        return self._checkpointing and self._log_bytes >= MAX_LOG_BYTES // LOG_BYTES * self._log_limit

    def _flushed(self, through: int, position: int, size: int) -> None:
        """The next flush starts before the callbacks are called, which takes a while."""
        if self._dead is not None:
            return
        self._writing = False
        self._activate_flushed()
        self._synced = through
        self._position = position
        self._log_bytes += size
        self._freeze_if_due()
        self._flush()
        self._notify()

    def _activate_flushed(self) -> None:
        levels = self._levels
        flushed = levels.flushing.values
        self._durable_view = None
        if self._durable_undo.has_readers():
            self._durable_undo.record({key: self._durable.replaced(key) for key in flushed})
        levels.active.add(flushed)
        if self._rotten and not self._rotten.isdisjoint(flushed):
            self._rotten.difference_update(flushed)
            self._mended = True
        self._levels = MemtableStack(levels.open, EMPTY, levels.active, levels.frozen, levels.tree)

    def _notify(self) -> None:
        try:
            while self._waiting and self._waiting[0][0] <= self._synced:
                self._waiting.popleft()[1]()
        finally:
            # An exception in one callback must not stop the others.
            if self._waiting and self._waiting[0][0] <= self._synced:
                self._schedule(self._notify)

    def _freeze_if_due(self) -> None:
        """The log is long, a rotten row was written again, or a cut waits for nothing but a checkpoint."""
        if self._checkpointing or self._writing:
            return
        if self._log_bytes >= self._log_limit or self._mended or (self._cuts and self._cuts[0][0] <= self._synced):
            self._freeze()

    def _freeze(self) -> None:
        """The frame just written is the last of the generation."""
        self._checkpointing = True
        self._frozen_through = self._synced
        self._mended = False
        self._log_bytes = 0
        levels = self._levels
        self._levels = MemtableStack(levels.open, levels.flushing, Memtable(), levels.active, levels.tree)
        self._durable, self._durable_view = self._levels.durable(), None
        self._writing = True
        self._writer.submit(self._log.rotate, self._rotated, self._fail)

    def _rotated(self, reached: LogPosition) -> None:
        if self._dead is not None:
            return
        self._writing = False
        effects = self._levels.frozen.values
        self._checkpointer.submit(lambda: self._checkpoint(effects, reached), self._checkpointed, self._fail)
        self._flush()

    def _checkpoint(self, effects: Values, reached: LogPosition) -> None:
        self._tree.apply(effects, reached)
        self._log.drop(reached.generation)
        if effects:
            # A store that filled a segment will fill the next.
            self._log.prepare()

    def _checkpointed(self, _: None) -> None:
        if self._dead is not None:
            return
        try:
            tree = self._tree.view()
            cuts = self._due_cuts()
        except StoreFailed as error:
            self._fail(error)
            return
        self._checkpointing = False
        levels = self._levels
        self._levels = MemtableStack(levels.open, levels.flushing, levels.active, EMPTY, tree)
        self._durable, self._durable_view = self._levels.durable(), None
        self._freeze_if_due()
        self._flush()
        for done, cut in cuts:
            done(cut)

    def _due_cuts(self) -> list[tuple[Callable[[StoreCut], None], StoreCut]]:
        """Each with a view of its own: LMDB's are not for two threads at a time."""
        due = [done for through, done in self._cuts if through <= self._frozen_through]
        del self._cuts[: len(due)]
        views = [MemtableStack(EMPTY, EMPTY, EMPTY, EMPTY, self._tree.view()) for _ in due]
        return [(done, ViewCut(view, self._checkpointer.submit)) for done, view in zip(due, views, strict=True)]

    def _fail(self, error: Exception) -> None:
        """Never tried again: after a failed sync it is unknown what is on the disk."""
        if self._dead is None:
            reason = f"the disk failed: {cause_of(error, self._folder, self._files)}"
            self._die(reason)
            self._on_failure(StoreFailed(reason))

    def _die(self, reason: str) -> None:
        super()._die(reason)
        self._durable_view = None


def open_folder(
    folder: Path, log_bytes: int, files: Files = SYSTEM_FILES, reports: DamageReports | None = None
) -> tuple[Tree, WriteAheadLog, dict[bytes, bytes | None], LogPosition]:
    """Tree and log, the rows the log has beyond the tree, and how far it reaches. The next segment is made before older
    ones may be deleted, so a tree that was ever written always has a log."""
    log_folder, tree_folder = folder / LOG_FOLDER, folder / TREE_FOLDER
    for part in (log_folder, tree_folder):
        files.make_folder(part)
    files.sync_folder(folder)
    with ExitStack() as undo:
        tree = Tree(tree_folder, files, reports)
        undo.callback(tree.close)
        files.sync_folder(tree_folder)
        written = tree.position()
        replayed, reached = recover(log_folder, written, files)
        log = WriteAheadLog(log_folder, reached, log_bytes, files)
        undo.callback(log.close)
        if written is None:
            tree.apply({}, reached)
        undo.pop_all()
    return tree, log, replayed, reached
