"""What the store of nodes that share a database needs of it, as a Protocol: production asks a server, the simulator
plays one.

Everything is asynchronous by callbacks on the event loop, except the blocking reads of `read_rows` and `read_range`,
which stand for what a page fault is to a store on a disk.

A batch takes effect in two steps. **Executed**: other sessions see it, in the order of the replica's stamps, and a
crash of the server may still undo it, with every batch of any session that was executed after it. **Flushed**: a flush
that began after it was executed has been answered; from then on it is durable. What a session reads of its own shards
was flushed before it owned them, or is among its own batches; what it reads of others' must be flushed before it is
told.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from msgspec import Struct

from epoxy.ports import KeyValue, StoreCut


class Verdict(Enum):
    """What became of a batch, of a flush, or of a fence query."""

    DONE = "done"
    FENCED = "fenced"
    """Another session has taken this one's shards, or it was never there: nothing was written."""
    STALE_CONFIG = "stale_config"
    """The replica has a newer configuration than this session knows: nothing was written."""
    LOST = "lost"
    """Batches before this one were executed and not flushed, and the server has lost them: nothing was written."""
    UNKNOWN = "unknown"
    """The connection was lost. It may have taken effect, or may still do so."""


class GroupCommit(Struct, frozen=True):
    """One group commit. `number` is one more than that of the session's batch before it, so that a batch is applied
    once however often it is sent. `rows`: to set, each with its shard, or to delete. `stamped`: for each commit with
    stamped rows, in their order: prefixes, suffixes and values. `counts`: whether the position rises."""

    session: int
    number: int
    config_epoch: int
    rows: Sequence[tuple[bytes, bytes, int]] = ()
    deleted: Sequence[bytes] = ()
    stamped: Sequence[Sequence[tuple[bytes, bytes, bytes]]] = ()
    counts: bool = True
    next_config_epoch: int = 0
    """Of a configuration among the rows, which is in force with them; 0: there is none."""


class Reached(Struct, frozen=True):
    """What is durable after a flush: all batches of the session up to `number`, and of all sessions all commits up to
    the stamp `sequence`. `stamped_bytes`: what all rows with stamps up to it took, keys and values, those that are
    deleted meanwhile included: a changelog to which several sessions add is bounded by it."""

    verdict: Verdict
    sequence: int = 0
    position: int = 0
    stamped_bytes: int = 0
    number: int = 0


class ExecutedBatch(Struct, frozen=True):
    """What became of a batch. `number`: of the session's last batch that is there, this one if it is DONE. `sequence`:
    the last stamp that the replica had given when the batch took effect, so that those of the batch are known even if
    it is asked for again later. `reached`: the answer of a flush that came with the batch, from a database for which
    that is one question less; None: the batch is executed, and not flushed."""

    verdict: Verdict
    number: int = 0
    sequence: int = 0
    reached: Reached | None = None


class SessionRow(Struct, frozen=True):
    """`left_ms`: of its lease, by the database's clock at the moment of the query; negative: it is over."""

    id: int
    url: str
    version: str
    left_ms: float
    fenced: bool


class ShardTable(Struct, frozen=True):
    """Who owns what, and who is there. `owners`: by shard, the session; 0: none. Fenced sessions are left out."""

    sessions: Sequence[SessionRow]
    owners: Sequence[int]
    epochs: Sequence[int]


class Database(Protocol):
    """A failure of the connection is reported as UNKNOWN or None, never raised; the database is asked again by the
    caller. `now` and leases are on the database's clock."""

    def commit(self, batch: GroupCommit, done: Callable[[ExecutedBatch], None]) -> None:
        """Execute a batch, unless it is executed already. Its locks are held no longer than its execution takes. It is
        not durable yet, unless the answer says what a flush after it has reached."""

    def flush(self, session: int, config_epoch: int, done: Callable[[Reached], None]) -> None:
        """Make everything durable that was executed before this call, by any session. A fence query, too."""

    def fence(self, session: int, config_epoch: int, done: Callable[[Verdict], None]) -> None:
        """Whether this session owns its shards still, by a query that begins after this call."""

    def load(self, keys: Sequence[bytes], done: Callable[[dict[bytes, bytes] | None], None]) -> None:
        """The rows of these keys that exist."""

    def load_shard(self, shard: int, done: Callable[[dict[bytes, bytes] | None], None]) -> None:
        """All rows of a shard."""

    def open_session(self, url: str, version: str, lease_ms: float, done: Callable[[int | None], None]) -> None:
        """A new session without shards. Its id was never used before, even if old sessions are deleted."""

    def renew(self, session: int, lease_ms: float, done: Callable[[ShardTable | None], None]) -> None:
        """Extend the lease of a session unless it is fenced, and look at the table. A fenced session is not in it."""

    def take(
        self, session: int, shards: Sequence[int], dead: Sequence[int], done: Callable[[Sequence[int] | None], None]
    ) -> None:
        """Fence the dead sessions whose lease is over, and take those of the shards that no session owns after that:
        owned by none, or by a session that is fenced. A fenced session takes nothing. Returns the shards taken."""

    def give(self, session: int, shard: int, epoch: int, to: int, done: Callable[[bool | None], None]) -> None:
        """Hand a shard over to another session that is not fenced; 0: to none. Only while this session owns it with
        this epoch: a hand-over whose connection was lost may take effect late, and must not take the shard away if it
        has come back meanwhile."""

    def close_session(self, session: int, done: Callable[[], None]) -> None:
        """Fence the own session: its shards are free."""

    def read_rows(self, keys: Sequence[bytes], *, flush: bool) -> dict[bytes, bytes]:
        """Blocking. `flush`: what was read is made durable before this returns. Raises StoreUnavailable."""

    def read_range(self, begin: bytes, end: bytes, limit: int, reverse: bool, *, flush: bool) -> Sequence[KeyValue]:
        """Blocking. `flush`: as above. Raises StoreUnavailable."""

    def position(self) -> tuple[int, int]:
        """Sequence and position of the replica, which are durable. Blocking."""

    def cut(self, done: Callable[[StoreCut | None], None]) -> None:
        """Open one snapshot of the database, which sees every batch that was executed before this call, and in which
        all is durable. Its jobs run in a thread and call back on the event loop; `close` ends it. None: the connection
        was lost. A job that fails by the connection reports StoreUnavailable."""
