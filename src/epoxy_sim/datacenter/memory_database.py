"""A database in memory, as the PostgreSQL store needs one: its tables, and the connections of the nodes to them.

A statement is one transaction, as every statement of production is. What becomes of it is decided by its caller: when
it is run at the server, when its answer arrives, whether the connection is lost before it is run, after it, or while it
is still on its way. A crash of the server undoes the last batches that were executed and not flushed, whichever
session's they are; everything else is durable when others see it. Connections do not survive it.
"""

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from epoxy.codec.tuple import STAMP_BYTES
from epoxy.model.errors import StoreUnavailable
from epoxy.model.shards import ALL_SHARDS
from epoxy.ports import KeyValue, Snapshot, StoreCut
from epoxy.store.buffer import stamp
from epoxy.store.cut import ViewCut, at_once
from epoxy.store.shared.database import ExecutedBatch, GroupCommit, Reached, SessionRow, ShardTable, Verdict
from epoxy.store.shared.row_shards import CHANGELOG_SHARD
from epoxy.store.versioned import MapView, VersionedMap

T = TypeVar("T")


class SessionState(Struct):
    """A row of the table of sessions. `sequence`: the last stamp given when its last batch took effect."""

    id: int
    url: str
    version: str
    lease_end_ms: float
    fenced: bool = False
    batch: int = 0
    sequence: int = 0


class Undo(Struct, frozen=True):
    """Of a batch that is executed and not flushed: what it has replaced."""

    session: int
    rows: dict[bytes, bytes | None]
    shards: dict[bytes, int | None]
    reached: tuple[int, int]
    """Number and sequence of the session."""
    replica: tuple[int, int, int, int]
    """Sequence, position, epoch and stamped bytes."""


class ShardState(Struct):
    """A row of the table of shards. `owner` may name a session that is fenced: the shard is free then."""

    owner: int = 0
    epoch: int = 0


class DatabaseTables:
    """What a server keeps: the tables of `store/postgres/schema.py`, and every statement as a function that is one
    transaction. `now_ms` is the server's clock."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self.rows = VersionedMap({})
        self.shard_of_row: dict[bytes, int] = {}
        self.sessions: dict[int, SessionState] = {}
        self.shards = {shard: ShardState() for shard in ALL_SHARDS}
        self.sequence = self.position = self.config_epoch = self.stamped_bytes = 0

        self.flushes_batches = False
        """Whether the answer to a batch is that of a flush, too: as the first process of a node is for the others."""
        self.unflushed: list[Undo] = []
        """In the order of the log."""

    # The log.

    def sync(self) -> None:
        """A commit that waits for the disk: everything before it is durable."""
        self.unflushed.clear()

    @property
    def flushed_sequence(self) -> int:
        """Rows of the changelog up to this stamp survive a crash."""
        return self.unflushed[0].replica[0] if self.unflushed else self.sequence

    def crash(self, lost: int) -> None:
        """The server is gone, and recovers without the last so many batches of those that are not flushed."""
        for _ in range(min(lost, len(self.unflushed))):
            self.undo_last()
        self.sync()

    def undo_last(self) -> None:
        undo = self.unflushed.pop()
        self.rows.apply(undo.rows)
        for key, shard in undo.shards.items():
            if shard is None:
                self.shard_of_row.pop(key, None)
            else:
                self.shard_of_row[key] = shard
        session = self.sessions[undo.session]
        session.batch, session.sequence = undo.reached
        self.sequence, self.position, self.config_epoch, self.stamped_bytes = undo.replica

    # Rows.

    def commit(self, batch: GroupCommit) -> ExecutedBatch:
        """The fence, the number of the batch and the configuration are judged before anything is written. Asking what
        became of a batch is a flush."""
        session = self.sessions.get(batch.session)
        if session is None or session.fenced:
            return ExecutedBatch(verdict=Verdict.FENCED)
        if batch.number <= session.batch:
            # Executed before: the answer was lost. Stamps are those that it was given then.
            self.sync()
            return ExecutedBatch(Verdict.DONE, session.batch, session.sequence)
        if batch.number != session.batch + 1:
            self.sync()
            return ExecutedBatch(Verdict.LOST, session.batch)
        if self.config_epoch > batch.config_epoch:
            self.sync()
            return ExecutedBatch(Verdict.STALE_CONFIG, session.batch)
        self._execute(batch, session)
        reached = self.reached_with(batch) if self.flushes_batches else None
        return ExecutedBatch(Verdict.DONE, session.batch, session.sequence, reached)

    def reached_with(self, batch: GroupCommit) -> Reached:
        return self.flush(batch.session, batch.config_epoch)

    def _execute(self, batch: GroupCommit, session: SessionState) -> None:
        replica = self.sequence, self.position, self.config_epoch, self.stamped_bytes
        reached = session.batch, session.sequence
        effects = self._effects(batch)
        rows = {key: self.rows.values.get(key) for key in effects}
        shards = {key: self.shard_of_row.get(key) for key in effects}
        self._apply(batch, effects)
        session.batch, session.sequence = batch.number, self.sequence
        self.unflushed.append(Undo(session.id, rows, shards, reached, replica))

    def _effects(self, batch: GroupCommit) -> dict[bytes, bytes | None]:
        """The rows that it changes, those with stamps included."""
        effects: dict[bytes, bytes | None] = dict.fromkeys(batch.deleted)
        effects.update([(key, value) for key, value, _ in batch.rows])
        for number, commit in enumerate(batch.stamped, self.sequence + 1):
            for index, (prefix, suffix, value) in enumerate(commit):
                key = prefix + stamp(number, index) + suffix
                assert len(key) == len(prefix) + STAMP_BYTES + len(suffix)
                effects[key] = value
        return effects

    def _apply(self, batch: GroupCommit, effects: dict[bytes, bytes | None]) -> None:
        named = {key: shard for key, _, shard in batch.rows}
        for key, value in effects.items():
            if value is None:
                self.shard_of_row.pop(key, None)
            elif key in named:
                self.shard_of_row[key] = named[key]
            else:
                self.shard_of_row[key] = CHANGELOG_SHARD
                self.stamped_bytes += len(key) + len(value)
        self.rows.apply(effects)
        self.sequence += len(batch.stamped)
        self.position += batch.counts
        self.config_epoch = max(self.config_epoch, batch.next_config_epoch)

    def flush(self, session: int, config_epoch: int) -> Reached:
        found = self.sessions.get(session)
        if found is None:
            return Reached(verdict=Verdict.FENCED)
        self.sync()
        if found.fenced:
            return Reached(verdict=Verdict.FENCED)
        verdict = Verdict.STALE_CONFIG if self.config_epoch > config_epoch else Verdict.DONE
        return Reached(verdict, self.sequence, self.position, self.stamped_bytes, found.batch)

    def fence(self, session: int, config_epoch: int) -> Verdict:
        found = self.sessions.get(session)
        if found is None or found.fenced:
            return Verdict.FENCED
        return Verdict.STALE_CONFIG if self.config_epoch > config_epoch else Verdict.DONE

    def load(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        values = self.rows.values
        return {key: values[key] for key in keys if key in values}

    def load_shard(self, shard: int) -> dict[bytes, bytes]:
        return {key: self.rows.values[key] for key, of in self.shard_of_row.items() if of == shard}

    # Sessions and their shards.

    def open_session(self, url: str, version: str, lease_ms: float) -> int:
        session = max(self.sessions, default=0) + 1
        self.sessions[session] = SessionState(session, url, version, self._now_ms() + lease_ms)
        self.sync()
        return session

    def renew(self, session: int, lease_ms: float) -> ShardTable:
        found = self.sessions.get(session)
        if found is not None and not found.fenced:
            found.lease_end_ms = self._now_ms() + lease_ms
            self.sync()
        return self.table()

    def table(self) -> ShardTable:
        now_ms = self._now_ms()
        sessions = [
            SessionRow(id=each.id, url=each.url, version=each.version, left_ms=each.lease_end_ms - now_ms, fenced=False)
            for each in self.sessions.values()
            if not each.fenced
        ]
        return ShardTable(
            sessions=sessions,
            owners=[self.owner(shard) for shard in ALL_SHARDS],
            epochs=[self.shards[shard].epoch for shard in ALL_SHARDS],
        )

    def owner(self, shard: int) -> int:
        """0: none. The shards of a fenced session are free."""
        owner = self.shards[shard].owner
        return 0 if self._is_fenced(owner) else owner

    def take(self, session: int, shards: Sequence[int], dead: Sequence[int]) -> Sequence[int]:
        if self._is_fenced(session):
            return ()
        now_ms = self._now_ms()
        for each in dead:
            found = self.sessions.get(each)
            if found is not None and each != session and found.lease_end_ms < now_ms:
                found.fenced = True
        self.sync()
        taken = [shard for shard in shards if not self.owner(shard)]
        for shard in taken:
            self._set_owner(shard, session)
        return taken

    def give(self, session: int, shard: int, epoch: int, to: int) -> bool:
        row = self.shards[shard]
        if self._is_fenced(session) or (to and self._is_fenced(to)) or (row.owner, row.epoch) != (session, epoch):
            return False
        self._set_owner(shard, to)
        self.sync()
        return True

    def close_session(self, session: int) -> None:
        found = self.sessions.get(session)
        if found is not None:
            found.fenced = True
            self.sync()

    def _is_fenced(self, session: int) -> bool:
        found = self.sessions.get(session)
        return found is None or found.fenced

    def _set_owner(self, shard: int, owner: int) -> None:
        row = self.shards[shard]
        row.owner = owner
        row.epoch += 1


class Statement(Protocol):
    """A statement on its way. `lose` may come before `run`: then it takes effect, if at all, when its sender has given
    up the connection."""

    @property
    def name(self) -> str: ...

    def run(self) -> None:
        """At the server, once."""

    def answer(self) -> None:
        """Bring what it returned to its sender."""

    def lose(self) -> None:
        """The sender learns that the connection is lost."""


Carry = Callable[[Statement], None]
"""Takes a statement from its sender, and decides what becomes of it. Not within this call, as on a network: senders do
not expect to be called back while they ask."""


class Sent(Generic[T]):
    """One statement of a connection. `lost` is what its sender is told in place of an answer."""

    def __init__(self, name: str, job: Callable[[], T], done: Callable[[T], None], lost: Callable[[], None]) -> None:
        self.name = name
        self._job = job
        self._done = done
        self._lost = lost
        self._answers: list[T] = []
        self._is_over = False

    def run(self) -> None:
        assert not self._answers, "a statement is run once"
        self._answers.append(self._job())

    def answer(self) -> None:
        assert not self._is_over, "a sender is answered once"
        self._is_over = True
        (answer,) = self._answers
        self._done(answer)

    def lose(self) -> None:
        assert not self._is_over, "a sender is answered once"
        self._is_over = True
        self._lost()


class MemoryDatabase:
    """The connections of one node. `is_reachable`: whether blocking reads are answered."""

    def __init__(self, tables: DatabaseTables, carry: Carry) -> None:
        self.tables = tables
        self.is_reachable = True
        self.carry = carry

    def commit(self, batch: GroupCommit, done: Callable[[ExecutedBatch], None]) -> None:
        unknown = ExecutedBatch(verdict=Verdict.UNKNOWN)
        self.carry(Sent("commit", lambda: self.tables.commit(batch), done, lambda: done(unknown)))

    def flush(self, session: int, config_epoch: int, done: Callable[[Reached], None]) -> None:
        unknown = Reached(verdict=Verdict.UNKNOWN)
        self.carry(Sent("flush", lambda: self.tables.flush(session, config_epoch), done, lambda: done(unknown)))

    def fence(self, session: int, config_epoch: int, done: Callable[[Verdict], None]) -> None:
        self.carry(Sent("fence", lambda: self.tables.fence(session, config_epoch), done, lambda: done(Verdict.UNKNOWN)))

    def load(self, keys: Sequence[bytes], done: Callable[[dict[bytes, bytes] | None], None]) -> None:
        self.carry(Sent("load", lambda: self.tables.load(keys), done, lambda: done(None)))

    def load_shard(self, shard: int, done: Callable[[dict[bytes, bytes] | None], None]) -> None:
        self.carry(Sent("load_shard", lambda: self.tables.load_shard(shard), done, lambda: done(None)))

    def open_session(self, url: str, version: str, lease_ms: float, done: Callable[[int | None], None]) -> None:
        tables = self.tables
        self.carry(Sent("open_session", lambda: tables.open_session(url, version, lease_ms), done, lambda: done(None)))

    def renew(self, session: int, lease_ms: float, done: Callable[[ShardTable | None], None]) -> None:
        self.carry(Sent("renew", lambda: self.tables.renew(session, lease_ms), done, lambda: done(None)))

    def take(
        self, session: int, shards: Sequence[int], dead: Sequence[int], done: Callable[[Sequence[int] | None], None]
    ) -> None:
        self.carry(Sent("take", lambda: self.tables.take(session, shards, dead), done, lambda: done(None)))

    def give(self, session: int, shard: int, epoch: int, to: int, done: Callable[[bool | None], None]) -> None:
        self.carry(Sent("give", lambda: self.tables.give(session, shard, epoch, to), done, lambda: done(None)))

    def close_session(self, session: int, done: Callable[[], None]) -> None:
        self.carry(Sent("close_session", lambda: self.tables.close_session(session), lambda _: done(), done))

    def read_rows(self, keys: Sequence[bytes], *, flush: bool) -> dict[bytes, bytes]:
        self._reach(flush=flush)
        return self.tables.load(keys)

    def read_range(self, begin: bytes, end: bytes, limit: int, reverse: bool, *, flush: bool) -> Sequence[KeyValue]:
        self._reach(flush=flush)
        return self.tables.rows.range(begin, end, limit=limit, reverse=reverse)

    def position(self) -> tuple[int, int]:
        self._reach(flush=True)
        return self.tables.sequence, self.tables.position

    def cut(self, done: Callable[[StoreCut | None], None]) -> None:
        self.carry(Sent("cut", self._cut, done, lambda: done(None)))

    def _cut(self) -> StoreCut:
        self.tables.sync()
        view: Snapshot = MapView(self.tables.rows)
        return ViewCut(view, at_once)

    def _reach(self, *, flush: bool) -> None:
        if not self.is_reachable:
            raise StoreUnavailable("the database does not answer")
        if flush:
            self.tables.sync()
