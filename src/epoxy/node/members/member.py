"""A replica's part in changing members: it copies, it is copied from, and it may coordinate.

Like `driver`, it has no event loop of its own: everything happens in callbacks, one at a time.
"""

from collections.abc import Callable
from functools import partial
from typing import assert_never

from epoxy.codec import wire
from epoxy.model.cluster import CHANGE_REQUEST_KEY, CONFIG_KEY, ClusterConfig
from epoxy.model.members import (
    ChangelogRead,
    ChangeRequest,
    KeptRead,
    MemberReply,
    MemberRequest,
    MemberStatus,
    SnapshotRead,
    StatusRead,
    UnsettledRead,
    ValuesRead,
)
from epoxy.model.messages import EpochAhead, Failed, Reply, StaleEpoch
from epoxy.model.records import KeyState
from epoxy.model.writes import Consistency, Outcome, ReadFailed, ReadOutcome, Write
from epoxy.node.keys.driver import Driver
from epoxy.node.members.key_count import KeyCount
from epoxy.node.members.key_sync import Copier
from epoxy.node.members.settle import Settling
from epoxy.node.members.store_identity import StoreIdentityCheck
from epoxy.node.members.txn_sync import Mirror, TxnStateSource
from epoxy.ports import Dice, MemberTransport, Store, Timer, Transaction
from epoxy.protocol.effects import Adopt, Local
from epoxy.protocol.keys import acceptor
from epoxy.protocol.members.coordinator import coordinate
from epoxy.protocol.members.effects import (
    Ask,
    AskAll,
    ConfigUpdate,
    CurrentConfig,
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
    Synced,
)
from epoxy.protocol.members.learner import learn
from epoxy.runtime.flow import Done, FlowRunner
from epoxy.store.member_rows import MemberSpace

PAGES = SnapshotRead | ChangelogRead | ValuesRead | KeptRead
PAGE_ROUNDS = 5
"""A page may take as long as this many rounds of small messages: 1 MiB, and a thousand rows to find."""

FOLLOW_MS, CHANGE_MS, HURRY_MS = 1_000.0, 250.0, 50.0
"""Between two passes over the other replicas: in quiet times, while members change, and while everybody waits for the
end of a joint epoch."""

BEGIN_MS, STEWARD_MS = 100.0, 1_000.0
"""Between two looks at the wish. Until the members' stores are written down, a new cluster cannot change, and the
sooner that is done the fewer writes are in flight meanwhile."""

TAKE_OVER = 5
"""Looks without a change of epoch, after which a replica that does not coordinate does it all the same."""


class Membership:
    def __init__(
        self,
        driver: Driver,
        store: Store,
        transport: MemberTransport,
        dice: Dice,
        ordered: TxnStateSource | None = None,
    ) -> None:
        """`ordered`: the engine whose state is handed on, too."""
        self.driver = driver
        self.replica = driver.replica
        self._store = store
        self._transport = transport
        self.clock = driver.clock
        self.failures = driver.failures
        self._dice = dice
        self.space = MemberSpace(self.replica.keyspace, self.replica.me)
        identity = store.transact(lambda tx: self.space.identity(tx, dice.nonce()))
        self.guard = StoreIdentityCheck(self.replica, store, self.space, identity)
        self.copier = Copier(self.replica, store, self.space, driver.clock)
        self.mirror = (
            Mirror(self.replica, store, ordered, self, lambda: driver.timing.near) if ordered is not None else None
        )
        self.census = KeyCount(self.replica, store, driver.clock)
        self._synced_epoch = self._settled_epoch = 0
        self._stewarding = False
        self._pages: list[Callable[[MemberReply], None]] = []
        """Asked for and not answered yet: one for each flow that copies."""
        self._idle = 0
        self._nap: Timer | None = None
        self._napped: Callable[[], None] | None = None
        self._hurried = False
        """Once for each nap: those who ask often would put its end off for ever."""
        self.replica.config_watchers.append(self._config_changed)

    def start(self) -> None:
        """Follow the others, and look after the wish, for as long as this process lives."""
        self._follow()
        if self.mirror is not None:
            self.mirror.start()
        self.copier.sweeper.start()
        self.clock.call_later(BEGIN_MS * self._dice.uniform(), self._look)

    def wish(self, wish: ChangeRequest, answered: Callable[[Outcome], None]) -> None:
        """Have these members wanted, and see to it from here."""

        def written(outcome: Outcome) -> None:
            self.coordinate()
            answered(outcome)

        self.driver.write(Write(key=CHANGE_REQUEST_KEY, value=wire.encode_change_request(wish), mutable=True), written)

    def coordinate(self) -> None:
        if not self._stewarding and self.guard.may_vote:
            self._stewarding = True
            flow = coordinate(self.replica.me)
            FlowRunner(self, "steward", flow, lambda _: None, self._stewarded).start()

    # As a source

    def answer(self, request: MemberRequest, answered: Callable[[MemberReply], None]) -> None:
        """What is told is durable first, like every reply."""
        if isinstance(request, PAGES):
            self.copier.serve(partial(self._reply, request), answered)
            return
        reply = self._store.transact(partial(self._reply, request))
        self._store.when_durable(partial(answered, reply))

    def _reply(self, request: MemberRequest, tx: Transaction) -> MemberReply:
        config = self.replica.config
        match request:
            case SnapshotRead() | ChangelogRead():
                return self.copier.page(tx, request)
            case ValuesRead() | KeptRead():
                return self.mirror.page(tx, request) if self.mirror is not None else Failed(reason="it has none")
            case UnsettledRead():
                return not_adopted(request.epoch, config) or self.space.unsettled_page(
                    tx.snapshot, request.after, config
                )
            case StatusRead():
                if self.copier.is_changing():
                    self.census.renew()
                else:
                    self._hurry()
                return self.status(tx)
            case _:
                assert_never(request)

    def status(self, tx: Transaction) -> MemberStatus:
        epoch = self.replica.config.epoch
        return MemberStatus(
            identity=self.guard.identity,
            epoch=epoch,
            sources=self.copier.sources(tx) if self.mirror is None or self.mirror.is_ready else (),
            synced=self._synced_epoch == epoch and (self.mirror is None or self.mirror.is_synced),
            keys=self.census.keys,
            copied=self.copier.copied,
        )

    # As a learner

    def _follow(self) -> None:
        self._nap = self._napped = None
        flow = learn(self.replica.me, self._settled_epoch)
        FlowRunner[int | None](self, "learner", flow, lambda _: None, self._followed).start()

    def _followed(self, settled_epoch: int | None) -> None:
        """None: it raised. It is begun again like one that ended, and not at once: what it met may still be there."""
        if settled_epoch is not None:
            self._settled_epoch = settled_epoch
        self._rest(self._pause_ms() if settled_epoch is not None else FOLLOW_MS, self._follow)

    def _pause_ms(self) -> float:
        if self.replica.config.is_joint:
            return HURRY_MS
        return CHANGE_MS if self.copier.is_changing() else FOLLOW_MS

    def _rest(self, delay_ms: float, then: Callable[[], None]) -> None:
        self._napped = then
        self._hurried = False
        self._nap = self.clock.call_later(delay_ms * (0.5 + self._dice.uniform()), then)

    def _hurry(self) -> None:
        """Somebody wants to know how far we are, or the epoch is new: no time for a nap."""
        if self._nap is not None and self._napped is not None and not self._hurried:
            self._nap.cancel()
            self._rest(HURRY_MS, self._napped)
            self._hurried = True

    def _config_changed(self, _key: bytes, _before: KeyState, _after: KeyState) -> None:
        """A page of the epoch before is not waited for: one who is silent would hold everybody up in a joint epoch."""
        self._idle = 0
        pages, self._pages = self._pages, []
        for answered in pages:
            self.clock.call_later(0, partial(answered, Failed(reason="the epoch is over")))
        self.copier.wake()
        self._hurry()

    # As a coordinator

    def _look(self) -> None:
        """Now and then. The one that published last goes on; the others step in when nothing moves."""
        self._idle += 1
        try:
            if self.replica.config.coordinator_id == self.replica.me or self._idle >= TAKE_OVER:
                self._idle = 0
                self.coordinate()
        finally:
            is_new = not all(replica.identity for replica in self.replica.config.replicas)
            every_ms = BEGIN_MS if is_new else STEWARD_MS
            self.clock.call_later(every_ms * (0.5 + self._dice.uniform()), self._look)

    def _stewarded(self, _: None) -> None:
        self._stewarding = False

    # Effects

    def perform(self, effect: HostEffect, done: Done) -> None:
        match effect:
            case ReadChangeRequest():
                self.driver.read(CHANGE_REQUEST_KEY, Consistency.LINEARIZABLE, partial(self._wish_read, done))
            case Ask():
                self._ask(effect.to, effect.request, done)
            case AskAll():
                self._ask_all(effect, done)
            case Publish():
                self._publish(effect.config, done)
            case Settle():
                Settling(self.driver, effect.keys, done).go_on()
            case LookThrough() | Replace() | Preserve() | Install() | Mirrored():
                assert self.mirror is not None, "who has no such engine does not follow one"
                self.mirror.perform(effect, done)
            case _:
                self._perform_here(effect, done)

    def _wish_read(self, done: Done, found: ReadOutcome) -> None:
        """One that cannot be read, because a newer version wrote it or something is broken, is not known here."""
        try:
            wish = wish_of(found)
        except Exception as error:
            self.driver.failures.ended("steward", error, partial(done, False))
        else:
            done(wish)

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
                self.copier.perform(effect, done)

    def _ask(self, to: int, request: MemberRequest, done: Callable[[MemberReply], None]) -> None:
        waiting = [done]

        def answered(reply: MemberReply) -> None:
            if isinstance(reply, StaleEpoch):
                self.replica.perform(Adopt(config=reply.config), lambda _: None)
            if waiting:
                timer.cancel()
                if is_page and answered in self._pages:
                    self._pages.remove(answered)
                waiting.pop()(reply)

        is_page = isinstance(request, PAGES)
        if is_page:
            self._pages.append(answered)
        patience_ms = (PAGE_ROUNDS if is_page else 1) * self.driver.timing.round_timeout_ms
        timer = self.clock.call_later(patience_ms, lambda: answered(Failed(reason="timeout")))
        if to == self.replica.me:
            self.answer(request, answered)
        else:
            self._transport.ask(to, request, answered)

    def _ask_all(self, effect: AskAll, done: Done) -> None:
        replies: dict[int, MemberReply] = {}

        def answered(replica_id: int, reply: MemberReply) -> None:
            replies[replica_id] = reply
            if len(replies) == len(effect.to):
                done({i: each for i, each in replies.items() if not isinstance(each, Failed)})

        for replica_id in effect.to:
            self._ask(replica_id, effect.request, partial(answered, replica_id))

    def send(self, to: int, update: ConfigUpdate, answered: Callable[[Reply], None] | None) -> None:
        if to != self.replica.me:
            self.driver.transport.send(to, update, answered)

    def _publish(self, config: ClusterConfig, done: Done) -> None:
        value = wire.encode_config(config)
        self.driver.write(Write(key=CONFIG_KEY, value=value, mutable=True, if_version=config.epoch - 1), done)


def not_adopted(epoch: int, config: ClusterConfig) -> StaleEpoch | EpochAhead | None:
    """Whoever tells its votes has sealed the epochs they were given in."""
    return acceptor.wrong_epoch(epoch, config)


def wish_of(found: ReadOutcome) -> ChangeRequest | bool | None:
    if isinstance(found, ReadFailed):
        return False
    return wire.decode_change_request(found.value) if found.value is not None else None
