"""The embedded store: a log of our own in front of LMDB.

    commit          visible at once, in a layer in memory; its effects join the open batch
    end of a tick   the batch becomes one frame of the log, written and synced in a thread; then those who wait are told
    log is long     the layer is frozen, and commits go on in a new one with a new segment of the log; the frozen layer
                    goes to the tree in one synced transaction, in a second thread, and its segment is deleted
    start           what the log is ahead of the tree is read into a frozen layer, and a new segment is begun

Reads look into the layer commits go to, the frozen one, and the tree. Memory and the time a start takes depend on the
length of the log, never on the number of rows.
"""

from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from epoxy.model.errors import Conflict, StoreFailed, StoreRefused, TooManyConflicts
from epoxy.ports import Snapshot
from epoxy.store.buffer import BufferedTransaction
from epoxy.store.conflicts import Values
from epoxy.store.lane import Lane, Post, ThreadLane
from epoxy.store.limits import MAX_ATTEMPTS
from epoxy.store.log import Log, Position, recover, sync_folder
from epoxy.store.overlay import Before, Layer, Levels, Past, View
from epoxy.store.tree import Tree

T = TypeVar("T")

LOG_BYTES = 16 << 20
"""A generation: about 30,000 commits of small values. In memory it takes some 40 MB, twice that while one is on its way
to the tree; and replaying it takes a few tenths of a second."""

MAX_LOG_BYTES = 16 * LOG_BYTES
"""If sixteen generations are committed while one goes to the tree, the disk cannot keep up. Then nothing is synced
until it has caught up: callers wait for their acknowledgements, and so the log and the memory stay bounded."""


class Batch(Past):
    """The commits that share a sync. Filled by commits, closed when its flush starts."""

    __slots__ = ("effects", "sequence")

    def __init__(self) -> None:
        super().__init__()
        self.effects: dict[bytes, bytes | None] = {}
        self.sequence = 0

    def add(self, effects: Values, before: Before, sequence: int) -> None:
        self.effects.update(effects)
        self.sequence = sequence
        for key, value in before.items():
            self.before.setdefault(key, value)


class EmbeddedTransaction(BufferedTransaction):
    def __init__(self, store: "EmbeddedStore", view: View) -> None:
        super().__init__(view)
        self.view = view
        self._store: EmbeddedStore | None = store

    def commit(self) -> None:
        store, self._store = self._store, None
        assert store is not None, "a transaction is committed once"
        if not self.is_read_only:
            store.apply(self)


class EmbeddedStore:
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
        lane: Callable[[str, Post], Lane] = ThreadLane,
        log_bytes: int = LOG_BYTES,
    ) -> None:
        try:
            self._tree, self._log, replayed, reached = open_folder(folder, log_bytes)
        except OSError as error:
            raise StoreRefused(f"{folder}: {error}") from error
        self._schedule = schedule
        self._on_failure = on_failure
        self._log_limit = log_bytes
        self._writer = lane("epoxy-log", post)
        self._checkpointer = lane("epoxy-checkpoint", post)
        self._levels = Levels(Layer(), Layer(replayed), self._tree.view())
        self._newest = Past()
        self._batch = Batch()
        self._unsynced: Past = self._batch
        self._sequence = reached.sequence
        self._committed = self._synced = 0
        self._log_bytes = 0
        self._scheduled = self._flushing = False
        self._closed = False
        self._dead: str | None = None
        # As long as its callers have requests in flight: whoever bounds those bounds this.
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._checkpointing = True
        self._frozen(reached)

    def begin(self) -> EmbeddedTransaction:
        self._assert_alive()
        return EmbeddedTransaction(self, View(self._levels, self._newest))

    def transact(self, body: Callable[[EmbeddedTransaction], T]) -> T:
        for _ in range(MAX_ATTEMPTS):
            transaction = self.begin()
            try:
                result = body(transaction)
                transaction.commit()
            except Conflict:
                continue
            return result
        raise TooManyConflicts(f"{MAX_ATTEMPTS} attempts, each overtaken by another transaction")

    def when_durable(self, done: Callable[[], None]) -> None:
        if self._dead is not None:
            return
        if self._synced < self._committed or self._waiting:
            self._waiting.append((self._committed, done))
        else:
            done()

    def durable(self) -> Snapshot:
        self._assert_alive()
        return View(self._levels, self._unsynced)

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
        sequence = self._sequence + 1 if transaction.stamped else self._sequence
        effects, before = self._levels.apply(transaction.effects(View(self._levels, self._newest), sequence))
        self._newest = self._newest.record(before)
        self._batch.add(effects, before, sequence)
        self._sequence = sequence
        self._committed += 1
        self._plan_flush()

    def _plan_flush(self) -> None:
        if not (self._scheduled or self._flushing):
            self._scheduled = True
            self._schedule(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        if self._dead is not None or self._too_far_ahead():
            return
        batch, through = self._batch, self._committed
        self._batch = batch.next = Batch()
        self._flushing = True
        self._writer.submit(
            lambda: self._log.append(batch.sequence, batch.effects),
            lambda size: self._flushed(batch, through, size),
            self._fail,
        )
        if self._log_bytes >= self._log_limit and not self._checkpointing:
            self._freeze()

    def _too_far_ahead(self) -> bool:
        return self._checkpointing and self._log_bytes >= MAX_LOG_BYTES // LOG_BYTES * self._log_limit

    def _flushed(self, batch: Batch, through: int, size: int) -> None:
        if self._dead is not None:
            return
        assert batch.next is not None, "a batch is closed before it is written"
        self._unsynced = batch.next
        self._synced = through
        self._log_bytes += size
        self._flushing = False
        if self._synced < self._committed:
            self._plan_flush()
        self._tell()

    def _tell(self) -> None:
        try:
            while self._waiting and self._waiting[0][0] <= self._synced:
                self._waiting.popleft()[1]()
        finally:
            # One that raises must not silence those behind it.
            if self._waiting and self._waiting[0][0] <= self._synced:
                self._schedule(self._tell)

    def _freeze(self) -> None:
        """The batch just handed over was the generation's last."""
        self._checkpointing = True
        self._log_bytes = 0
        self._levels = Levels(Layer(), self._levels.active, self._levels.tree)
        self._writer.submit(self._log.rotate, self._frozen, self._fail)

    def _frozen(self, reached: Position) -> None:
        if self._dead is None:
            effects = self._levels.frozen.values
            self._checkpointer.submit(lambda: self._checkpoint(effects, reached), self._checkpointed, self._fail)

    def _checkpoint(self, effects: Values, reached: Position) -> None:
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
        self._levels = Levels(self._levels.active, Layer(), tree)
        if self._synced < self._committed:
            self._plan_flush()

    def _fail(self, error: Exception) -> None:
        """Never tried again: after a failed sync nobody can say what is on the disk."""
        if self._dead is None:
            self._die(f"the disk failed: {error}")
            self._on_failure(StoreFailed(self._dead))

    def _die(self, reason: str) -> None:
        self._dead = reason
        self._waiting.clear()

    def _assert_alive(self) -> None:
        if self._dead is not None:
            raise StoreFailed(self._dead)


def open_folder(folder: Path, log_bytes: int) -> tuple[Tree, Log, dict[bytes, bytes | None], Position]:
    """Tree and log, what the log is ahead, and how far it reaches. The next segment is there before the older ones may
    go, so a tree that was ever written always has a log behind it."""
    log_folder, tree_folder = folder / "log", folder / "tree"
    for part in (log_folder, tree_folder):
        part.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder)
    with ExitStack() as undo:
        tree = Tree(tree_folder)
        undo.callback(tree.close)
        written = tree.position()
        replayed, reached = recover(log_folder, written)
        log = Log(log_folder, reached, log_bytes)
        undo.callback(log.close)
        if written is None:
            tree.apply({}, reached)
        undo.pop_all()
    return tree, log, replayed, reached
