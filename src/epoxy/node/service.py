"""One datacenter's node, as its APIs see it: writes, reads, transactions, pages, changes, and its state."""

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from epoxy.model.api import DiskUsage, NodeReport, ReplicaView, SessionReport
from epoxy.model.errors import RottenRow
from epoxy.model.marks import is_owned
from epoxy.model.records import KeyState, Proposal
from epoxy.model.transactions import Txn, TxnOutcome, TxnRefused
from epoxy.model.versions import PeerVersions
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    Consistency,
    ImmutableKey,
    Outcome,
    Path,
    ReadAnswer,
    ReadFailed,
    ReadResult,
    Refused,
    Source,
    Write,
)
from epoxy.node.access.audit import AuditLog
from epoxy.node.access.control import AccessControl
from epoxy.node.access.guesses import Guesses
from epoxy.node.access.quotas import Quotas
from epoxy.node.commit_feed import CommitFeed
from epoxy.node.finality import decide_end, decided_end, is_final, may_change
from epoxy.node.keys.backfill import Backfill
from epoxy.node.keys.changelog_gc import ChangelogGc
from epoxy.node.keys.driver import Driver
from epoxy.node.keys.key_queue import UNBEGUN
from epoxy.node.keys.latency import RoundLatency
from epoxy.node.keys.listing import Listing
from epoxy.node.keys.replica import Dispatch, Replica
from epoxy.node.keys.sessions import Sessions
from epoxy.node.long_reads import LongReads
from epoxy.node.members.lifecycle import STARTING, STOPPING, Lifecycle, lifecycle_of
from epoxy.node.members.member import Membership
from epoxy.node.members.members_admin import MembersAdmin
from epoxy.node.members.peer_gate import GatedTransport, PeerGate
from epoxy.node.process.auth import auth_of
from epoxy.node.process.config import Limits, Settings
from epoxy.node.quorum_watch import LOST_MS, NO_QUORUM, READ_WITHOUT_QUORUM, TXN_WITHOUT_QUORUM, QuorumWatch
from epoxy.node.report import Credentials, inspect, report_of
from epoxy.node.scrub.repairs import Repairs
from epoxy.node.scrub.scrubber import Scrubber
from epoxy.node.timing import Links, key_timing, txn_timing
from epoxy.node.txn.engine import OrderedEngine
from epoxy.node.txn.owned_writes import OwnedWrites
from epoxy.node.txn.transactions import LATE, Transactions
from epoxy.ports import Clock, Dice, MemberTransport, Store, Timer
from epoxy.protocol.effects import Timing
from epoxy.protocol.members.retention import RetentionCeiling, RetentionFloor, ceiling
from epoxy.protocol.strings.evaluation import evaluate
from epoxy.runtime.admission import Admission, Caller, Ticket
from epoxy.runtime.stall import BEAT_MS, Stall
from epoxy.scripting.scripts import LuaScripts
from epoxy.store.embedded.syncs import SyncTimes
from epoxy.store.member_rows import MemberSpace

RETIME_EVERY_MS = BEAT_MS
"""How often timeouts and admission limits follow what was measured: links change by the minute, not by the message."""

MEASURE_AGAIN_MS = 10.0
"""Between two times: a thousand reads may wait for one replica that has stopped."""

BUSY_REQUESTS = 8
"""Writes, transactions and reads of other regions under way: as many as one client with a few connections has."""

WRITE_LATE = ConsensusFailed(reason="not decided in time; it may still take effect")
STOOD_STILL = "this node was paused for a while, and drops the requests that reached it meanwhile; try again"
READ_LATE = ReadFailed(reason="no answer in time")

Written = Callable[[Outcome], None]
Heard = Callable[[ReadAnswer], None]


class Node:
    orders = True
    """Whether the ordered engine runs here: not at each of several nodes of a datacenter."""
    counter = b""
    """Of those several: which one it is, where each counts for itself."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        links: Links,
        clock: Clock,
        dice: Dice,
        alarm: Callable[[str], None],
        member_rpc: MemberTransport | None = None,
    ) -> None:
        """Without `member_rpc` the members never change: they are those of the file."""
        self.settings, self.me = settings, settings.node.id
        self.links, self.clock = links, clock
        self._store, self.violations = store, 0
        self.longest_sync_ms: Callable[[], float | None] = lambda: None
        self.disk_usage: Callable[[], DiskUsage | None] = lambda: None
        self.syncs: SyncTimes | None = None
        """All three of the store; None: it has no disk."""
        self.session = 0
        self.sessions_of_datacenter: Callable[[], list[SessionReport]] = list
        """Of a datacenter with several nodes."""
        self.credentials: Callable[[], Credentials] = Credentials
        """Of the process; without one there are none."""
        self.versions = PeerVersions(self.me)
        self.audit, self.guesses = AuditLog(), Guesses()
        """Acts are counted; a process with a data directory writes them, too."""
        self._sound_alarm = alarm
        self.ready = self.reads_here = False
        """Whether clients are served; whether they may read what is held here."""
        self.lifecycle = STARTING
        self.paths: Counter[Path] = Counter()
        self.started_ms = self.epoch_began_ms = clock.now_ms()
        self.replica = Replica(self.me, store, settings.first_config(), self._alarm, follows=not self.orders)
        self.dispatch: Dispatch = self.replica.handle_all
        """Requests to this replica. Of several nodes of a datacenter, each is handled by the owner of its key."""
        self.gate = self._gate(dice) if member_rpc is not None else None
        transport = GatedTransport(self.gate, links) if self.gate is not None else links
        self.driver = Driver(self.replica, transport, clock, dice, Timing(), self._alarm)
        self.driver.observer = self.latency = RoundLatency()
        self.leases, self.scripts = self.driver.leases, LuaScripts()
        self.driver.evaluate = partial(evaluate, run_script=self.scripts.run)
        self.sessions = Sessions(self.replica, dice, self._write, self.read)
        self.ordered = OrderedEngine(self.me, store, None, transport, clock, dice, self._alarm)
        self.failures = self.ordered.failures = self.driver.failures
        self.access = AccessControl(self.driver, store, dice, self._alarm, is_open=auth_of(settings) == "open")
        self.quotas = Quotas(self.access, self.driver, store, dice, self.counter)
        self.ordered.terms.decided_end = partial(decided_end, self.replica)
        self.ordered.terms.decide_end = partial(decide_end, self.driver)
        self.replica.ordered = self.ordered.handle
        limits, timeout_ms = settings.limits, settings.limits.request_timeout_ms
        self._writes: Admission[Outcome] = Admission(clock, limits.writes_in_flight, timeout_ms, WRITE_LATE, UNBEGUN)
        self._long_reads = LongReads()
        self._reads: Admission[ReadAnswer] = Admission(clock, limits.reads_in_flight, timeout_ms, READ_LATE)
        self._txns: Admission[TxnOutcome] = Admission(clock, limits.writes_in_flight, timeout_ms, LATE)
        self.admission: dict[str, Admission[Any]] = {"write": self._writes, "read": self._reads, "txn": self._txns}
        self._stall = Stall(clock, timeout_ms)
        self.transactions = Transactions(self.ordered, self.driver, self._txns)
        self._owned_writes = OwnedWrites(self.transactions, self.me, self.driver.pending)
        self._owned_writes.end_with(self.leases)
        self._listing = Listing(self.replica, store, self.transactions.shown, self.leases.shown)
        self.page, self.count = self._listing.page, self._listing.count
        self.feed = CommitFeed(self.replica, store)
        self.changes, self.changes_gone, self.on_change = self.feed.changes, self.feed.gone, self.feed.on_change
        self.newest_changes = self.feed.newest_changes
        self.on_overwrite = self.feed.on_overwrite
        self._refusal_listeners: list[Callable[[], None]] = []
        self._started = False
        self._retiming: Timer | None = None
        self._mean_round_ms, self._measured_ms = 0.0, -math.inf
        self.read_hedges = 0
        """Linearizable reads whose nearest quorum did not answer in time."""
        self.quorum = QuorumWatch(self.me, lambda: self.replica.config, links)
        self.driver.silence, links.ticked = self._measure_again, self._links_ticked
        self.replica.config_watchers.append(self._config_changed)
        self.member = (
            Membership(self.driver, store, member_rpc, dice, self.gate, self.ordered.terms)
            if member_rpc is not None and self.gate is not None
            else None
        )
        self.members_admin = MembersAdmin(self.member, links.reachable) if self.member is not None else None
        space = MemberSpace(self.replica.keyspace, self.me)
        gc = self.member.key_sync.gc if self.member is not None else ChangelogGc(self.replica, store, space, clock)
        self.repairs = Repairs(self.driver, store, space, gc, clock)
        self.scrubber: Scrubber | None = None
        """None: its store has no disk."""
        self._backfill = Backfill(self.replica.keyspace, store, clock) if settings.store.backfill else None

    def _gate(self, dice: Dice) -> PeerGate:
        space = MemberSpace(self.replica.keyspace, self.me)
        strict = self.settings.cluster.strict_start
        return PeerGate(self.replica, self._store, space, self.clock, dice, strict=strict)

    def start(self) -> None:
        """Peers may be absent. Clients are served once most of the others have recorded this node's store."""
        if self.gate is not None:
            self.gate.changed = self._gate_changed
            if self.gate.refused:
                self._become_ready()
                return
        self._retime()
        self.leases.load()
        self.access.start()
        if self.orders:
            self.ordered.adopt(self.replica.config)
            self.ordered.start()
        if self.member is not None:
            self.member.key_sync.gc.floor = floor_of(self.settings.limits)
            self.member.key_sync.gc.ceiling = self.changelog_ceiling
            self.member.start()
        if self._backfill is not None:
            self._backfill.start()
        if self.scrubber is not None:
            self.scrubber.start()
        self._store.when_durable(self._become_ready)

    def refuse_clients(self) -> None:
        """Refuse every new request, definitely. Requests under way go on, with their time limits."""
        self._started, self.driver.is_leaving = False, True
        self._enter(STOPPING)

    def stop(self) -> None:
        self.refuse_clients()
        for admission in self.admission.values():
            admission.stop()
        self.transactions.watch.stop()
        self.ordered.stop()
        self.access.stop()
        self.quotas.stop()
        if self.scrubber is not None:
            self.scrubber.stop()
        if self._retiming is not None:
            self._retiming.cancel()

    @property
    def in_flight(self) -> int:
        """Writes under way, whether their clients still wait or were answered that the time is over."""
        return self._writes.count + self._txns.count

    @property
    def is_busy(self) -> bool:
        """Whether work that is not urgent should wait."""
        return self.in_flight + self._reads.count >= BUSY_REQUESTS

    @property
    def abandoned(self) -> int:
        """Writes that were dropped because their clients were gone before they had begun."""
        return self._writes.abandoned

    @property
    def refused(self) -> dict[str, int]:
        """How many requests were refused, by the limit that was reached."""
        writes = self._writes.refused + self._txns.refused
        return {
            "writes_in_flight": writes,
            "reads_in_flight": self._reads.refused,
            "no_quorum": self.quorum.refused,
        }

    def write(self, write: Write, answered: Written, caller: Caller | None = None) -> None:
        """`caller`: whose time limit counts, and who may be gone before it has begun."""
        if write.session:
            self.sessions.attach(write, answered, caller)
        else:
            self._write(write, answered, caller)

    def _write(self, write: Write, answered: Written, caller: Caller | None = None) -> None:
        ticket = self._admit_write(write, answered, caller)
        if ticket is not None:
            self.driver.write(write, partial(self._written, write, ticket), ticket)

    def is_full(self, *, writes: bool) -> bool:
        """Whether another write, or another read that asks other regions, would be refused now."""
        admission = self._writes if writes else self._reads
        return admission.count >= admission.limit

    def _is_taken(self, write: Write) -> bool:
        """Whether this reserves a name whose value is known here: it is answered without a message."""
        if write.mutable or not self.reads_here:
            return False
        here = self.replica.peek(write.key, use_cache=False)
        return here is not None and is_final(here) and not is_owned(here.committed)

    def _admit_write(self, write: Write, answered: Written, caller: Caller | None) -> Ticket[Outcome] | None:
        """None: it was refused, and answered so. What is answered here without a message needs no quorum."""
        writes = self._writes
        if not self.ready and not self._is_taken(write):
            refusal = Refused(reason=self.lifecycle.reason)
        elif self._stall.is_waking:
            refusal = Refused(reason=STOOD_STILL)
        elif writes.count >= writes.limit:
            writes.refused += 1
            refusal = Refused(reason=f"{writes.limit} writes are in flight already")
        elif self.quorum.is_lost and not self._is_taken(write) and self.quorum.refuses():
            refusal = NO_QUORUM
        else:
            return writes.begin(answered, caller)
        answered(refusal)
        return None

    def read(self, key: bytes, consistency: Consistency, answered: Heard, caller: Caller | None = None) -> None:
        """A value that is known here is answered at once, and never refused; so is a linearizable read of a reserved
        name, because its value cannot change."""
        if not self.reads_here:
            answered(ReadFailed(reason=self.lifecycle.reason))
            return
        try:
            if consistency is Consistency.LINEARIZABLE:
                newest = self.replica.newest(key)
                if newest is not None and may_change(newest):
                    self._ask_others(key, consistency, answered, caller, len(newest.value or b""))
                    return
            here = self.replica.peek(key, use_cache=consistency is not Consistency.SKIP_CACHE)
        except RottenRow:
            # This replica has no answer for the key, and counts in no quorum; the others may.
            self._ask_others(key, Consistency.LINEARIZABLE, answered, caller)
            return
        if here is not None and is_owned(here.committed):
            self._read_ordered(key, here.committed, consistency, answered)
        elif here is not None and (consistency is not Consistency.LINEARIZABLE or is_final(here)):
            answered(self.leases.seen(key, here))
        else:
            self._ask_others(key, consistency, answered, caller)

    def _ask_others(
        self, key: bytes, consistency: Consistency, answered: Heard, caller: Caller | None, size: int = 0
    ) -> None:
        """`size`: of the version known here. Every replica that is asked will send about as much."""
        reads = self._reads
        if not self.ready:
            answered(ReadFailed(reason=self.lifecycle.reason))
        elif consistency is Consistency.LINEARIZABLE and self.quorum.refuses():
            answered(READ_WITHOUT_QUORUM)
        elif reads.count >= reads.limit:
            reads.refused += 1
            answered(Refused(reason=f"{reads.limit} reads are asking other regions already"))
        elif self._long_reads.refuses(size):
            reads.refused += 1
            answered(Refused(reason=f"reads of {self._long_reads.bytes} bytes are asking other regions already"))
        else:
            answered = self._long_reads.begin(size, answered)
            self.driver.read(key, consistency, reads.begin(partial(self._found, key, consistency, answered), caller))

    def _found(self, key: bytes, consistency: Consistency, answered: Heard, outcome: ReadAnswer) -> None:
        """Other replicas may know that a key belongs to transactions before this one does."""
        if isinstance(outcome, ReadResult) and is_owned(outcome.committed):
            self._read_ordered(key, outcome.committed, consistency, answered)
        else:
            answered(outcome)

    def _read_ordered(self, key: bytes, mark: Proposal, consistency: Consistency, answered: Heard) -> None:
        if consistency is Consistency.LINEARIZABLE and not self.ready:
            answered(ReadFailed(reason=self.lifecycle.reason))
        elif consistency is Consistency.LINEARIZABLE and self.quorum.refuses():
            answered(READ_WITHOUT_QUORUM)
        elif consistency is Consistency.LINEARIZABLE:
            self.transactions.read(key, answered)
        else:
            answered(self.leases.seen(key, self.transactions.here(key, mark)))

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None], caller: Caller | None = None) -> None:
        if not self.ready:
            self.transactions.refuse(txn, answered, TxnRefused(reason=self.lifecycle.reason))
        elif self._stall.is_waking:
            self.transactions.refuse(txn, answered, TxnRefused(reason=STOOD_STILL))
        elif self.quorum.refuses():
            self.transactions.refuse(txn, answered, TXN_WITHOUT_QUORUM)
        else:
            self.transactions.run(txn, answered, caller)

    @property
    def txn_waits(self) -> str:
        """Why no transactions are ordered here now; empty if they are."""
        engine = self.ordered
        if engine.is_open:
            return ""
        return f"{engine.state}, term {engine.replica.number}, {engine.behind} decisions behind"

    def peek(self, key: bytes) -> ReadResult | None:
        """What an optimistic read finds without a message. A node that serves no clients finds nothing; `read` then
        answers why."""
        try:
            here = self.replica.peek(key, use_cache=True) if self.reads_here else None
        except RottenRow:
            return None
        if here is None:
            return None
        return self.leases.seen(key, self.transactions.here(key, here.committed) if is_owned(here.committed) else here)

    @property
    def repaired(self) -> int:
        """Keys that were found missing, or behind, by comparing with another replica."""
        return self.member.key_sync.repaired if self.member is not None else 0

    @property
    def changelog_bytes(self) -> int | None:
        return self.member.key_sync.gc.kept_bytes if self.member is not None else None

    def changelog_ceiling(self) -> RetentionCeiling:
        usage, given = self.disk_usage(), self.settings.limits.changelog_mib
        return ceiling(usage.tree_bytes if usage is not None else 0, given << 20 if given is not None else None)

    def stays(self, key: bytes, here: ReadResult) -> bool:
        """Whether the result of a `peek` is valid until `on_overwrite`: it is this replica's newest version, durable or
        not. A value found elsewhere may be replaced without that call, and one that expires is hidden without it."""
        newest = self.replica.newest(key)
        return here.source is Source.LOCAL and newest == here.committed and (newest is None or newest.expiry is None)

    def inspect(self, key: bytes, answered: Callable[[list[ReplicaView]], None]) -> None:
        inspect(self, key, answered)

    def status(self) -> NodeReport:
        return report_of(self)

    def datacenter_of(self, replica: int) -> str:
        """By the configuration in force; else by the file."""
        info = self.replica.config.info(replica)
        return (info.datacenter if info is not None else "") or self.settings.datacenter_of(replica)

    def on_refusal(self, listener: Callable[[], None]) -> None:
        """`listener` is called when the node stops serving clients: it stops, or is no member any more."""
        self._refusal_listeners.append(listener)

    def _announce_refusal(self) -> None:
        for listener in self._refusal_listeners:
            listener()

    def _alarm(self, text: str) -> None:
        self.violations += 1
        self._sound_alarm(text)

    def _become_ready(self) -> None:
        self._started = True
        self._update_lifecycle()

    def _update_lifecycle(self) -> None:
        """After a change of what decides whether clients are served."""
        if not self._started:
            return
        gate, config = self.gate, self.replica.config
        if gate is None:
            info = config.info(self.me)
            self._enter(lifecycle_of(config, self.me, info.identity if info is not None else 0, is_known=True))
        else:
            known, waits_for, refused = gate.is_known, gate.waits_for, gate.refused
            self._enter(
                lifecycle_of(config, self.me, gate.identity, is_known=known, waits_for=waits_for, refused=refused)
            )
        if self.ready and self.orders:
            self.ordered.found(self.replica.config)
            self.ordered.adopt(self.replica.config)

    def _enter(self, lifecycle: Lifecycle) -> None:
        read_here, self.lifecycle = self.reads_here, lifecycle
        self.ready, self.reads_here = lifecycle.serves, lifecycle.reads
        if read_here and not self.reads_here:
            self._announce_refusal()

    def _gate_changed(self) -> None:
        """This node may vote from now on, or was refused."""
        if self.gate is not None and self.gate.refused:
            self.ordered.stop()
        self._update_lifecycle()

    def _config_changed(self, _key: bytes, _before: KeyState, _after: KeyState) -> None:
        self.epoch_began_ms = self.clock.now_ms()
        self._update_lifecycle()
        if self.orders:
            self.ordered.adopt(self.replica.config)

    def _written(self, write: Write, done: Written, outcome: Outcome) -> None:
        """A key that belongs to transactions is written by one; it cannot be reserved."""
        if isinstance(outcome, Committed) and outcome.mine:
            self.paths[outcome.path] += 1
        elif not isinstance(outcome, Committed | ConsensusFailed | Refused) and is_owned(outcome.committed):
            if write.mutable:
                self._owned_writes.run(write, outcome.committed, done)
                return
            outcome = ImmutableKey(committed=outcome.committed, path=outcome.path)
        done(outcome)

    def _retime(self) -> None:
        """Timeouts follow the links, and admission follows the throughput."""
        self._stall.beat()
        self._mean_round_ms = self.latency.mean_ms()
        self._measure()
        for admission in self.admission.values():
            admission.adapt(RETIME_EVERY_MS / 1000)
        self._retiming = self.clock.call_later(RETIME_EVERY_MS, self._retime)

    def _measure(self) -> None:
        self._measured_ms = self.clock.now_ms()
        sync_ms = self.longest_sync_ms() or 0.0
        timing = key_timing(self.replica.config, self.me, self.links, self._mean_round_ms, sync_ms)
        self.driver.timing, self.ordered.timing = timing, txn_timing(timing)

    def _measure_again(self) -> None:
        """A replica did not answer a read in time: the next reads ask others first."""
        self.read_hedges += 1
        if self.clock.now_ms() - self._measured_ms >= MEASURE_AGAIN_MS:
            self._measure()

    def _links_ticked(self) -> None:
        """Clients that wait without a quorum are told. What they asked for goes on: it may still be decided."""
        if self.quorum.look():
            for admission in self.admission.values():
                admission.give_up(LOST_MS)


def floor_of(limits: Limits) -> RetentionFloor:
    return RetentionFloor(commits=limits.changelog_commits, age_ms=60_000.0 * limits.changelog_minutes)
