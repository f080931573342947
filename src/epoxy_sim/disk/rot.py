"""Rows that rot: a store whose marked rows have a wrong checksum, as the embedded store finds it when it reads them."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.errors import RottenRow
from epoxy.ports import KeyValue, Snapshot, StoreCut, Transaction
from epoxy.store.embedded.scrub import ScrubPage
from epoxy.store.row_kinds import RowKind, row_of
from epoxy_sim.disk.port import SimStore

T = TypeVar("T")

MANY_ROWS = 1 << 20
"""More than any run makes."""

EVERYTHING = b"\xff"
"""Beyond every row."""


def read_rotten(key: bytes, _value: bytes) -> bytes:
    """What a read of a rotten row gives: nothing."""
    raise RottenRow(key)


class CheckedSnapshot:
    def __init__(self, view: Snapshot, rot: "RottingStore", rotten: set[bytes]) -> None:
        self._view = view
        self._rot = rot
        self._rotten = rotten

    def get(self, key: bytes) -> bytes | None:
        value = self._view.get(key)
        return self._rot.check(key, value) if value is not None and key in self._rotten else value

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        found = self._view.range(begin, end, limit=limit, reverse=reverse)
        if not self._rotten:
            return found
        return [(key, self._rot.check(key, value) if key in self._rotten else value) for key, value in found]


class CheckedTransaction(CheckedSnapshot):
    def __init__(self, transaction: Transaction, rot: "RottingStore") -> None:
        super().__init__(transaction, rot, rot.unwritten)
        self._transaction = transaction
        self.written: dict[bytes, bytes | None] = {}
        self.clear_range = transaction.clear_range
        self.add = transaction.add
        self.set_stamped = transaction.set_stamped
        self.add_read_conflict = transaction.add_read_conflict
        self.commit = transaction.commit

    def set(self, key: bytes, value: bytes) -> None:
        self.written[key] = value
        self._transaction.set(key, value)

    def clear(self, key: bytes) -> None:
        self.written[key] = None
        self._transaction.clear(key)

    @property
    def snapshot(self) -> Snapshot:
        return CheckedSnapshot(self._transaction.snapshot, self._rot, self._rot.unwritten)


class RottingStore:
    """`rotten` belongs to the disk: a row leaves it when it was written anew, durably. `unwritten` are those of them
    that were not written since, durable or not."""

    def __init__(self, store: SimStore, rotten: set[bytes]) -> None:
        self._store = store
        self.rotten = rotten
        rotten.difference_update([row for row in rotten if store.durable().get(row) is None])
        self.unwritten = set(rotten)
        self.on_rot: Callable[[bytes], None] = lambda _: None
        self.load, self.is_near, self.loads_ahead = store.load, store.is_near, store.loads_ahead
        self.when_durable, self.catch_up = store.when_durable, store.catch_up
        self.newest_stamp = store.newest_stamp
        self.position = store.position
        self.stamped_bytes = store.stamped_bytes
        self.close = store.close

    @property
    def commits(self) -> int:
        return self._store.commits

    @property
    def pending(self) -> int:
        return self._store.pending

    def rot(self, rows: Iterable[bytes]) -> None:
        """Only what is on the disk can rot. What is about to replace it is in memory, and is read from there."""
        durable, newest = self._store.durable(), self._store.newest()
        found = {row: value for row in rows if (value := durable.get(row)) is not None}
        self.rotten.update(found)
        self.unwritten.update(row for row, value in found.items() if newest.get(row) == value)
        self._forget_when_durable(found.keys() - self.unwritten)

    def rows_of(self, replica: int, kinds: Collection[RowKind]) -> list[bytes]:
        """The rows of these kinds on the disk, without those of the cluster's own keys."""
        rows = [row for row, _ in self._store.durable().range(b"\x00", EVERYTHING, limit=MANY_ROWS)]
        found = [(row, row_of(row, replica)) for row in rows]
        return [row for row, what in found if what.kind in kinds and what.name < FIRST_SYSTEM_KEY]

    def check(self, key: bytes, value: bytes) -> bytes:
        try:
            return read_rotten(key, value)
        except RottenRow:
            self.on_rot(key)
            raise

    def begin(self) -> Transaction:
        raise NotImplementedError("what simulations run uses `transact`")

    def transact(self, body: Callable[[Transaction], T]) -> T:
        tried: list[CheckedTransaction] = []

        def run(tx: Transaction) -> T:
            tried.append(CheckedTransaction(tx, self))
            return body(tried[-1])

        result = self._store.transact(run)
        self._written(tried[-1].written)
        self._forget_when_durable(tried[-1].written)
        return result

    def put(
        self,
        rows: dict[bytes, bytes | None],
        stamped: tuple[bytes, bytes, bytes] | None,
        *,
        urgent: bool = True,
    ) -> None:
        self._written(rows)
        self._store.put(rows, stamped, urgent=urgent)
        self._forget_when_durable(rows)

    def remember(self, rows: dict[bytes, bytes | None]) -> None:
        self._written(rows)
        self._store.remember(rows)
        self._forget_when_durable(rows)

    def newest(self) -> Snapshot:
        return CheckedSnapshot(self._store.newest(), self, self.unwritten)

    def durable(self) -> Snapshot:
        return CheckedSnapshot(self._store.durable(), self, self.rotten)

    def cut(self, done: Callable[[StoreCut], None]) -> None:
        self._store.cut(done)

    def scrub(self, after: bytes, rows: int, done: Callable[[ScrubPage], None]) -> None:
        found = self._store.durable().range(after + b"\x00", EVERYTHING, limit=rows)
        done(
            ScrubPage(
                rows=len(found),
                bytes=sum(len(key) + len(value) for key, value in found),
                rotten=tuple(key for key, _ in found if key in self.rotten),
                last=found[-1][0] if len(found) == rows else None,
            )
        )

    def _written(self, rows: dict[bytes, bytes | None]) -> None:
        self.unwritten.difference_update(rows)

    def _forget_when_durable(self, rows: Iterable[bytes]) -> None:
        anew = self.rotten.intersection(rows)
        if anew:
            self._store.when_durable(lambda: self.rotten.difference_update(anew))
