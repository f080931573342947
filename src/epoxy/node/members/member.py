"""A replica's part in changing members: it copies, it is copied from, and it may coordinate.

It has no event loop of its own: everything happens in callbacks, one at a time.
"""

from collections.abc import Callable
from functools import partial
from typing import assert_never

from epoxy.codec import wire
from epoxy.model.cluster import CHANGE_REQUEST_KEY, CONFIG_KEY, ClusterConfig
from epoxy.model.members import (
    ActorsRead,
    ChangelogRead,
    ChangeRequest,
    FastVotesRead,
    Figures,
    FiguresRead,
    HeldRead,
    KeptRead,
    MemberReply,
    MemberRequest,
    MemberStatus,
    SnapshotRead,
    StatusRead,
    UnsettledPage,
    UnsettledRead,
    ValuesRead,
)
from epoxy.model.messages import EpochAhead, Failed, Reply, StaleEpoch
from epoxy.model.records import KeyState
from epoxy.model.writes import Consistency, Outcome, ReadFailed, ReadOutcome, Write
from epoxy.node.backup.source import BackupRequest, BackupSource
from epoxy.node.keys.driver import Driver
from epoxy.node.members.config_record import change_request, change_write
from epoxy.node.members.key_count import KeyCount
from epoxy.node.members.key_sync import KeySync, whole_or_failed
from epoxy.node.members.peer_gate import PeerGate
from epoxy.node.members.settle import Settling
from epoxy.node.members.txn_sync import TxnStateSource, TxnSync
from epoxy.ports import Dice, MemberTransport, Store, Timer, Transaction
from epoxy.protocol.effects import Adopt, Local
from epoxy.protocol.keys import acceptor
from epoxy.protocol.members.coordinator import coordinate
from epoxy.protocol.members.effects import (
    Ask,
    AskAll,
    CollectActors,
    ConfigUpdate,
    CurrentConfig,
    Execute,
    HereEffect,
    HostEffect,
    Install,
    LookThrough,
    Mirrored,
    Preserve,
    Publish,
    ReadChangeRequest,
    Replace,
    Rest,
    Settle,
    SummariseRows,
    Synced,
)
from epoxy.protocol.members.learner import learn
from epoxy.runtime.flow import Done, FlowRunner
from epoxy.store.member_rows import MemberSpace

ChangeOfMembers = SnapshotRead | ChangelogRead | UnsettledRead | StatusRead | ValuesRead | KeptRead
PAGES = SnapshotRead | ChangelogRead | ValuesRead | KeptRead
PAGE_ROUNDS = 5
"""The time-out of a page, in rounds of small messages: it has up to 1 MiB, and a thousand rows must be found."""

FOLLOW_MS, CHANGE_MS, HURRY_MS = 1_000.0, 250.0, 50.0
"""Between two passes over the other replicas: in quiet times, while members change, and in a joint epoch, which should
end soon."""

BEGIN_MS, COORDINATE_MS = 100.0, 1_000.0
"""Between two checks whether to coordinate. A new cluster cannot change before the identities of its members' stores
are in its configuration, and the sooner they are, the fewer writes are in flight meanwhile."""

TAKE_OVER = 5
"""Checks without a change of epoch, after which a replica coordinates that is not the coordinator."""


class Membership:
    def __init__(
        self,
        driver: Driver,
        store: Store,
        transport: MemberTransport,
        dice: Dice,
        gate: PeerGate,
        ordered: TxnStateSource | None = None,
    ) -> None:
        """`ordered`: the ordered engine, whose state new members copy too."""
        self.driver = driver
        self.replica = driver.replica
        self._store = store
        self._transport = transport
        self.clock = driver.clock
        self.failures = driver.failures
        self._dice = dice
        self.gate = gate
        self.space = MemberSpace(self.replica.keyspace, self.replica.me)
        self.key_sync = KeySync(self.replica, store, self.space, driver.clock)
        self.txn_sync = (
            TxnSync(self.replica, store, ordered, self, lambda: driver.timing.near) if ordered is not None else None
        )
        self.backup_source = BackupSource(self.replica, store, self.space, ordered, driver.clock)
        self.key_count = KeyCount(self.replica, store, driver.clock)
        self.figures: Callable[[], bytes] = bytes
        """What this node says of its last commits; a process gives it."""
        self._synced_epoch = self._settled_epoch = 0
        self._coordinating = False
        self._pages: list[Callable[[MemberReply], None]] = []
        """Asked for and not answered yet: one for each flow that copies."""
        self._idle = 0
        self._sleep: Timer | None = None
        """Between two passes of the learner."""
        self._hurried = False
        """At most one early wake-up per sleep, or frequent callers could postpone it for ever."""
        self.replica.config_watchers.append(self._config_changed)

    def start(self) -> None:
        """Learn from the others, and check whether to coordinate, for as long as this process runs."""
        self._follow()
        if self.txn_sync is not None:
            self.txn_sync.start()
        self.key_sync.gc.start()
        self.clock.call_later(BEGIN_MS * self._dice.uniform(), self._look)

    def request_change(self, request: ChangeRequest, answered: Callable[[Outcome], None]) -> None:
        """Write the request, and coordinate it from here."""

        def written(outcome: Outcome) -> None:
            self.coordinate()
            answered(outcome)

        self.driver.write(change_write(request), written)

    def coordinate(self) -> None:
        if not self._coordinating and self.gate.may_vote:
            self._coordinating = True
            flow = coordinate(self.replica.me)
            FlowRunner(self, "coordinator", flow, lambda _: None, self._coordinated).start()

    # As a source

    def answer(self, request: MemberRequest, answered: Callable[[MemberReply], None]) -> None:
        """The reply leaves when what it rests on is durable."""
        if not self.gate.answers(request):
            # When the record of the sender's start is durable: any answer tells it that there is one.
            self._store.when_durable(partial(answered, Failed(reason="this node takes no part yet, or no longer")))
            return
        if isinstance(request, BackupRequest):
            self.backup_source.answer(request, answered)
            return
        if isinstance(request, FiguresRead):
            self._store.when_durable(partial(answered, Figures(report=self.figures())))
            return
        if isinstance(request, FastVotesRead):
            self._store.when_durable(partial(answered, fast_votes(self._store, self.space, request)))
            return
        if isinstance(request, PAGES):
            self.key_sync.serve(partial(self._reply, request), answered)
            return
        reply = whole_or_failed(self._store, partial(self._reply, request))
        self._store.when_durable(partial(answered, reply))

    def _reply(self, request: ChangeOfMembers, tx: Transaction) -> MemberReply:
        config = self.replica.config
        match request:
            case SnapshotRead() | ChangelogRead():
                return self.key_sync.page(tx, request)
            case ValuesRead() | KeptRead():
                return self.txn_sync.page(tx, request) if self.txn_sync is not None else Failed(reason="it has none")
            case UnsettledRead():
                return not_adopted(request.epoch, config) or self.space.unsettled_page(
                    tx.snapshot, request.after, config
                )
            case StatusRead():
                if self.key_sync.is_changing():
                    self.key_count.renew()
                else:
                    self._hurry()
                return self.status(tx)
            case _:
                assert_never(request)

    def status(self, tx: Transaction) -> MemberStatus:
        epoch = self.replica.config.epoch
        return MemberStatus(
            identity=self.gate.identity,
            epoch=epoch,
            sources=self.key_sync.sources(tx) if self.txn_sync is None or self.txn_sync.is_ready else (),
            synced=self._synced_epoch == epoch and (self.txn_sync is None or self.txn_sync.is_synced),
            keys=self.key_count.keys,
            copied=self.key_sync.copied,
        )

    # As a learner

    def _follow(self) -> None:
        self._sleep = None
        flow = learn(self.replica.me, self._settled_epoch)
        FlowRunner[int | None](self, "learner", flow, lambda _: None, self._followed).start()

    def _followed(self, settled_epoch: int | None) -> None:
        """None: it raised. The next pass begins later then: what it met may still be there."""
        if settled_epoch is not None:
            self._settled_epoch = settled_epoch
        self._hurried = False
        self._sleep_for(self._pause_ms() if settled_epoch is not None else FOLLOW_MS)

    def _pause_ms(self) -> float:
        if self.replica.config.is_joint:
            return HURRY_MS
        return CHANGE_MS if self.key_sync.is_changing() else FOLLOW_MS

    def _sleep_for(self, delay_ms: float) -> None:
        self._sleep = self.clock.call_later(delay_ms * (0.5 + self._dice.uniform()), self._follow)

    def _hurry(self) -> None:
        """The epoch is new, or a coordinator waits for this replica's progress: begin the next pass soon."""
        if self._sleep is not None and not self._hurried:
            self._sleep.cancel()
            self._sleep_for(HURRY_MS)
            self._hurried = True

    def _config_changed(self, _key: bytes, _before: KeyState, _after: KeyState) -> None:
        """Pages of the epoch before are given up: a silent source would delay the end of a joint epoch."""
        self._idle = 0
        pages, self._pages = self._pages, []
        for answered in pages:
            self.clock.call_later(0, partial(answered, Failed(reason="the epoch is over")))
        self.key_sync.pace.end_rest()
        self._hurry()

    # As a coordinator

    def _look(self) -> None:
        """The replica that published the last configuration coordinates; another does if the epoch does not change."""
        self._idle += 1
        try:
            if not self.gate.may_vote:
                self._ask_whether_removed()
            if self.replica.config.coordinator_id == self.replica.me or self._idle >= TAKE_OVER:
                self._idle = 0
                self.coordinate()
        finally:
            is_new = not all(replica.identity for replica in self.replica.config.replicas)
            every_ms = BEGIN_MS if is_new else COORDINATE_MS
            self.clock.call_later(every_ms * (0.5 + self._dice.uniform()), self._look)

    def _ask_whether_removed(self) -> None:
        """A node that does not vote sends no requests, so no answer tells it that it is no member any more. A request
        for the status is allowed, and answered with the configuration if it was removed."""
        others = tuple(i for i in self.replica.config.replica_ids if i != self.replica.me)
        self._ask_all(AskAll(to=others, request=StatusRead()), lambda _: None)

    def _coordinated(self, _: None) -> None:
        self._coordinating = False

    # Effects

    def perform(self, effect: HostEffect, done: Done) -> None:
        match effect:
            case ReadChangeRequest():
                self.driver.read(CHANGE_REQUEST_KEY, Consistency.LINEARIZABLE, partial(self._request_read, done))
            case Ask():
                self.ask(effect.to, effect.request, done)
            case AskAll():
                self._ask_all(effect, done)
            case Publish():
                self._publish(effect.config, done)
            case Settle():
                Settling(self.driver, effect.keys, done).go_on()
            case SummariseRows() | CollectActors() | Execute():
                raise AssertionError(f"of a backup, which performs it itself: {effect}")
            case LookThrough() | Replace() | Preserve() | Install() | Mirrored():
                assert self.txn_sync is not None, "a replica without this engine runs no such flow"
                self.txn_sync.perform(effect, done)
            case _:
                self._perform_here(effect, done)

    def _request_read(self, done: Done, found: ReadOutcome) -> None:
        """A request that cannot be decoded, because a newer release wrote it or it is broken, counts as unknown."""
        if isinstance(found, ReadFailed):
            done(False)
            return
        try:
            request = change_request(found.committed)
        except Exception as error:
            self.failures.ended("coordinator", error, partial(done, False))
        else:
            done(request)

    def _perform_here(self, effect: HereEffect, done: Done) -> None:
        match effect:
            case CurrentConfig():
                done(self.replica.config)
            case Local():
                self.replica.perform(effect.op, done)
            case Synced():
                self._synced_epoch = effect.epoch
                done(None)
            case Rest():
                self.clock.call_later(effect.delay_ms * (0.5 + self._dice.uniform()), partial(done, None))
            case _:
                self.key_sync.perform(effect, done)

    def ask(self, to: int, request: MemberRequest, done: Callable[[MemberReply], None]) -> None:
        """`done` is called once, at the latest when the time of a round is over."""
        waiting = [done]

        def answered(reply: MemberReply) -> None:
            if isinstance(reply, StaleEpoch):
                self.replica.perform(Adopt(config=reply.config), lambda _: None)
            if waiting:
                timer.cancel()
                if is_page and answered in self._pages:
                    self._pages.remove(answered)
                waiting.pop()(reply)

        is_page = isinstance(request, PAGES | HeldRead | ActorsRead)
        if is_page:
            self._pages.append(answered)
        patience_ms = (PAGE_ROUNDS if is_page else 1) * self.driver.timing.round_timeout_ms
        timer = self.clock.call_later(patience_ms, lambda: answered(Failed(reason="timeout")))
        if to == self.replica.me:
            self.answer(request, answered)
        elif not self.gate.answers(request):
            answered(Failed(reason="this node takes no part yet, or no longer"))
        else:
            self._transport.ask(to, request, answered)

    def _ask_all(self, effect: AskAll, done: Done) -> None:
        replies: dict[int, MemberReply] = {}

        def answered(replica_id: int, reply: MemberReply) -> None:
            replies[replica_id] = reply
            if len(replies) == len(effect.to):
                done({i: each for i, each in replies.items() if not isinstance(each, Failed)})

        for replica_id in effect.to:
            self.ask(replica_id, effect.request, partial(answered, replica_id))

    def send(self, to: int, update: ConfigUpdate, answered: Callable[[Reply], None] | None) -> None:
        if to != self.replica.me:
            self.driver.transport.send(to, update, answered)

    def _publish(self, config: ClusterConfig, done: Done) -> None:
        value = wire.encode_config(config)
        self.driver.write(Write(key=CONFIG_KEY, value=value, mutable=True, if_version=config.epoch - 1), done)


def fast_votes(store: Store, space: MemberSpace, request: FastVotesRead) -> UnsettledPage | Failed:
    """Several processes that share a store hand requests on to each other: an Accept that was heard long ago may be
    voted for later."""
    if store.loads_ahead:
        return Failed(reason="several processes serve this replica")
    reply = whole_or_failed(store, lambda tx: space.fast_votes_page(tx.snapshot, request.proposer, request.after))
    assert isinstance(reply, UnsettledPage | Failed)
    return reply


def not_adopted(epoch: int, config: ClusterConfig) -> StaleEpoch | EpochAhead | None:
    """A replica lists its votes only after it has sealed the epochs in which they were given."""
    return acceptor.wrong_epoch(epoch, config)
