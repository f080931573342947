"""The embedded store: a log of our own in front of LMDB.

    commit          visible at once, in the open layer in memory
    end of a tick   the open layer becomes one frame of the log, written and synced in a thread; then it joins the rows
                    of its generation, the next flush starts, and those who wait are told
    log is long     the generation is frozen, and a new one begins with a new segment of the log; the frozen one goes to
                    the tree in one synced transaction, in a second thread, and its segment is deleted
    start           what the log is ahead of the tree is read into a frozen generation, and a new segment is begun

Reads look through the layers to the tree (`overlay.py`). Memory and the time a start takes depend on the length of the
log, never on the number of rows.
"""

from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from epoxy.model.errors import Conflict, StoreFailed, StoreRefused
from epoxy.ports import Snapshot
from epoxy.store.buffer import BufferedTransaction, WriteBuffer, stamp
from epoxy.store.conflicts import Values
from epoxy.store.embedded.io_thread import AdaptiveIoThread, IoExecutor, IoThread, Post
from epoxy.store.embedded.log import LogPosition, WriteAheadLog, recover, sync_folder
from epoxy.store.embedded.memtable import NOTHING, Memtable, MemtableStack, Replaced, StoreView
from epoxy.store.embedded.space import cause_of
from epoxy.store.embedded.tree import Tree, TreeView
from epoxy.store.mvcc import UndoLog
from epoxy.store.transact import Transactor

LOG_FOLDER, TREE_FOLDER = "log", "tree"

FEW_COMMITS = 4
"""They share a sync, so hardly anybody waits for the loop: then the disk may."""

LOG_BYTES = 16 << 20
"""A generation: about 30,000 commits of small values. In memory it takes some 40 MB, twice that while one is on its way
to the tree; and replaying it takes a few tenths of a second."""

MAX_LOG_BYTES = 16 * LOG_BYTES
"""If sixteen generations are committed while one goes to the tree, the disk cannot keep up. Then nothing is synced
until it has caught up: callers wait for their acknowledgements, and so the log and the memory stay bounded."""


class EmbeddedTransaction(BufferedTransaction):
    def __init__(self, store: "EmbeddedStore", view: StoreView) -> None:
        super().__init__(view)
        self.view = view
        self._store: EmbeddedStore | None = store

    def commit(self) -> None:
        store, self._store = self._store, None
        assert store is not None, "a transaction is committed once"
        if not self.is_read_only:
            store.apply(self)


class EmbeddedStore(Transactor):
    """Belongs to one event loop. `post` runs a function there from any thread (`loop.call_soon_threadsafe`), `schedule`
    at the end of the current tick (`loop.call_soon`). After `on_failure` the process must end: what was committed last
    may or may not be on the disk, and nobody will be told."""

    def __init__(
        self,
        folder: Path,
        *,
        post: Post,
        schedule: Post,
        on_failure: Callable[[StoreFailed], None],
        lane: Callable[[str, Post], IoExecutor] | None = None,
        log_bytes: int = LOG_BYTES,
    ) -> None:
        try:
            self._tree, self._log, replayed, reached = open_folder(folder, log_bytes)
        except OSError as error:
            raise StoreRefused(f"{folder}: {cause_of(error, folder)}") from error
        self._folder = folder
        self._schedule = schedule
        self._on_failure = on_failure
        self._log_limit = log_bytes
        self._writer = (lane or AdaptiveIoThread)("epoxy-log", post)
        self._checkpointer = (lane or IoThread)("epoxy-checkpoint", post)
        self._levels = MemtableStack(Memtable(), NOTHING, Memtable(), Memtable(replayed), self._tree.view())
        self._durable = self._levels.durable()
        # Shared by all who look between two flushes: it is asked for with every read.
        self._durable_view: StoreView | None = None
        self._readers: UndoLog[Replaced] = UndoLog()
        self._durable_readers: UndoLog[Replaced] = UndoLog()
        self._sequence = reached.sequence
        self._synced = 0
        self._log_bytes = 0
        self._scheduled = self._writing = False
        self._closed = False
        self._dead: str | None = None
        # As long as its callers have requests in flight: whoever bounds those bounds this.
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._checkpointing = True
        self._frozen(reached)

    def begin(self) -> EmbeddedTransaction:
        self._assert_alive()
        return EmbeddedTransaction(self, StoreView(self._levels, self._readers.join()))

    def newest(self) -> Snapshot:
        if self._dead is not None:
            raise StoreFailed(self._dead)
        return self._levels

    def when_durable(self, done: Callable[[], None]) -> None:
        if self._dead is not None:
            return
        if self._synced < self.commits or self._waiting:
            self._waiting.append((self.commits, done))
        else:
            done()

    def durable(self) -> Snapshot:
        if self._durable_view is None:
            self._assert_alive()
            self._durable_view = StoreView(self._durable, self._durable_readers.join())
        return self._durable_view

    def newest_stamp(self) -> int:
        return self._sequence

    def longest_sync_ms(self) -> float:
        """Of the last seconds: what everything that is acknowledged waits for at least."""
        return 1000 * self._log.syncs.longest_s()

    def close(self) -> None:
        """Whatever is not durable by now may be lost."""
        if self._closed:
            return
        self._closed = True
        if self._dead is None:
            self._die("the store is closed")
        self._writer.close()
        self._checkpointer.close()
        self._log.close()
        self._tree.close()

    def apply(self, transaction: EmbeddedTransaction) -> None:
        """The commit: all of it or, after a conflict, nothing."""
        self._assert_alive()
        if transaction.view.has_changed(transaction.read_keys, transaction.read_ranges):
            raise Conflict("what this transaction read has changed since it began")
        self.write(transaction)

    def write(self, transaction: WriteBuffer) -> None:
        levels = self._levels
        sequence = self._sequence + 1 if transaction.stamped else self._sequence
        effects = transaction.effects(levels, sequence)
        if None in effects.values():
            # Clearing what is absent changes nothing.
            for key in [key for key, value in effects.items() if value is None and levels.get(key) is None]:
                del effects[key]
        if self._readers.any():
            self._readers.record({key: levels.replaced(key) for key in effects})
        levels.open.add(effects)
        self._sequence = sequence
        self.commits += 1
        if not (self._scheduled or self._writing):
            self._scheduled = True
            self._schedule(self._flush)

    def put(self, rows: dict[bytes, bytes | None], stamped: tuple[bytes, bytes, bytes] | None) -> None:
        """As `write`, on the way of every commit. That a row which is not there is cleared costs its key in the log."""
        if self._dead is not None:
            raise StoreFailed(self._dead)
        levels = self._levels
        if stamped is not None:
            self._sequence += 1
            rows[stamped[0] + stamp(self._sequence, 0) + stamped[1]] = stamped[2]
        if self._readers.newest is not None and self._readers.any():
            self._readers.record({key: levels.replaced(key) for key in rows})
        levels.open.add(rows)
        self.commits += 1
        if not (self._scheduled or self._writing):
            self._scheduled = True
            self._schedule(self._flush)

    def _flush(self) -> None:
        """Hand what is open to the log. One flush, or the start of a generation, is under way at a time."""
        self._scheduled = False
        if self._dead is not None or self._writing or self._synced == self.commits or self._too_far_ahead():
            return
        through, effects = self.commits, self._levels.open
        self._move_on(opened=Memtable(), flushing=effects)
        self._writing = True
        # Encoded here: beside a busy loop the thread would have to wait for the interpreter's lock once more.
        frame = self._log.frame(self._sequence, effects.values)
        light = through - self._synced <= FEW_COMMITS
        self._writer.submit(
            lambda: self._log.write(frame), lambda size: self._flushed(through, size), self._fail, light=light
        )

    def _too_far_ahead(self) -> bool:
        return self._checkpointing and self._log_bytes >= MAX_LOG_BYTES // LOG_BYTES * self._log_limit

    def _flushed(self, through: int, size: int) -> None:
        """The disk goes on before those who waited are told: that takes a while."""
        if self._dead is not None:
            return
        self._writing = False
        self._keep_flushed()
        self._synced = through
        self._log_bytes += size
        if self._log_bytes >= self._log_limit and not self._checkpointing:
            self._freeze()
        self._flush()
        self._tell()

    def _keep_flushed(self) -> None:
        flushed = self._levels.flushing.values
        self._durable_view = None
        if self._durable_readers.any():
            self._durable_readers.record({key: self._durable.replaced(key) for key in flushed})
        self._levels.active.add(flushed)
        self._move_on(flushing=NOTHING)

    def _move_on(
        self,
        *,
        opened: Memtable | None = None,
        flushing: Memtable | None = None,
        active: Memtable | None = None,
        frozen: Memtable | None = None,
        tree: TreeView | None = None,
    ) -> None:
        now = self._levels
        self._levels = MemtableStack(
            opened or now.open, flushing or now.flushing, active or now.active, frozen or now.frozen, tree or now.tree
        )

    def _tell(self) -> None:
        try:
            while self._waiting and self._waiting[0][0] <= self._synced:
                self._waiting.popleft()[1]()
        finally:
            # One that raises must not silence those behind it.
            if self._waiting and self._waiting[0][0] <= self._synced:
                self._schedule(self._tell)

    def _freeze(self) -> None:
        """The frame just written was the generation's last."""
        self._checkpointing = True
        self._log_bytes = 0
        self._move_on(active=Memtable(), frozen=self._levels.active)
        self._durable, self._durable_view = self._levels.durable(), None
        self._writing = True
        self._writer.submit(self._log.rotate, self._frozen, self._fail)

    def _frozen(self, reached: LogPosition) -> None:
        if self._dead is not None:
            return
        self._writing = False
        effects = self._levels.frozen.values
        self._checkpointer.submit(lambda: self._checkpoint(effects, reached), self._checkpointed, self._fail)
        self._flush()

    def _checkpoint(self, effects: Values, reached: LogPosition) -> None:
        self._tree.apply(effects, reached)
        self._log.drop(reached.generation)

    def _checkpointed(self, _: None) -> None:
        if self._dead is not None:
            return
        try:
            tree = self._tree.view()
        except StoreFailed as error:
            self._fail(error)
            return
        self._checkpointing = False
        self._move_on(frozen=NOTHING, tree=tree)
        self._durable, self._durable_view = self._levels.durable(), None
        self._flush()

    def _fail(self, error: Exception) -> None:
        """Never tried again: after a failed sync nobody can say what is on the disk."""
        if self._dead is None:
            reason = f"the disk failed: {cause_of(error, self._folder)}"
            self._die(reason)
            self._on_failure(StoreFailed(reason))

    def _die(self, reason: str) -> None:
        self._dead = reason
        self._durable_view = None
        self._waiting.clear()

    def _assert_alive(self) -> None:
        if self._dead is not None:
            raise StoreFailed(self._dead)


def open_folder(folder: Path, log_bytes: int) -> tuple[Tree, WriteAheadLog, dict[bytes, bytes | None], LogPosition]:
    """Tree and log, what the log is ahead, and how far it reaches. The next segment is there before the older ones may
    go, so a tree that was ever written always has a log behind it."""
    log_folder, tree_folder = folder / LOG_FOLDER, folder / TREE_FOLDER
    for part in (log_folder, tree_folder):
        part.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder)
    with ExitStack() as undo:
        tree = Tree(tree_folder)
        undo.callback(tree.close)
        sync_folder(tree_folder)
        written = tree.position()
        replayed, reached = recover(log_folder, written)
        log = WriteAheadLog(log_folder, reached, log_bytes)
        undo.callback(log.close)
        if written is None:
            tree.apply({}, reached)
        undo.pop_all()
    return tree, log, replayed, reached
