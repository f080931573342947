"""One of several nodes of a datacenter. Each owns some shards of the keys; one of them, the gateway, owns the system
shard and speaks with other datacenters.

A request about a key of another node's shard is passed on to that node. What is asked about an own key begins with
loading its rows, because the rules do not wait. Keys that belong to transactions are served by the ordered engine,
which runs at the gateway alone.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar
from zlib import crc32

from epoxy.model.marks import is_owned
from epoxy.model.messages import Reply, Request
from epoxy.model.records import KeyState, Proposal
from epoxy.model.sessions import session_of
from epoxy.model.transactions import Txn, TxnOutcome, TxnRefused
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    Consistency,
    Outcome,
    ReadAnswer,
    ReadFailed,
    ReadResult,
    Refused,
    Write,
)
from epoxy.node.keys.shard_handover import ShardHandover
from epoxy.node.process.config import Settings
from epoxy.node.service import READ_LATE, WRITE_LATE, Heard, Node, Written
from epoxy.node.timing import Links
from epoxy.ports import Clock, Dice, MemberTransport, OwnerRoutes, Store, Timer
from epoxy.runtime.admission import Admission, Caller, Ticket

T = TypeVar("T", Outcome, ReadAnswer)

NOT_LOADED = Refused(reason="the database did not answer in time; the write was dropped")

TOOK_MS = 250.0
"""Shards that are handed over come one after the other, some milliseconds apart. A count begins as much later."""


class DatacenterNode(Node):
    def __init__(
        self,
        settings: Settings,
        store: Store,
        links: Links,
        clock: Clock,
        dice: Dice,
        alarm: Callable[[str], None],
        member_rpc: MemberTransport | None,
        routes: OwnerRoutes,
    ) -> None:
        """`member_rpc` None: a shard node, which learns of members through the gateway."""
        self.routes = routes
        self.orders = self.is_gateway = routes.is_gateway
        self.counter = b"-%08x" % crc32(settings.node.advertise_url.encode())
        super().__init__(settings, store, links, clock, dice, alarm, member_rpc)
        timeout_ms, limits = float(settings.limits.request_timeout_ms), settings.limits
        self._loading_writes: Admission[Outcome] = Admission(
            clock, limits.writes_in_flight, timeout_ms, WRITE_LATE, NOT_LOADED
        )
        self._loading_reads: Admission[ReadAnswer] = Admission(clock, limits.reads_in_flight, timeout_ms, READ_LATE)
        self.admission |= {"loading_write": self._loading_writes, "loading_read": self._loading_reads}
        self.driver.routes = routes
        self._handover = ShardHandover(self.driver, store.when_durable, clock, routes.runs)
        self._handover.gone = self._announce_handover
        self.quiesce = self._handover.quiesce
        self._handover_listeners: list[Callable[[], None]] = []
        self._loading_leases: Timer | None = None
        self.session_ended: Callable[[bytes], None] = lambda _: None
        """At the gateway: called with each session of clients that is over, once that is durable."""
        self.replica.commit_watchers.append(self._session_committed)

    def start(self) -> None:
        super().start()
        if not self.is_gateway:
            self.quotas.follow()

    # Requests of clients

    def write(self, write: Write, answered: Written, caller: Caller | None = None) -> None:
        """Rows are loaded when its round begins; before that only if a look at the key decides whether it begins."""
        if self.routes.is_mine(write.key):
            if self.ready and not self.quorum.is_lost:
                super().write(write, answered, caller)
            else:
                self._when_near(write.key, partial(self._write_here, write), self._loading_writes, answered, caller)
        else:
            ticket = self._admit_write(write, answered, caller)
            if ticket is not None:
                self.routes.write(write, ticket)

    def _write_here(self, write: Write, answered: Written, caller: Caller | None) -> None:
        super().write(write, answered, caller)

    def _is_taken(self, write: Write) -> bool:
        return self.routes.is_mine(write.key) and super()._is_taken(write)

    def read(self, key: bytes, consistency: Consistency, answered: Heard, caller: Caller | None = None) -> None:
        if self.routes.is_mine(key):
            self._when_near(key, partial(self._read_here, key, consistency), self._loading_reads, answered, caller)
        elif not self.reads_here:
            answered(ReadFailed(reason=self.lifecycle.reason))
        elif self._reads.count >= self._reads.limit:
            self._reads.refused += 1
            answered(Refused(reason=f"{self._reads.limit} reads are under way already"))
        else:
            self.routes.read(key, consistency, self._reads.begin(answered, caller))

    def _read_here(self, key: bytes, consistency: Consistency, answered: Heard, caller: Caller | None) -> None:
        super().read(key, consistency, answered, caller)

    def _when_near(
        self,
        key: bytes,
        then: Callable[[Callable[[T], None], Caller | None], None],
        loading: Admission[T],
        answered: Callable[[T], None],
        caller: Caller | None,
    ) -> None:
        """The time limit of a client begins before the load: its database may be away for long."""
        rows = self.replica.keyspace.rows_of(key)
        if self._store.is_near(rows):
            then(answered, caller)
        elif loading.count >= loading.limit:
            loading.refused += 1
            answered(Refused(reason=f"{loading.limit} requests wait for rows of the database already"))
        else:
            ticket = loading.begin(answered, caller)
            ticket.wait()
            self._store.load(rows, partial(self._loaded, ticket, partial(then, ticket, caller), loading.late))

    def _loaded(self, ticket: Ticket[T], then: Callable[[], None], late: T) -> None:
        if ticket.begin():
            then()
        else:
            ticket(late)

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None], caller: Caller | None = None) -> None:
        if self.is_gateway:
            super().txn(txn, answered, caller)
        elif not self.ready:
            answered(TxnRefused(reason=self.lifecycle.reason))
        elif self._txns.count >= self._txns.limit:
            self._txns.refused += 1
            answered(TxnRefused(reason=f"{self._txns.limit} transactions are under way already"))
        else:
            self.routes.txn(txn, self._txns.begin(answered, caller))

    def _written(self, write: Write, done: Written, outcome: Outcome) -> None:
        """A shard node has no ordered engine: what belongs to transactions goes to the gateway."""
        if (
            not self.is_gateway
            and write.mutable
            and not isinstance(outcome, Committed | ConsensusFailed | Refused)
            and outcome.committed is not None
            and is_owned(outcome.committed)
        ):
            self.routes.ordered_write(write, outcome.committed, done)
        else:
            super()._written(write, done, outcome)

    def _read_ordered(self, key: bytes, mark: Proposal, consistency: Consistency, answered: Heard) -> None:
        if self.is_gateway:
            super()._read_ordered(key, mark, consistency, answered)
        else:
            self.routes.ordered_read(key, mark, consistency, answered)

    def ordered_write(self, write: Write, mark: Proposal, answered: Written) -> None:
        """At the gateway, for another node."""
        ticket = self._admit_write(write, answered, None)
        if ticket is not None:
            self._owned_writes.run(write, mark, ticket)

    def ordered_read(self, key: bytes, mark: Proposal, consistency: Consistency, answered: Heard) -> None:
        """At the gateway, for another node."""
        self._read_ordered(key, mark, consistency, answered)

    def peek(self, key: bytes) -> ReadResult | None:
        """A key that is not here, or not in memory, is left to `read`. So is one of transactions at a shard node."""
        rows = self.replica.keyspace.rows_of(key)
        if not self.routes.is_mine(key) or not self._store.is_near(rows):
            return None
        if not self.is_gateway:
            here = self.replica.peek(key, use_cache=True) if self.reads_here else None
            return self.leases.seen(key, here) if here is not None and not is_owned(here.committed) else None
        return super().peek(key)

    def stays(self, key: bytes, here: ReadResult) -> bool:
        return self.routes.is_mine(key) and super().stays(key, here)

    # Requests of peers

    def handle(self, requests: Sequence[Request], answered: Callable[[Sequence[Reply]], None]) -> None:
        self.replica.handle_all(requests, answered)

    def session_over(self, session: bytes) -> None:
        """A session of clients, of which the gateway has learned that it is over."""
        self.leases.session_over(session)

    def stop(self) -> None:
        """A node that becomes the gateway is made anew over the same store: what is left of this one changes nothing
        any more."""
        super().stop()
        self.replica.retire()

    # Shards that come and go

    @property
    def has_requests(self) -> bool:
        """Whether requests of clients are under way here, beyond those that wait for their owners."""
        return self._handover.is_busy or bool(self._loading_writes.count or self._loading_reads.count)

    def took(self) -> None:
        """Shards are owned here from now on: their leases are counted here, once for those that come together, because
        all values that end are looked through for them."""
        if self._loading_leases is None:
            self._loading_leases = self.clock.call_later(TOOK_MS, self._load_leases)

    def _load_leases(self) -> None:
        self._loading_leases = None
        self.leases.load()

    def _announce_handover(self) -> None:
        for listener in self._handover_listeners:
            listener()

    def on_handover(self, listener: Callable[[], None]) -> None:
        """`listener` is called when a shard has left: what is cached of its keys may change elsewhere."""
        self._handover_listeners.append(listener)

    def _session_committed(self, key: bytes, _before: KeyState, after: KeyState) -> None:
        if after.committed is not None and after.committed.is_tombstone and (session := session_of(key)):
            self._store.when_durable(partial(self._tell_session_over, session))

    def _tell_session_over(self, session: bytes) -> None:
        self.session_ended(session)
