"""Transactions that are one function, run at once and again if need be: the same for every driver."""

from collections.abc import Callable
from typing import TypeVar

from epoxy.model.errors import Conflict, TooManyConflicts
from epoxy.ports import Snapshot, Transaction
from epoxy.store.buffer import DirectTransaction, WriteBuffer
from epoxy.store.limits import MAX_ATTEMPTS

T = TypeVar("T")


class Transactor:
    """A driver brings the four functions below, and counts its commits."""

    commits = 0

    def begin(self) -> Transaction:
        raise NotImplementedError

    def newest(self) -> Snapshot:
        """The store as it is now, commits that are not durable too. Not to be kept: it may move on."""
        raise NotImplementedError

    def write(self, transaction: WriteBuffer) -> None:
        """Commit what can no longer conflict with anything."""
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
        return self.transact_watching(body)

    def put(self, rows: dict[bytes, bytes | None], stamped: tuple[bytes, bytes, bytes] | None) -> None:
        """Every row is one that `WriteBuffer` would take."""
        buffer = WriteBuffer()
        buffer.values = rows
        if stamped is not None:
            buffer.stamped = (stamped,)
        self.write(buffer)

    def transact_watching(self, body: Callable[[Transaction], T]) -> T:
        """For a function that commits something else on its way, and may conflict with that."""
        for _ in range(MAX_ATTEMPTS):
            transaction = self.begin()
            try:
                result = body(transaction)
                transaction.commit()
            except Conflict:
                continue
            return result
        raise TooManyConflicts(f"{MAX_ATTEMPTS} attempts, each overtaken by another transaction")
