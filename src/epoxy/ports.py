"""What the engines need from their environment, as Protocols. Production and simulation implement them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from epoxy.model.members import MemberReply, MemberRequest
from epoxy.model.messages import Reply, Request
from epoxy.model.records import Proposal
from epoxy.model.transactions import Txn, TxnOutcome
from epoxy.model.writes import Consistency, Outcome, ReadAnswer, ReadResult, Write

T = TypeVar("T")

KeyValue = tuple[bytes, bytes]


class Snapshot(Protocol):
    """A consistent view of ordered keys."""

    def get(self, key: bytes) -> bytes | None: ...

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        """Up to `limit` (at least 1) pairs with begin <= key < end, ascending, or descending from the end."""


class Transaction(Snapshot, Protocol):
    """Serializable. Reads see the store as it was when the transaction began, plus its own writes. What is read, except
    through `snapshot`, conflicts with later commits; only a transaction that writes can fail by that. To abandon one,
    drop it. Keys are not empty and start below ff; sizes are limited."""

    @property
    def snapshot(self) -> Snapshot:
        """The same view, without read conflicts."""

    def set(self, key: bytes, value: bytes) -> None: ...

    def clear(self, key: bytes) -> None: ...

    def clear_range(self, begin: bytes, end: bytes) -> None: ...

    def add(self, key: bytes, delta: int) -> None:
        """Add to a little-endian signed 64-bit integer (absent: 0), wrapping, without a read conflict."""

    def set_stamped(self, prefix: bytes, suffix: bytes, value: bytes) -> None:
        """Set prefix + stamp + suffix, where the 10-byte stamp is assigned inside the commit: stamps rise in the order
        of commits, and within one in the order of these calls, so a reader's cursor cannot pass a row that commits
        late. Reads and clears of this transaction do not see the row. In a store that several nodes share the stamp is
        given when the commit is made durable, and the row can be read from then on."""

    def add_read_conflict(self, begin: bytes, end: bytes) -> None:
        """Conflict as if begin <= key < end had been read."""

    def commit(self) -> None:
        """Make the writes visible to later transactions, or raise Conflict and write nothing. Once for each
        transaction. Durable later: see `Store.when_durable`."""


class StoreCut(Protocol):
    """Everything that was committed up to one moment, for long reads beside the event loop."""

    def read(
        self, job: Callable[[Snapshot], T], done: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        """Run the job, in a thread if the store has one, and call back on the event loop."""

    def close(self) -> None:
        """Later reads are refused; the store need not keep what was overwritten since."""


class Store(Protocol):
    """Belongs to one event loop. Transactions may interleave there, but no call blocks. A store that is closed or has
    failed raises StoreFailed."""

    def begin(self) -> Transaction: ...

    def transact(self, body: Callable[[Transaction], T]) -> T:
        """Run body in a transaction and commit it, again after each Conflict, up to a limit. The result must not leave
        this process before `when_durable` calls back: it may depend on writes that are not synced."""

    def put(
        self,
        rows: dict[bytes, bytes | None],
        stamped: tuple[bytes, bytes, bytes] | None,
        *,
        urgent: bool = True,
    ) -> None:
        """Commit at once: rows to set or, with None, to clear, and one to stamp. For callers that read `newest` and
        decide without returning to the event loop, so that nothing can conflict. The dict belongs to the store from
        here on. If it is not `urgent`, no sync begins for it: it shares the next one, which begins within milliseconds
        even if nothing asks for one. A store that several nodes share makes no difference."""

    def when_durable(self, done: Callable[[], None], *, urgent: bool = True) -> None:
        """Call done once everything committed so far is durable, at once if it is; in the order of these calls. Never
        called if that fails: the process ends. Commits that are not urgent become so by this call, unless that is not
        `urgent` itself. A store that several nodes share never calls at once: another node may
        have taken over, so it first makes sure, with a question that it asks after this call, that what was read here
        is still the newest."""

    @property
    def loads_ahead(self) -> bool:
        """Whether rows may be far away, so that `load` is worth a call before a rule reads them."""

    def load(self, rows: Sequence[bytes], then: Callable[[], None]) -> None:
        """Bring these rows near, and call `then`: at once if they are. For speed alone: a row that was not loaded is
        read when it is asked for, and the event loop waits."""

    def is_near(self, rows: Sequence[bytes]) -> bool:
        """Whether all these rows are read without waiting."""

    def newest(self) -> Snapshot:
        """Everything committed, durable or not. Read at once: it changes with the next commit."""

    def durable(self) -> Snapshot:
        """Only what is durable now. What is read here may leave the process at once."""

    def cut(self, done: Callable[[StoreCut], None]) -> None:
        """Call `done` with a cut that holds everything committed so far, once it is durable, and perhaps later commits;
        each commit whole or not at all. Never called if the store fails."""

    def catch_up(self, done: Callable[[], None]) -> None:
        """Call `done` when `durable` has all that other nodes which share this store had made durable before this call.
        At once in a store that is not shared."""

    def newest_stamp(self) -> int:
        """The number of commits that were given stamps, durable or not; their stamps begin with it. In a store that
        several nodes share: those of all nodes that were durable when this one last wrote, or caught up."""

    def stamped_bytes(self) -> int:
        """Keys and values of all rows that were stamped since this store was opened. Counted here, where each of them
        passes once, because a changelog is bounded by it. In a store that several nodes share it counts what
        `newest_stamp` counts, from the beginning of all time."""

    def remember(self, rows: dict[bytes, bytes | None]) -> None:
        """As `put`, for what is recorded about other stores: `position` does not rise with it. Otherwise the records
        that two idle nodes keep of each other's positions would raise these positions for ever."""

    def position(self) -> int:
        """How much was ever durable here. Rises with the syncs, in this process and the next ones, and a store that
        lost a sync is below what it reported before."""

    def close(self) -> None:
        """Nothing is acknowledged any more: `when_durable` does not call back."""


class StartMark(Protocol):
    """On a data directory: that its process may have sent Accepts before its own votes were durable."""

    @property
    def is_marked(self) -> bool:
        """When a process begins: by one before it that did not end in order."""

    def mark(self) -> bool:
        """Durable when this returns. False: the disk refused it."""

    def unmark(self) -> None:
        """All votes are durable. OSError: the disk refused it."""


class Transport(Protocol):
    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        """Deliver requests to a peer in order, and pass the reply of the last one to `answered`, at most once. A loss
        is silent or a `Failed` reply; without `answered` replies are dropped."""


SendEncoded = Callable[[int, bytes, int, Callable[[Reply], None] | None], None]
"""As `Transport.send`, of so many encoded requests."""


class MemberTransport(Protocol):
    def ask(self, to: int, request: MemberRequest, answered: Callable[[MemberReply], None]) -> None:
        """Deliver one request of a change of members, and pass on the reply, at most once. A loss is silent or a
        `Failed` reply."""


class KeyEngine(Protocol):
    """The per-key engine, as a node shows it."""

    def peek(self, key: bytes) -> ReadResult | None:
        """What this replica knows, without traffic; None if that is nothing, or not readable."""

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None: ...

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None: ...


class OwnerRoutes(Protocol):
    """Which node of a datacenter serves a key, and the way there. A datacenter is one replica; its keys are split into
    shards, each of which is owned by one node at a time."""

    @property
    def forwarded(self) -> Mapping[tuple[str, str], int]:
        """Requests passed on, by their kind and by what became of them: "answered", "refused" or "unknown"."""

    @property
    def waiting(self) -> int:
        """Requests that wait for an owner."""

    @property
    def is_gateway(self) -> bool:
        """Whether this node owns the system shard: it alone speaks with other datacenters."""

    def is_mine(self, key: bytes) -> bool:
        """Whether requests about it are served here."""

    def runs(self, key: bytes) -> bool:
        """Whether its rules run here: as above, and while requests wait until a next gateway is there."""

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None:
        """At the owner of its key."""

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:
        """At the owner of the key."""

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None:
        """At the gateway."""

    def ordered_write(self, write: Write, mark: Proposal, answered: Callable[[Outcome], None]) -> None:
        """Of a key that belongs to transactions by this mark: at the gateway."""

    def ordered_read(
        self, key: bytes, mark: Proposal, consistency: Consistency, answered: Callable[[ReadAnswer], None]
    ) -> None: ...


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now_ms(self) -> float:
        """Monotonic, and goes on while the machine is suspended: leases are counted by it. Timers may not."""

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> Timer: ...


class Dice(Protocol):
    def uniform(self) -> float:
        """In [0, 1)."""

    def nonce(self) -> int:
        """64 bits that no other caller draws."""
