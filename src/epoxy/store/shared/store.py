"""The store of a node that shares a database with the other nodes of its datacenter.

    commit          visible at once, in memory
    end of a tick   the commits become one batch: one transaction of the database with the fence in it; one is executed
                    at a time, and commits made meanwhile share the next
    executed        other sessions' batches no longer wait for it; a flush makes it durable, and the next batch is
                    executed beside that flush, not ahead of it: as many batches as syncs
    when_durable    the flush is answered. With nothing to write, a fence query stands for it: another session may have
                    taken these shards and changed their rows, so nothing that was read here is told before the
                    database has said, after the question arrived, that they are still owned

A batch whose outcome is not known is sent again under its number until the database says what became of it; so are,
in their order, batches that a crash of the server has undone before their flush. A session that is fenced, or whose
durable batches are not there, has lost its shards: the store forgets everything, calls nothing back, and says so to
its node.
"""

from collections.abc import Callable, Sequence

from epoxy.codec import wire
from epoxy.model.shards import SYSTEM_SHARD
from epoxy.ports import Snapshot, StoreCut
from epoxy.store.buffer import WriteBuffer
from epoxy.store.shared.database import Database, ExecutedBatch, GroupCommit, Reached, Verdict
from epoxy.store.shared.load_ahead import LoadAhead, Post, call_each
from epoxy.store.shared.pending_batch import PendingBatch, StampedRow
from epoxy.store.shared.row_shards import RowShards
from epoxy.store.shared.rows import NewestView, SharedRows
from epoxy.store.transact import Transactor

Asked = tuple[int, Callable[[], None]]
"""The number of the last commit that the caller has seen, and what to call when it is durable."""

CACHE_BYTES = 256 << 20
"""Durable rows in memory: with small values some 300,000 keys, each with the rows that rules read."""


class SharedStore(Transactor):
    """Belongs to one event loop, and to one session. `schedule` calls at the end of the current tick, `pause` after a
    while: before the database is asked again that did not answer. `config_epoch` is the node's configuration, of which
    the fence makes sure that the replica has no newer one. After `on_fenced` nothing of this store is of use."""

    loads_ahead = True

    def __init__(
        self,
        database: Database,
        session: int,
        replica: int,
        *,
        schedule: Post,
        pause: Post,
        reached: Reached,
        on_fenced: Callable[[str], None],
        layout: RowShards | None = None,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        super().__init__()
        self._database = database
        self._session = session
        self._schedule = schedule
        self._pause = pause
        self._on_fenced = on_fenced
        self._layout = layout or RowShards(replica)
        self._rows = SharedRows(database, self._layout, cache_bytes)
        self._loads = LoadAhead(self._rows, database, schedule, pause)
        self._rows.flushed_stamp = reached.sequence
        self._rows.behind = self._look_later
        self._position = reached.position
        self._number = 0
        """Of the last batch that was made."""
        self._settled = 0
        """Of the last one that is durable."""
        self._losses = 0
        """How often the server was found without batches that it had executed. A flush that began before the last time
        does not say what it has now."""
        self._scheduled = False
        self._executing = False
        self._flushing = False
        self._covered = 0
        """The last batch that the flush under way makes durable."""
        self._wanted: list[Callable[[], None]] = []
        """Those who want to see what others have made durable: a flush is to begin for them."""
        self._looks_later = False
        self._asked: list[Callable[[], None]] = []
        """Those for whom a fence query is under way."""
        self._fencing = False

    @property
    def config_epoch(self) -> int:
        return self._rows.config_epoch

    @config_epoch.setter
    def config_epoch(self, epoch: int) -> None:
        self._rows.config_epoch = epoch

    # Reads.

    def view(self) -> NewestView:
        return self._rows.view()

    def newest(self) -> Snapshot:
        self._assert_alive()
        return self._rows

    def durable(self) -> Snapshot:
        return self._rows.durable()

    def newest_stamp(self) -> int:
        """Of the replica, whichever session it was given to, as of this session's last flush. Commits that are not
        durable have none yet."""
        return self._rows.flushed_stamp

    def stamped_bytes(self) -> int:
        """As of that stamp, and of all time: the differences count."""
        return self._stamped_bytes

    def position(self) -> int:
        return self._position

    def load(self, rows: Sequence[bytes], then: Callable[[], None]) -> None:
        if self._dead is None:
            self._loads.load(rows, then)

    def is_near(self, rows: Sequence[bytes]) -> bool:
        return all(map(self._rows.is_near, rows))

    def cut(self, done: Callable[[StoreCut], None]) -> None:
        self._assert_alive()
        self.when_durable(lambda: self._open_cut(done))

    def _open_cut(self, done: Callable[[StoreCut], None]) -> None:
        def opened(cut: StoreCut | None) -> None:
            if self._dead is not None:
                if cut is not None:
                    cut.close()
            elif cut is None:
                self._pause(lambda: self._open_cut(done))
            else:
                done(cut)

        if self._dead is None:
            self._database.cut(opened)

    # Owned shards.

    def own(self, shards: Sequence[int], then: Callable[[], None]) -> None:
        """These shards are this session's in the database. The system shard is loaded as a whole."""
        if SYSTEM_SHARD not in shards:
            self._rows.own(shards)
            then()
            return

        def loaded(rows: dict[bytes, bytes] | None) -> None:
            if self._dead is not None:
                return
            if rows is None:
                self._pause(lambda: self.own(shards, then))
                return
            self._rows.own(shards, rows)
            self._note_config(rows.get(self._layout.config_row))
            # An empty batch, whose answer says how far the changelog reaches that is bounded here.
            self._rows.write({}, (), False, self.commits)
            self.when_durable(then)

        if self._dead is None:
            self._database.load_shard(SYSTEM_SHARD, loaded)

    def disown(self, shards: Sequence[int]) -> None:
        """Everything of these shards is durable; forget it, before another session is named as their owner."""
        self._rows.disown(shards)
        self._loads.disowned()

    def _note_config(self, record: bytes | None) -> int:
        """The epoch of a configuration that is stored here, which is in force with its row; 0: there is none."""
        epoch = wire.decode_committed_record(record).committed.version if record is not None else 0
        self.config_epoch = max(self.config_epoch, epoch)
        return epoch

    # Writes.

    def write(self, transaction: WriteBuffer) -> None:
        stamped, transaction.stamped = transaction.stamped, ()
        rows = transaction.effects(self._rows, 0)
        self._commit(rows, stamped, counts=True)

    def put(
        self,
        rows: dict[bytes, bytes | None],
        stamped: StampedRow | None,
        *,
        urgent: bool = True,  # noqa: ARG002 (all that waits is one batch)
    ) -> None:
        self._commit(rows, (stamped,) if stamped is not None else (), counts=True)

    def remember(self, rows: dict[bytes, bytes | None]) -> None:
        self._commit(rows, (), counts=False)

    def _commit(self, rows: dict[bytes, bytes | None], stamped: Sequence[StampedRow], *, counts: bool) -> None:
        self._assert_alive()
        self._rows.write(rows, stamped, counts, self.commits + 1)
        if self._layout.config_row in rows:
            self._note_config(rows[self._layout.config_row])
        self._loads.written(rows)
        self.commits += 1
        if not self._executing:
            self._begin_soon()

    def when_durable(
        self,
        done: Callable[[], None],
        *,
        urgent: bool = True,  # noqa: ARG002 (all that waits is one batch)
    ) -> None:
        """Never called at once: also what is only read is told after a fence that was asked for from here on."""
        if self._dead is not None:
            return
        self._waiting.append((self.commits, done))
        if not (self._executing or self._flushing or self._fencing):
            self._begin_soon()

    def catch_up(self, done: Callable[[], None]) -> None:
        if self._dead is None:
            self._wanted.append(done)
            if not self._flushing:
                self._begin_soon()

    def _look_later(self) -> None:
        """A reader of the changelog that comes again finds what others have made durable meanwhile."""
        if not self._looks_later:
            self._looks_later = True
            self._pause(self._look)

    def _look(self) -> None:
        self._looks_later = False
        self.catch_up(do_nothing)

    # Rounds: a flush, a batch, or a fence query.

    def _begin_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._schedule(self._begin_round)

    def _begin_round(self) -> None:
        """A flush comes first, so that the next batch is executed beside it. A batch may begin while a fence query is
        under way; no fence query begins beside what answers those who ask for one."""
        self._scheduled = False
        if self._dead is not None:
            return
        batches = self._rows.batches
        if not self._flushing and (self._wanted or (batches and batches[0].is_executed)):
            self._flushing = True
            self._flush()
        if self._executing:
            return
        place = next((place for place, each in enumerate(batches) if not each.is_executed), None)
        if place is not None:
            if not place or batches[place - 1].number <= self._covered:
                self._begin_batch(batches[place])
        elif self._waiting and not (self._flushing or self._fencing):
            self._begin_fence()

    def _begin_batch(self, batch: PendingBatch) -> None:
        self._executing = True
        if not batch.is_sealed:
            batch.is_sealed = True
            while self._waiting and self._waiting[0][0] <= batch.commits:
                batch.waiting.append(self._waiting.popleft()[1])
            self._number += 1
            batch.number = self._number
        self._load_replaced(batch)

    def _load_replaced(self, batch: PendingBatch) -> None:
        """Durable values that the batch replaces and that are not in memory, so that readers of durable rows have
        them."""
        far = batch.far()
        if not far:
            self._send(batch)
            return

        def loaded(found: dict[bytes, bytes] | None) -> None:
            if self._dead is not None:
                return
            if found is None:
                self._pause(lambda: self._load_replaced(batch))
                return
            for each in far:
                each.value = found.get(each.key)
            self._load_replaced(batch)

        if self._dead is None:
            self._database.load([each.key for each in far], loaded)

    def _group_commit(self, batch: PendingBatch) -> GroupCommit:
        rows, shards = batch.rows, batch.shards
        return GroupCommit(
            session=self._session,
            number=batch.number,
            config_epoch=batch.config_epoch,
            rows=[(key, value, shards[key]) for key, value in rows.items() if value is not None],
            deleted=[key for key, value in rows.items() if value is None and batch.replaces(key)],
            stamped=batch.stamped,
            counts=batch.counts,
            next_config_epoch=self._note_config(rows.get(self._layout.config_row)),
        )

    def _send(self, batch: PendingBatch) -> None:
        if batch.made is None:
            batch.made = self._group_commit(batch)
        self._database.commit(batch.made, lambda executed: self._sent(batch, executed))

    def _sent(self, batch: PendingBatch, executed: ExecutedBatch) -> None:
        """An answer that a server gave before it crashed may come late: what it has is what a flush says."""
        if self._dead is not None:
            return
        match executed.verdict:
            case Verdict.UNKNOWN:
                self._pause(self._executed)
            case Verdict.DONE:
                batch.is_executed, batch.sequence = True, executed.sequence
                if executed.reached is None:
                    self._executed()
                else:
                    self._executing = False
                    self._begin_and_call(self._settle(executed.reached))
            case Verdict.LOST if executed.number >= self._settled:
                self._lose_after(executed.number)
                self._executed()
            case Verdict.LOST:
                self._end(Verdict.FENCED)
            case verdict:
                self._end(verdict)

    def _executed(self) -> None:
        self._executing = False
        self._begin_round()

    def _lose_after(self, number: int) -> None:
        """The server has crashed, and has batches up to this one: those after it are executed again."""
        self._losses += 1
        for batch in self._rows.batches:
            if batch.number > number:
                batch.is_executed = False

    def _flush(self) -> None:
        """It answers those who wait for batches that are executed by now, and those who only read: it is a fence. Its
        answer may come after that of a later batch that is durable already."""
        if self._dead is not None:
            return
        executed = [each for each in self._rows.batches if each.is_executed]
        self._covered, through = (executed[-1].number, executed[-1].commits) if executed else (0, self._synced)
        asked: list[Asked] = []
        while self._waiting and self._waiting[0][0] <= through:
            asked.append(self._waiting.popleft())
        asked += [(0, done) for done in self._wanted]
        self._wanted = []
        known, losses, covered, settled = self.config_epoch, self._losses, self._covered, self._settled

        def flushed(reached: Reached) -> None:
            if self._dead is not None:
                return
            match reached.verdict:
                case Verdict.UNKNOWN:
                    self._flush_again(asked, self._pause)
                case Verdict.STALE_CONFIG if self.config_epoch > known:
                    self._flush_again(asked, self._schedule)
                case Verdict.DONE if reached.number >= settled:
                    if losses == self._losses and reached.number < covered:
                        self._lose_after(reached.number)
                    self._flushed(reached, asked, is_whole=losses == self._losses)
                case Verdict.DONE:
                    self._end(Verdict.FENCED)
                case verdict:
                    self._end(verdict)

        self._database.flush(self._session, known, flushed)

    def _flush_again(self, asked: list[Asked], later: Post) -> None:
        """It answers those who wait for batches that are executed then: the server may have lost some of them."""
        self._waiting.extendleft(reversed(asked))
        later(self._flush)

    def _flushed(self, reached: Reached, asked: list[Asked], *, is_whole: bool) -> None:
        """`is_whole`: no batch was lost that it was to make durable, and that those who asked may have read."""
        self._flushing = False
        told = self._settle(reached)
        if is_whole:
            told += [done for _, done in asked]
        else:
            self._waiting.extendleft(reversed(asked))
        self._begin_and_call(told)

    def _settle(self, reached: Reached) -> list[Callable[[], None]]:
        """Those who waited for what is durable now. Those whom a fence query was to answer are the first: they asked
        before the flush began, or the batch that it came with, which has the same fence."""
        rows, told, self._asked = self._rows, self._asked, []
        while rows.batches and rows.batches[0].is_executed and rows.batches[0].number <= reached.number:
            batch = rows.settle()
            self._settled, self._synced = batch.number, batch.commits
            told += batch.waiting
        rows.flushed_stamp = max(rows.flushed_stamp, reached.sequence)
        self._stamped_bytes = max(self._stamped_bytes, reached.stamped_bytes)
        self._position = max(self._position, reached.position)
        return told

    def _begin_and_call(self, told: list[Callable[[], None]]) -> None:
        """The next round begins before the callbacks, which take a while: what is sent leaves one tick later, so they
        are called two ticks later."""
        self._begin_round()
        if self._executing or self._flushing:
            self._schedule(lambda: self._call_next(told))
        else:
            self._call(told)

    def _begin_fence(self) -> None:
        self._fencing = True
        self._asked = [done for _, done in self._waiting]
        self._waiting.clear()
        known = self.config_epoch
        self._database.fence(self._session, known, lambda verdict: self._fenced(known, verdict))

    def _fenced(self, known: int, verdict: Verdict) -> None:
        if self._dead is not None:
            return
        told, self._asked = self._asked, []
        match verdict:
            case Verdict.UNKNOWN:
                self._ask_again(told, self._pause)
            case Verdict.STALE_CONFIG if self.config_epoch > known:
                self._ask_again(told, self._schedule)
            case Verdict.DONE:
                self._fencing = False
                self._begin_round()
                self._call(told)
            case _:
                self._end(verdict)

    def _ask_again(self, told: list[Callable[[], None]], later: Post) -> None:
        """With those who have asked meanwhile. Until then no other fence query begins, but a batch may."""
        self._waiting.extendleft([(0, done) for done in reversed(told)])
        later(self._rested)

    def _rested(self) -> None:
        self._fencing = False
        self._begin_round()

    def _call_next(self, told: list[Callable[[], None]]) -> None:
        self._schedule(lambda: self._call(told))

    def _call(self, told: list[Callable[[], None]]) -> None:
        """Until the store is closed by one of them."""
        call_each(told, self._schedule, lambda: self._dead is None)

    # The end.

    def close(self) -> None:
        """What is not durable by now may be lost, or not."""
        if self._dead is None:
            self._forget("the store is closed")

    def _end(self, verdict: Verdict) -> None:
        reason = "another node has taken over" if verdict is Verdict.FENCED else "the replica's configuration is newer"
        self._forget(f"session {self._session}: {reason}")
        self._on_fenced(reason)

    def _forget(self, reason: str) -> None:
        self._die(reason)
        self._asked, self._wanted = [], []
        self._rows.forget(reason)
        self._loads.forget()


def do_nothing() -> None:
    """For one who is content with what happens."""
