"""One datacenter's node, as its doors see it: writes, reads, pages, changes, and how it is doing."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from epoxy.model.cluster import CONFIG_KEY, ReplicaInfo, Side
from epoxy.model.instances import end_key
from epoxy.model.messages import Failed, Inspect, Inspected, Reply
from epoxy.model.records import ChangelogEntry, KeyState, Proposal
from epoxy.model.transactions import Txn, TxnOutcome, TxnRefused
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    Consistency,
    ExpectedValueDoesNotMatch,
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
from epoxy.node.keys.backfill import Backfill
from epoxy.node.keys.driver import UNBEGUN, Change, Driver
from epoxy.node.keys.latency import RoundLatency
from epoxy.node.keys.listing import Listing
from epoxy.node.keys.replica import Replica
from epoxy.node.members.lifecycle import STARTING, STOPPING, standing
from epoxy.node.members.member import Membership
from epoxy.node.members.members_admin import MembersAdmin
from epoxy.node.process.config import Limits, Settings
from epoxy.node.status import NodeReport, PeerStatus, ReplicaView
from epoxy.node.txn.engine import OrderedEngine
from epoxy.node.txn.transactions import LATE, Transactions, is_owned
from epoxy.ports import Clock, Dice, MemberTransport, Store, Timer, Transport
from epoxy.protocol.keys.effects import Timing
from epoxy.protocol.members.retention import RetentionFloor, commit_of
from epoxy.protocol.txn import effects as ordered_effects
from epoxy.runtime.admission import Pending
from epoxy.runtime.stall import BEAT_MS, Stall

RETIME_EVERY_MS = BEAT_MS
"""How often the timers follow the measured round trips: links change by the minute, not by the message."""

SHORTEST_HEDGE_MS = 25.0
HEDGE_FACTOR = 1.5
LONGEST_HEDGE_MS = 3000.0
"""Below, a busy event loop would be taken for a slow link; above, a person would give up."""

BUSY_FACTOR = 3.0
"""Of the time fast rounds take of late: under load, one in a hundred takes as long. 512 writes under way at a time made
every second one leave its fast round after 40 ms, and what was decided each second fell to a half."""

SHORTEST_ROUND_MS = 500.0
"""A disk may pause for as long now and then, however near its datacenter is."""

SHORTEST_BACKOFF_MS, LONGEST_BACKOFF_MS = 3.0, 100.0
"""Rivals should be out of each other's way by about half a round: longer is time lost, shorter is another collision."""

SAME_DISTANCE_MS = 2.0
"""Round trips that differ by less differ by chance."""

UNKNOWN_RTT_MS = 300.0
"""A peer nobody has measured yet may be on the other side of the world."""


class Links(Transport, Protocol):
    """The transport, and what it knows of the peers."""

    def rtt_ms(self, peer: int) -> float | None: ...

    def reachable(self, peer: int) -> bool: ...

    def trouble(self, peer: int) -> str:
        """Why it is not."""


WRITE_LATE = ConsensusFailed(reason="not decided in time; it may still take effect")
STOOD_STILL = "this node stood still for a while, and what reached it meanwhile is dropped; try again"
READ_LATE = ReadFailed(reason="no answer in time")


class Node:
    def __init__(
        self,
        settings: Settings,
        store: Store,
        links: Links,
        clock: Clock,
        dice: Dice,
        alarm: Callable[[str], None],
        questions: MemberTransport | None = None,
    ) -> None:
        """`questions`: the way to the members' other ears; without it the members are those of the file, for ever."""
        self.settings = settings
        self.me = settings.node.id
        self.violations = 0
        self.longest_sync_ms: Callable[[], float | None] = lambda: None
        """Of the store; None: it has no disk."""
        self._sound_alarm = alarm
        alarm = self._alarm
        self.ready = False
        self.standing = STARTING
        self.paths: Counter[Path] = Counter()
        self.replica = Replica(self.me, store, settings.first_config(), alarm)
        self.driver = Driver(self.replica, links, clock, dice, Timing(), alarm)
        self.driver.observer = self.pace = RoundLatency()
        self.links = links
        self.clock = clock
        limits = settings.limits
        self.ordered = OrderedEngine(self.me, store, None, links, clock, dice, alarm)
        self.failures = self.ordered.failures = self.driver.failures
        self.ordered.terms.decided_end = self._decided_end
        self.ordered.terms.decide_end = self._decide_end
        self.replica.ordered = self.ordered.handle
        late: Pending[TxnOutcome] = Pending(clock, limits.writes_in_flight, limits.request_timeout_ms, LATE)
        self._txns = late
        self.transactions = Transactions(self.ordered, self.driver, late)
        self._listing = Listing(self.replica, store, self.transactions)
        self._writes: Pending[Outcome] = Pending(
            clock, limits.writes_in_flight, limits.request_timeout_ms, WRITE_LATE, UNBEGUN
        )
        self._stall = Stall(clock, limits.request_timeout_ms)
        self._reads: Pending[ReadAnswer] = Pending(clock, limits.reads_in_flight, limits.request_timeout_ms, READ_LATE)
        self._store = store
        self._started_ms = self._epoch_began_ms = clock.now_ms()
        self._listeners: list[Callable[[], None]] = []
        self._overwrite_listeners: list[Callable[[bytes], None]] = []
        self._forgetting: list[Callable[[], None]] = []
        self._telling = self._more = self._started = False
        self._retiming: Timer | None = None
        self.replica.commit_watchers.append(self._changed)
        self.member = (
            Membership(self.driver, store, questions, dice, self.ordered.terms) if questions is not None else None
        )
        self.roster = MembersAdmin(self.member, links.reachable) if self.member is not None else None
        self._backfill = Backfill(self.replica.keyspace, store, clock) if settings.store.backfill else None

    def start(self) -> None:
        """A peer may be absent, once the others have met this node's store."""
        self._retime()
        self.ordered.adopt(self.replica.config)
        self.ordered.start()
        if self.member is not None:
            self.member.guard.confirmed = self._stand
            self.member.copier.sweeper.floor = floor_of(self.settings.limits)
            self.member.start()
        if self._backfill is not None:
            self._backfill.start()
        self._store.when_durable(self._become_ready)

    def refuse_clients(self) -> None:
        """From here on whatever is asked is refused, definitely; what is under way goes on, with its time limits."""
        self._started = False
        was_ready, self.ready, self.standing = self.ready, False, STOPPING
        if was_ready:
            self._forget_answers()

    def stop(self) -> None:
        self.refuse_clients()
        self._writes.stop()
        self._reads.stop()
        self._txns.stop()
        self.ordered.stop()
        if self._retiming is not None:
            self._retiming.cancel()

    @property
    def in_flight(self) -> int:
        """Writes the driver still works on, whether their clients wait or have been told that their time is over."""
        return self._writes.count + self._txns.count

    @property
    def refused(self) -> dict[str, int]:
        """How many were turned away, by the limit that was reached."""
        writes = self._writes.refused + self._txns.refused
        return {"writes_in_flight": writes, "reads_in_flight": self._reads.refused}

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None:
        refused = self._write_refused()
        if refused is not None:
            answered(refused)
        else:
            ticket = self._writes.begin(answered)
            self.driver.write(write, partial(self._written, ticket), ticket)

    def update(self, key: bytes, change: Change, answered: Callable[[Outcome], None], *, again: bool = False) -> None:
        """A write that follows from the version before it: see `Driver.update`."""
        refused = self._write_refused()
        if refused is not None:
            answered(refused)
        else:
            ticket = self._writes.begin(answered)
            self.driver.update(key, change, partial(self._written, ticket), again=again, turn=ticket)

    def is_full(self, *, writes: bool) -> bool:
        """Whether another write, or another read that asks other regions, would be turned away now."""
        pending = self._writes if writes else self._reads
        return pending.count >= pending.limit

    def _write_refused(self) -> Refused | None:
        if not self.ready:
            return Refused(reason=self.standing.reason)
        if self._stall.is_waking:
            return Refused(reason=STOOD_STILL)
        writes = self._writes
        if writes.count >= writes.limit:
            writes.refused += 1
            return Refused(reason=f"{writes.limit} writes are in flight already")
        return None

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:
        """What is known here is answered at once, and never turned away; so is a linearizable read of a reserved name,
        because its value cannot change."""
        if not self.ready:
            answered(ReadFailed(reason=self.standing.reason))
            return
        if consistency is Consistency.LINEARIZABLE and may_change(self.replica.newest(key)):
            self._ask_others(key, consistency, answered)
            return
        here = self.replica.peek(key, use_cache=consistency is not Consistency.SKIP_CACHE)
        if here is not None and is_owned(here.committed):
            self._read_ordered(key, consistency, answered)
        elif here is not None and (consistency is not Consistency.LINEARIZABLE or is_final(here)):
            answered(here)
        else:
            self._ask_others(key, consistency, answered)

    def _ask_others(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:
        reads = self._reads
        if reads.count >= reads.limit:
            reads.refused += 1
            answered(Refused(reason=f"{reads.limit} reads are asking other regions already"))
        else:
            self.driver.read(key, consistency, reads.begin(partial(self._found, key, consistency, answered)))

    def _found(
        self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None], outcome: ReadAnswer
    ) -> None:
        """Others may know that a key belongs to transactions before this replica does."""
        if isinstance(outcome, ReadResult) and is_owned(outcome.committed):
            self._read_ordered(key, consistency, answered)
        else:
            answered(outcome)

    def _read_ordered(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:
        if consistency is Consistency.LINEARIZABLE:
            self.transactions.read(key, answered)
        else:
            answered(self.transactions.here(key))

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None:
        if not self.ready:
            answered(TxnRefused(reason=self.standing.reason))
        elif self._stall.is_waking:
            answered(TxnRefused(reason=STOOD_STILL))
        else:
            self.transactions.run(txn, answered)

    @property
    def txn_waits(self) -> str:
        """Why no transactions are ordered here now; empty if they are."""
        engine = self.ordered
        return (
            "" if engine.is_open else f"{engine.state}, term {engine.replica.number}, {engine.behind} decisions behind"
        )

    def peek(self, key: bytes) -> ReadResult | None:
        """What an optimistic read finds without asking anybody. A node that does not serve finds nothing: whoever reads
        on is told why."""
        here = self.replica.peek(key, use_cache=True) if self.ready else None
        return here if here is None or not is_owned(here.committed) else self.transactions.here(key)

    def page(self, prefix: bytes, after: bytes | None, limit: int) -> list[tuple[bytes, Proposal]]:
        return self._listing.page(prefix, after, limit)

    def count(self, after: bytes | None, rows: int) -> tuple[int, bytes | None]:
        return self._listing.count(after, rows)

    def changes(self, after: bytes | None, limit: int) -> list[tuple[bytes, ChangelogEntry]]:
        """From the oldest that is kept, without `after`."""
        begin = after if after is not None else self.changes_gone()
        return self.replica.keyspace.changelog(self._store.durable(), begin, limit)

    def changes_gone(self) -> bytes:
        """The newest of the changes that are no longer kept."""
        return self.replica.keyspace.truncated(self._store.durable())

    def changes_kept(self) -> int:
        """Rows of the changelog, those of one commit counted as one. Whoever scrapes metrics asks, so they are not
        looked at."""
        return self._store.newest_stamp() - commit_of(self.changes_gone())

    @property
    def repaired(self) -> int:
        """Keys that were found missing, or behind, by comparing with others."""
        return self.member.copier.repaired if self.member is not None else 0

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Told when `changes` may have more; returns what ends it."""
        self._listeners.append(listener)
        return partial(self._listeners.remove, listener)

    def on_overwrite(self, listener: Callable[[bytes], None]) -> None:
        """Told of a key whose next version may be shown from now on, before anybody is shown it."""
        self._overwrite_listeners.append(listener)

    def stays(self, key: bytes, here: ReadResult) -> bool:
        """Whether what a peek has shown is shown until `on_overwrite` says otherwise: no newer version is on its way
        to the disk. What was found elsewhere may be replaced by something else that was."""
        return here.source is Source.LOCAL and self.replica.newest(key) == here.committed

    def inspect(self, key: bytes, answered: Callable[[list[ReplicaView]], None]) -> None:
        """Ask every replica; those that do not answer in time are shown as silent."""
        waiting = set(self.replica.config.replica_ids)
        views: dict[int, ReplicaView] = {}

        def heard(replica: int, reply: Reply) -> None:
            if replica not in waiting:
                return
            waiting.discard(replica)
            held = reply if isinstance(reply, Inspected) else None
            reason = reply.reason if isinstance(reply, Failed) else ""
            views[replica] = ReplicaView(id=replica, datacenter=self.datacenter_of(replica), held=held, reason=reason)
            if not waiting:
                timer.cancel()
                answered([views[i] for i in sorted(views)])

        def give_up() -> None:
            for replica in sorted(waiting):
                heard(replica, Failed(reason="no answer in time"))

        timer = self.clock.call_later(self.driver.timing.round_timeout_ms, give_up)
        for replica in sorted(waiting):
            self._ask(replica, [Inspect(key=key)], partial(heard, replica))

    def status(self) -> NodeReport:
        config = self.replica.config
        sizes = config.quorums
        spare = self._spare()
        committed = sum(self.paths.values())
        return NodeReport(
            id=self.me,
            datacenter=self.settings.node.datacenter,
            pid=os.getpid(),
            epoch=config.epoch,
            ready=self.ready,
            state=self.standing.state.value,
            reason=self.standing.reason,
            joint=config.is_joint,
            epoch_age_s=(self.clock.now_ms() - self._epoch_began_ms) / 1000,
            available=spare >= 0,
            tolerated_failures=spare,
            fast_path_share=self.paths[Path.FAST] / committed if committed else None,
            floor_ms=rounded(self._floor_ms()),
            quorum_policy=config.quorum_policy.value,
            replicas=sizes.n,
            slow_quorum=sizes.slow,
            fast_quorum=sizes.fast,
            txn_fast_path_share=self.transactions.fast_share,
            txn_term=self.ordered.replica.number,
            txn_state=self.ordered.state,
            txn_behind=self.ordered.behind,
            txn_kept=self.ordered.replica.kept,
            txn_kept_for=self.ordered.replica.kept_for,
            writes_in_flight=self.in_flight,
            uptime_s=(self.clock.now_ms() - self._started_ms) / 1000,
            peers=[self._peer(info) for info in config.replicas if info.id != self.me],
            longest_sync_ms=rounded(self.longest_sync_ms()),
            invariant_violations=self.violations,
        )

    def _ask(self, replica: int, requests: Sequence[Inspect], heard: Callable[[Reply], None]) -> None:
        if replica == self.me:
            self.replica.handle(requests, heard)
        else:
            self.links.send(replica, requests, heard)

    def _spare(self) -> int:
        """How many more may fail; while joint, of the side that has fewer to spare."""
        config = self.replica.config
        sides = config.sides or (Side(frozenset(config.active), config.quorums.slow),)
        reached = {peer for peer in config.voters if peer == self.me or self.links.reachable(peer)}
        return min([len(reached & side.members) - side.need for side in sides])

    def _peer(self, info: ReplicaInfo) -> PeerStatus:
        return PeerStatus(
            id=info.id,
            datacenter=self.datacenter_of(info.id),
            url=info.url,
            rtt_ms=rounded(self.links.rtt_ms(info.id)),
            reachable=self.links.reachable(info.id),
            status=info.status.value,
            trouble=self.links.trouble(info.id),
        )

    def datacenter_of(self, replica: int) -> str:
        """What the configuration calls it; the file, if that says nothing."""
        info = self.replica.config.info(replica)
        return (info.datacenter if info is not None else "") or self.settings.datacenter_of(replica)

    def _alarm(self, text: str) -> None:
        self.violations += 1
        self._sound_alarm(text)

    def _become_ready(self) -> None:
        self._started = True
        self._stand()

    def _stand(self) -> None:
        """Something has changed that decides whether clients are served."""
        if not self._started:
            return
        guard = self.member.guard if self.member is not None else None
        identity, may_vote = (guard.identity, guard.may_vote) if guard is not None else (0, True)
        self.standing = standing(self.replica.config, self.me, identity, may_vote=may_vote)
        was_ready, self.ready = self.ready, self.standing.serves
        if self.ready:
            self.ordered.found(self.replica.config)
            self.ordered.adopt(self.replica.config)
        if was_ready and not self.ready:
            self._forget_answers()

    def _forget_answers(self) -> None:
        for forget in self._forgetting:
            forget()

    def on_refusal(self, forget: Callable[[], None]) -> None:
        """Told when clients are not served any more, by one that is no member now, or stops."""
        self._forgetting.append(forget)

    def _written(self, done: Callable[[Outcome], None], outcome: Outcome) -> None:
        if isinstance(outcome, Committed) and outcome.mine:
            self.paths[outcome.path] += 1
        elif isinstance(outcome, ExpectedValueDoesNotMatch) and is_owned(outcome.committed):
            outcome = ImmutableKey(committed=outcome.committed, path=outcome.path)
        done(outcome)

    def _changed(self, key: bytes, before: KeyState, _after: KeyState) -> None:
        """One call for many commits: listeners read on from where they are. Also with no listener yet: one that comes
        before this is durable does not see it in `changes`, and must be told."""
        if key == CONFIG_KEY:
            self._epoch_began_ms = self.clock.now_ms()
            self._stand()
            self.ordered.adopt(self.replica.config)
        if before.committed is not None:
            self._store.when_durable(partial(self._overwritten, key))
        if self._telling:
            self._more = True
        else:
            self._tell_when_durable()

    def _decided_end(self, term: int) -> bytes | None:
        found = self.replica.newest(end_key(term))
        return found.value if found is not None else None

    def _decide_end(self, term: int, value: bytes, done: Callable[[bytes | None], None]) -> None:
        """A reserved name: who comes first decides for all, and the others are told."""
        self.driver.write(Write(key=end_key(term), value=value), lambda outcome: done(held_after(outcome)))

    def _overwritten(self, key: bytes) -> None:
        for listener in self._overwrite_listeners:
            listener(key)

    def _tell_when_durable(self) -> None:
        self._telling, self._more = True, False
        self._store.when_durable(self._tell)

    def _tell(self) -> None:
        """What was committed since this call was asked for may need another sync, and then another call."""
        self._telling = False
        if self._more:
            self._tell_when_durable()
        for listener in list(self._listeners):
            listener()

    def _floor_ms(self) -> float | None:
        """To the farthest of the nearest peers that make a fast quorum with this replica."""
        config = self.replica.config
        known = sorted(
            rtt
            for peer in config.active
            if peer != self.me and self.links.reachable(peer) and (rtt := self.links.rtt_ms(peer)) is not None
        )
        need = config.quorums.fast - 1
        if need == 0:
            return 0.0
        return known[need - 1] if len(known) >= need else None

    def _by_distance(self, peers: Sequence[int]) -> tuple[int, ...]:
        """Peers of one distance, as in one building, take turns: each replica begins with the next after it."""
        known = [
            (rtt // SAME_DISTANCE_MS, peer < self.me, peer)
            for peer in peers
            if self.links.reachable(peer) and (rtt := self.links.rtt_ms(peer)) is not None
        ]
        return tuple(peer for _, _, peer in sorted(known))

    def _retime(self) -> None:
        """Timers follow the links, and what is let in follows what gets done. A nearby replica that falls silent leaves
        the fast round to one farther away, so the hedge waits for the farthest: leaving early would cost two more round
        trips to save a part of one."""
        self._stall.beat()
        peers = self.replica.config.others(self.me)
        rtts = [self.links.rtt_ms(peer) for peer in peers]
        farthest = max((UNKNOWN_RTT_MS if rtt is None else rtt for rtt in rtts), default=0.0)
        busy = BUSY_FACTOR * self.pace.mean_ms()
        hedge = min(LONGEST_HEDGE_MS, max(HEDGE_FACTOR * farthest + SHORTEST_HEDGE_MS, busy))
        self.driver.timing = Timing(
            hedge_ms=hedge,
            round_timeout_ms=max(SHORTEST_ROUND_MS, 2 * farthest + 4 * SHORTEST_HEDGE_MS, 2 * min(busy, hedge)),
            backoff_ms=min(LONGEST_BACKOFF_MS, max(SHORTEST_BACKOFF_MS, farthest / 2)),
            near=self._by_distance(peers),
        )
        self._writes.adapt(RETIME_EVERY_MS / 1000)
        self._reads.adapt(RETIME_EVERY_MS / 1000)
        self._txns.adapt(RETIME_EVERY_MS / 1000)
        timing = self.driver.timing
        self.ordered.timing = ordered_effects.Timing(
            hedge_ms=timing.hedge_ms,
            round_timeout_ms=timing.round_timeout_ms,
            recover_ms=timing.round_timeout_ms,
            backoff_ms=timing.backoff_ms,
        )
        self._retiming = self.clock.call_later(RETIME_EVERY_MS, self._retime)


def floor_of(limits: Limits) -> RetentionFloor:
    return RetentionFloor(commits=limits.changelog_commits, age_ms=60_000.0 * limits.changelog_minutes)


def may_change(newest: Proposal | None) -> bool:
    """So others must be asked. The newest version may not be durable yet; if it is not final, none before it was."""
    return newest is not None and newest.mutable and not is_owned(newest)


def is_final(here: ReadResult) -> bool:
    """Committed and immutable: what the newest version is, nobody needs to be asked."""
    return here.committed is not None and not here.committed.mutable


def held_after(outcome: Outcome) -> bytes | None:
    """The value of a name that somebody wanted to reserve; None: not known."""
    if isinstance(outcome, Committed):
        return outcome.proposal.value
    return outcome.committed.value if isinstance(outcome, ExpectedValueDoesNotMatch) else None


def rounded(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds, 3)
