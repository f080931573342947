"""The database of the processes of one machine: the embedded store of the first of them.

Rows are those of the replica, as a node that is alone writes them: a data directory is the same for one process and for
many. What PostgreSQL's locks do is done here by the order of calls in one event loop: a batch is judged and put into
the store in one call, and is durable with the store's next sync. Readers see durable rows only, and a batch that is in
the store is lost with this process alone, and with all others: it is never LOST.

    commit     FENCED, STALE_CONFIG, or a batch of the store; answered with what a flush after it reaches, so that a
               batch is one question
    flush      judged at once, and answered when all that is in the store is durable
    fence      judged at once: sessions are in memory, and every change of them is one call
    take       answered when all batches before it are durable, also those of a session that it fenced: the next owner
               reads them
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from epoxy.codec import wire
from epoxy.ports import KeyValue, StoreCut
from epoxy.store.buffer import scan
from epoxy.store.embedded.store import EmbeddedStore
from epoxy.store.local.session_table import LocalSession, SessionTable
from epoxy.store.shared.database import ExecutedBatch, GroupCommit, Reached, ShardTable, Verdict
from epoxy.store.shared.row_shards import RowShards

T = TypeVar("T")

PAGE_ROWS = 256
"""Of one step while the rows of a shard are collected."""


class LocalDatabase:
    """`schedule` calls at the end of the current tick: nothing is called back while it is asked for."""

    def __init__(
        self,
        store: EmbeddedStore,
        layout: RowShards,
        *,
        now_ms: Callable[[], float],
        schedule: Callable[[Callable[[], None]], object],
    ) -> None:
        self._store = store
        self._layout = layout
        self._schedule = schedule
        self.table = SessionTable(now_ms)
        record = store.newest().get(layout.config_row)
        self.config_epoch = wire.decode_committed_record(record).committed.version if record is not None else 0

    def adopted(self, epoch: int) -> None:
        """A configuration that the first process has put into the store by itself, in this tick."""
        self.config_epoch = max(self.config_epoch, epoch)

    # Rows.

    def commit(self, batch: GroupCommit, done: Callable[[ExecutedBatch], None]) -> None:
        session = self.table.find(batch.session)
        if session is None or batch.number > session.batch + 1:
            self._answer(done, ExecutedBatch(verdict=Verdict.FENCED))
        elif batch.number <= session.batch:
            self._confirm(session, done)
        elif self.config_epoch > batch.config_epoch:
            self._answer(done, ExecutedBatch(Verdict.STALE_CONFIG, session.batch))
        else:
            rows: dict[bytes, bytes | None] = dict.fromkeys(batch.deleted)
            rows.update([(key, value) for key, value, _ in batch.rows])
            session.sequence = self._store.put_batch(rows, batch.stamped, counts=batch.counts)
            session.batch = batch.number
            self.adopted(batch.next_config_epoch)
            self._confirm(session, done)

    def _confirm(self, session: LocalSession, done: Callable[[ExecutedBatch], None]) -> None:
        """The session's last batch is in the store."""
        executed = partial(ExecutedBatch, Verdict.DONE, session.batch, session.sequence)
        self._when_reached(session, Verdict.DONE, lambda reached: done(executed(reached)))

    def flush(self, session: int, config_epoch: int, done: Callable[[Reached], None]) -> None:
        found = self.table.find(session)
        if found is None:
            self._answer(done, Reached(verdict=Verdict.FENCED))
        else:
            verdict = Verdict.STALE_CONFIG if self.config_epoch > config_epoch else Verdict.DONE
            self._when_reached(found, verdict, done)

    def _when_reached(self, session: LocalSession, verdict: Verdict, done: Callable[[Reached], None]) -> None:
        """When all that is in the store now is durable."""
        store = self._store
        number, sequence, stamped_bytes = session.batch, store.newest_stamp(), store.stamped_bytes()

        def durable() -> None:
            done(Reached(verdict, sequence, store.position(), stamped_bytes, number))

        if store.pending:
            store.when_durable(durable)
        else:
            self._schedule(durable)

    def fence(self, session: int, config_epoch: int, done: Callable[[Verdict], None]) -> None:
        if self.table.find(session) is None:
            verdict = Verdict.FENCED
        else:
            verdict = Verdict.STALE_CONFIG if self.config_epoch > config_epoch else Verdict.DONE
        self._answer(done, verdict)

    def load(self, keys: Sequence[bytes], done: Callable[[dict[bytes, bytes] | None], None]) -> None:
        self._answer(done, self.read_rows(keys, flush=False))

    def load_shard(self, shard: int, done: Callable[[dict[bytes, bytes] | None], None]) -> None:
        view, of = self._store.durable(), self._layout.of
        ranges = self._layout.ranges_of(shard)
        self._answer(
            done,
            {
                key: value
                for begin, end in ranges
                for key, value in scan(view, begin, end, PAGE_ROWS, False)
                if of(key) == shard
            },
        )

    # Sessions and their shards.

    def open_session(self, url: str, version: str, lease_ms: float, done: Callable[[int | None], None]) -> None:
        self._answer(done, self.table.open(url, version, lease_ms))

    def renew(self, session: int, lease_ms: float, done: Callable[[ShardTable | None], None]) -> None:
        self._answer(done, self.table.renew(session, lease_ms))

    def take(
        self, session: int, shards: Sequence[int], dead: Sequence[int], done: Callable[[Sequence[int] | None], None]
    ) -> None:
        taken = self.table.take(session, shards, dead)
        self._store.when_durable(lambda: self._answer(done, taken))

    def give(self, session: int, shard: int, epoch: int, to: int, done: Callable[[bool | None], None]) -> None:
        self._answer(done, self.table.give(session, shard, epoch, to))

    def close_session(self, session: int, done: Callable[[], None]) -> None:
        self.table.close(session)
        self._schedule(done)

    # Reads that the caller waits for.

    def read_rows(self, keys: Sequence[bytes], *, flush: bool) -> dict[bytes, bytes]:  # noqa: ARG002
        """They are durable."""
        get = self._store.durable().get
        found = [(key, get(key)) for key in keys]
        return {key: value for key, value in found if value is not None}

    def read_range(
        self,
        begin: bytes,
        end: bytes,
        limit: int,
        reverse: bool,
        *,
        flush: bool,  # noqa: ARG002
    ) -> Sequence[KeyValue]:
        """They are durable."""
        return self._store.durable().range(begin, end, limit=limit, reverse=reverse)

    def position(self) -> tuple[int, int]:
        return self._store.newest_stamp(), self._store.position()

    def cut(self, done: Callable[[StoreCut | None], None]) -> None:
        self._store.cut(done)

    def close(self) -> None:
        """The store is its owner's."""

    def _answer(self, done: Callable[[T], None], answer: T) -> None:
        self._schedule(partial(done, answer))
