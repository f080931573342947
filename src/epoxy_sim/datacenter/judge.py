"""The judges of a datacenter: one sits in the database and sees every batch that takes effect, one follows the
changelog by a cursor, and one compares what replicas hold and clients were told, as for single keys."""

from collections import deque
from collections.abc import Callable, Sequence

from epoxy.codec.tuple import pack
from epoxy.model.records import ChangelogEntry, KeyState
from epoxy.ports import Snapshot
from epoxy.protocol.members.retention import commit_of
from epoxy.store.keyspace import KV, LAYOUT, VOTES, Keyspace, key_of
from epoxy.store.shared.database import GroupCommit
from epoxy.store.shared.row_shards import CHANGELOG_SHARD, shard_of_row
from epoxy_sim.datacenter.memory_database import DatabaseTables
from epoxy_sim.keys.judge import Judge, holds
from epoxy_sim.simulation import Violation

ME = 1
"""The replica whose rows the database has."""

KEYED = (pack((LAYOUT, ME, KV)), pack((LAYOUT, ME, VOTES)))
"""Beginnings of the rows that rules write."""

PAGE = 1000


class JudgedTables(DatabaseTables):
    """Every batch that takes effect is of the owner of its rows, and its rules ran in the configuration in force. What
    is taken over is durable."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        super().__init__(now_ms)
        self.ran: dict[tuple[int, bytes], deque[int]] = {}
        """By session and key, the epochs in which rules ran whose writes are not known to be durable."""
        self.serves: Callable[[int, int], bool] = lambda _session, _shard: False
        """Whether the process of a session serves a shard."""

    def _set_owner(self, shard: int, owner: int) -> None:
        before = self.owner(shard)
        if before and before != owner and self.serves(before, shard):
            what = f"session {before} serves shard {shard}, is not fenced"
            raise Violation("one owner", f"{what}, and session {owner} is named as its owner")
        super()._set_owner(shard, owner)

    def take(self, session: int, shards: Sequence[int], dead: Sequence[int]) -> Sequence[int]:
        taken = super().take(session, shards, dead)
        for undo in self.unflushed:
            if self._is_fenced(undo.session):
                what = f"a batch of session {undo.session} is not, which was fenced"
                raise Violation("durable take-over", f"session {session} took shards, and {what}")
        return taken

    def _apply(self, batch: GroupCommit, effects: dict[bytes, bytes | None]) -> None:
        rows = [*(key for key, _, _ in batch.rows), *batch.deleted]
        for shard in sorted({shard_of_row(row, ME) for row in rows} - {CHANGELOG_SHARD}):
            if self.owner(shard) != batch.session:
                what = f"session {batch.session} made rows of shard {shard} durable"
                raise Violation("one owner", f"{what}, which session {self.owner(shard)} owns")
        for row in rows:
            for root in KEYED:
                if row.startswith(root):
                    self._judge_epoch(batch, key_of(row, root))
        super()._apply(batch, effects)

    def _judge_epoch(self, batch: GroupCommit, key: bytes) -> None:
        epochs = self.ran.get((batch.session, key))
        if epochs and epochs[0] < self.config_epoch:
            what = f"a rule ran in epoch {epochs[0]} and became durable in epoch {self.config_epoch}"
            raise Violation("configuration", f"{key!r}, session {batch.session}: {what}")


class DatacenterJudge(Judge):
    """Of replicas and clients. What the nodes of the first datacenter report as durable may come late, after another
    node has reported more."""

    def __init__(self, tables: JudgedTables) -> None:
        super().__init__()
        self._tables = tables
        self._keyspace = Keyspace(ME)
        self._committed: set[tuple[bytes, int]] = set()
        """Keys and versions that nodes reported as durable."""
        self._cursor: bytes | None = None
        self._followed: dict[bytes, ChangelogEntry] = {}
        """What the reader of the changelog was shown, by stamp."""

    def began(self, session: int, key: bytes, epoch: int) -> None:
        """A rule has run at a node."""
        self._tables.ran.setdefault((session, key), deque()).append(epoch)

    def reported(self, session: int, key: bytes, before: KeyState, after: KeyState) -> None:
        """A node was told that this is durable."""
        self._tables.ran[session, key].popleft()
        self.stepped(ME, key, before, after)
        if after.committed is not None and after.committed is not before.committed:
            self._committed.add((key, after.version))
        known = self._durable.get((ME, key))
        if known is None or after.version > known.version or (after.version == known.version and holds(after, known)):
            self.durable(ME, key, after)

    def look(self) -> None:
        """Everything that was reported as durable is in the database."""
        self.started(ME, lambda key: self._keyspace.load(self._tables.rows, key))

    def follow(self, view: Snapshot) -> None:
        """What a reader of the changelog does from time to time: ask for what is beyond its cursor."""
        while page := self._keyspace.changelog(view, self._cursor, PAGE):
            self._followed.update(page)
            self._cursor = page[-1][0]
            if commit_of(self._cursor) > self._tables.flushed_sequence:
                raise Violation("changelog", f"a reader was shown {page[-1][1]}, which a crash can undo")

    def judge_changelog(self) -> int:
        """Every commit is in it once, and its reader has met every row, and none that is gone. How many there are."""
        self._tables.sync()
        self.follow(self._tables.rows)
        seen: set[tuple[bytes, int]] = set()
        entries = self._keyspace.changelog(self._tables.rows, None, 1_000_000)
        kept = dict(entries)
        for stamp, entry in self._followed.items():
            if kept.get(stamp) != entry:
                raise Violation("changelog", f"a reader was shown {entry}, in whose place is {kept.get(stamp)}")
        for stamp, entry in entries:
            if stamp not in self._followed:
                raise Violation("changelog", f"a reader's cursor passed {entry}, which came late")
            commit = entry.key, entry.committed.version
            if commit in seen:
                raise Violation("changelog", f"twice: {entry}")
            seen.add(commit)
        missing = {commit for commit in self._committed if commit[0].startswith(b"key")} - seen
        if missing:
            raise Violation("changelog", f"not in it: {sorted(missing)[0]}")
        return len(entries)
