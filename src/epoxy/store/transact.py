"""Transactions as functions, run again after a conflict: the same for every driver."""

from collections.abc import Callable
from typing import TypeVar

from epoxy.model.errors import Conflict, TooManyConflicts
from epoxy.ports import Snapshot, Transaction
from epoxy.store.buffer import DirectTransaction, WriteBuffer
from epoxy.store.limits import MAX_ATTEMPTS

T = TypeVar("T")


class Transactor:
    """A driver implements `begin`, `newest` and `write`, and counts its commits."""

    commits = 0

    def begin(self) -> Transaction:
        raise NotImplementedError

    def newest(self) -> Snapshot:
        """The current state, commits that are not durable included. Valid until the next commit only."""
        raise NotImplementedError

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

    def put(self, rows: dict[bytes, bytes | None], stamped: tuple[bytes, bytes, bytes] | None) -> None:
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
