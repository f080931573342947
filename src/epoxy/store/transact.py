"""What is the same for every driver: transactions as functions, conflicts, and callbacks for durability."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from epoxy.model.errors import Conflict, StoreFailed, TooManyConflicts
from epoxy.ports import Snapshot, Transaction
from epoxy.store.buffer import BufferedTransaction, DirectTransaction, VersionedView, WriteBuffer
from epoxy.store.limits import MAX_ATTEMPTS

T = TypeVar("T")

Post = Callable[[Callable[[], None]], object]
"""Runs a function on the store's event loop, at another time."""


class Transactor:
    """A driver implements `view`, `newest` and `write`, and counts its commits, those that are synced, and the bytes of
    stamped rows."""

    commits = 0
    loads_ahead = False
    _synced = 0
    _begun = 0
    """The commits that are synced, or that the sync under way makes durable."""
    _due = 0
    """Those that are to be durable as soon as possible."""
    _delay: Post | None = None
    """Runs a function a few milliseconds later. None: all commits are urgent."""
    _delayed = 0
    """The first commit that waits for the end of the delay under way; 0: none is under way."""
    _stamped_bytes = 0
    _dead: str | None = None
    """Why the store cannot be used any more."""

    def __init__(self) -> None:
        # Bounded by the callers' requests in flight.
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def pending(self) -> int:
        """Commits that are not durable yet."""
        return self.commits - self._synced

    def view(self) -> VersionedView:
        raise NotImplementedError

    def newest(self) -> Snapshot:
        """The current state, commits that are not durable included. Valid until the next commit only."""
        raise NotImplementedError

    def begin(self) -> BufferedTransaction:
        self._assert_alive()
        return BufferedTransaction(self.view(), self._apply)

    def _apply(self, transaction: BufferedTransaction) -> None:
        """The commit: all of it or, after a conflict, nothing."""
        self._assert_alive()
        if transaction.view.has_changed(transaction.read_keys, transaction.read_ranges):
            raise Conflict("what this transaction read has changed since it began")
        self.write(transaction)

    def load(self, rows: Sequence[bytes], then: Callable[[], None]) -> None:  # noqa: ARG002
        """All rows are near."""
        then()

    def is_near(self, rows: Sequence[bytes]) -> bool:  # noqa: ARG002
        return True

    def catch_up(self, done: Callable[[], None]) -> None:
        """The store is not shared."""
        done()

    def stamped_bytes(self) -> int:
        return self._stamped_bytes

    def when_durable(self, done: Callable[[], None], *, urgent: bool = True) -> None:
        if self._dead is not None:
            return
        if self._synced < self.commits or self._waiting:
            self._waiting.append((self.commits, done))
            if urgent and self._due < self.commits:
                self._want()
        else:
            done()

    def _want(self) -> None:
        """Sync all commits so far as soon as possible."""
        raise NotImplementedError

    def _want_later(self) -> None:
        """Sync the last commit after the delay, unless another sync comes first."""
        if self._delay is None:
            self._want()
        elif not self._delayed:
            self._delayed = self.commits
            self._delay(self._delay_over)

    def _delay_over(self) -> None:
        """Commits that came while it was under way have a delay of their own if the one it was for is synced."""
        delayed, self._delayed = self._delayed, 0
        if self._dead is not None or self._begun == self.commits:
            return
        if self._begun < delayed:
            self._want()
        else:
            self._want_later()

    def _die(self, reason: str) -> None:
        """From here on nothing is acknowledged, and every transaction fails."""
        self._dead = reason
        self._waiting.clear()

    def _assert_alive(self) -> None:
        if self._dead is not None:
            raise StoreFailed(self._dead)

    def write(self, transaction: WriteBuffer) -> None:
        """Commit without a check for conflicts."""
        raise NotImplementedError

    def transact(self, body: Callable[[Transaction], T]) -> T:
        begun = self.commits
        transaction = DirectTransaction(self.newest())
        try:
            result = body(transaction)
        except Exception:
            if self.commits == begun:
                raise
        else:
            if self.commits == begun:
                if not transaction.is_read_only:
                    self.write(transaction)
                return result
        return self.transact_tracking_reads(body)

    def put(
        self,
        rows: dict[bytes, bytes | None],
        stamped: tuple[bytes, bytes, bytes] | None,
        *,
        urgent: bool = True,  # noqa: ARG002 (a driver that can delay a sync does so)
    ) -> None:
        """Commit rows that keep the limits of `WriteBuffer`, without its checks."""
        buffer = WriteBuffer()
        buffer.values = rows
        if stamped is not None:
            buffer.stamped = (stamped,)
        self.write(buffer)

    def transact_tracking_reads(self, body: Callable[[Transaction], T]) -> T:
        """For a function that commits something else while it runs, and may conflict with that."""
        for _ in range(MAX_ATTEMPTS):
            transaction = self.begin()
            try:
                result = body(transaction)
                transaction.commit()
            except Conflict:
                continue
            return result
        raise TooManyConflicts(f"{MAX_ATTEMPTS} attempts, each overtaken by another transaction")
