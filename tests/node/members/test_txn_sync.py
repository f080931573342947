"""A newcomer beside a source, in callbacks: what it holds, when it says so, and what it must not touch any more."""

from collections.abc import Callable

from msgspec.structs import replace

from epoxy.codec import wire
from epoxy.model.cluster import CONFIG_KEY, ClusterConfig, ReplicaInfo, ReplicaStatus
from epoxy.model.instances import NOTHING, InstanceId, OrderedCommit
from epoxy.model.members import (
    MAX_PAGE_ROWS,
    Frontier,
    Kept,
    KeptId,
    KeptPage,
    KeptRead,
    MemberReply,
    Pair,
    Unfinished,
    ValuesPage,
    ValuesRead,
)
from epoxy.model.messages import EpochAhead, Reply, StaleEpoch, UpdateConfig
from epoxy.model.transactions import OrderedValue
from epoxy.node.keys.replica import Replica
from epoxy.node.members import config_record
from epoxy.node.members.key_sync import LONGEST_REST_MS
from epoxy.node.members.txn_sync import AGAIN_MS, HURRY_MS, TxnSync, fitting
from epoxy.protocol.effects import Local
from epoxy.protocol.members.effects import Ask, CurrentConfig, Effect, Replace, Span
from epoxy.protocol.txn.execution import Values
from epoxy.runtime.flow import FlowFailures
from epoxy.store.memory import MemoryStore
from epoxy.store.txn_rows import OrderedSpace
from tests.node.bench import HandClock

SOURCE, NEW = 1, 2
LEARNING = ClusterConfig(
    epoch=3,
    coordinator_id=SOURCE,
    replicas=(ReplicaInfo(id=SOURCE), ReplicaInfo(id=NEW, status=ReplicaStatus.LEARNING)),
)
JOINT = replace(LEARNING, epoch=4, replicas=(ReplicaInfo(id=SOURCE), ReplicaInfo(id=NEW)), previous=(SOURCE,), term=0)
DONE = replace(JOINT, epoch=5, previous=None, term=1, since=1)


def kept(slot: int) -> Kept:
    return Kept(term=0, commit=OrderedCommit(id=InstanceId(SOURCE, slot), command=None, deps=NOTHING))


class Engine:
    """As far as its state is copied."""

    def __init__(self, *, takes_part: bool) -> None:
        self.takes_part = takes_part
        self.complete_to = -1
        self.held: list[Kept] = []
        self.taken: Values = {}

    def is_complete(self, term: int) -> bool:
        return self.complete_to >= term

    def needs_copy(self, term: int) -> bool:
        return not self.takes_part and not self.is_complete(term)

    def frontier(self) -> Frontier:
        raise AssertionError("for backups")

    def has_executed(self, frontier: Frontier) -> bool:
        raise AssertionError(f"for backups: {frontier}")

    def note(self, frontier: Frontier) -> None:
        raise AssertionError(f"for backups: {frontier}")

    def kept(self, after: KeptId | None, limit: int) -> list[Kept]:
        begin = 0 if after is None else after.id.slot
        return [each for each in self.held if each.commit.id.slot > begin][:limit]

    def keep(self, kept: tuple[Kept, ...]) -> None:
        self.held += kept

    def copied(self, values: Values) -> None:
        self.taken |= values

    def install(self, term: int) -> None:
        self.complete_to = term


class Node:
    def __init__(self, me: int, config: ClusterConfig, *, takes_part: bool) -> None:
        self.store, self.clock = MemoryStore(), HandClock()
        self.replica = Replica(me, self.store, config, print)
        self.engine = Engine(takes_part=takes_part)
        self.source: Node | None = None
        self.asked: list[object] = []
        self.told: list[object] = []
        self.failures = FlowFailures(print)
        self.txn_sync = TxnSync(self.replica, self.store, self.engine, self, lambda: [SOURCE])

    def send(self, to: int, message: object, answered: Callable[[Reply], None] | None) -> None:
        assert answered is None
        self.told.append((to, message))

    def perform(self, effect: Effect, done: Callable[[object], None]) -> None:
        match effect:
            case CurrentConfig():
                done(self.replica.config)
            case Ask():
                assert isinstance(effect.request, ValuesRead | KeptRead)
                assert self.source is not None
                self.asked.append(effect.request)
                done(self.source.answer(effect.request))
            case Local():
                self.told.append(effect)
                done(None)
            case _:
                raise AssertionError(effect)

    def answer(self, request: ValuesRead | KeptRead) -> MemberReply:
        return self.store.transact(lambda tx: self.txn_sync.page(tx, request))

    def adopt(self, config: ClusterConfig) -> None:
        self.replica.learn(CONFIG_KEY, config_record.to_proposal(config))

    def put(self, key: bytes, value: bytes | None) -> None:
        self.store.transact(
            lambda tx: OrderedSpace(self.replica.me).set_held(tx, key, OrderedValue(value=value, version=1))
        )

    @property
    def values(self) -> dict[bytes, bytes]:
        pairs = self.txn_sync.values.held(self.store.newest(), None, None)
        return {pair.key: wire.decode_ordered_value(pair.value).value or b"" for pair in pairs}


def record_of(value: bytes) -> bytes:
    return wire.encode_ordered_value(OrderedValue(value=value, version=1))


def pair(config: ClusterConfig = LEARNING) -> tuple[Node, Node]:
    source, new = Node(SOURCE, config, takes_part=True), Node(NEW, config, takes_part=False)
    new.source = source
    for number in range(5):
        source.put(b"k%d" % number, b"v")
    return source, new


def test_a_learner_is_ready_with_the_bulk_and_follows_from_time_to_time() -> None:
    source, new = pair()
    assert not new.txn_sync.is_ready
    new.txn_sync.start()
    assert new.txn_sync.is_ready
    assert new.values == source.values
    source.put(b"k9", b"w")
    new.clock.advance(AGAIN_MS)
    assert new.values == source.values
    assert {key: held.value for key, held in new.engine.taken.items()} == source.values, "and its engine was told"
    assert not new.txn_sync.is_synced


def test_in_a_joint_epoch_it_waits_for_a_source_that_is_at_the_end() -> None:
    source, new = pair()
    new.txn_sync.start()
    source.engine.held = [kept(slot) for slot in range(1, MAX_PAGE_ROWS + 3)]
    source.adopt(JOINT)
    new.adopt(JOINT)
    source.put(b"k1", b"at the end")
    new.clock.advance(HURRY_MS)
    assert not new.txn_sync.is_synced
    source.engine.complete_to = 0
    new.clock.advance(HURRY_MS)
    assert new.txn_sync.is_synced
    assert new.values == source.values
    assert new.engine.held == source.engine.held, "in two pages"
    asked = len(new.asked)
    new.clock.advance(LONGEST_REST_MS)
    assert len(new.asked) == asked, "and that is that"


def test_one_who_was_not_told_of_the_joint_epoch_is_told() -> None:
    source, new = pair()
    new.adopt(JOINT)
    new.txn_sync.start()
    assert new.told == [(SOURCE, (UpdateConfig(config=JOINT),))]
    assert source.answer(KeptRead(epoch=4, after=None)) == EpochAhead(epoch=3)
    source.adopt(DONE)
    assert source.answer(KeptRead(epoch=4, after=None)) == StaleEpoch(config=DONE)


def test_values_are_its_own_once_it_votes() -> None:
    _, new = pair(JOINT)
    new.engine.install(0)
    new.put(b"mine", b"executed here")
    results: list[object] = []
    late = Replace(epoch=4, spans=(Span(None, None),), pairs=(Pair(b"k0", record_of(b"v")),))
    new.txn_sync.perform(late, results.append)
    new.adopt(DONE)
    new.txn_sync.perform(late, results.append)
    assert results == [None, None]
    assert new.values == {b"mine": b"executed here"}


def test_old_members_copy_nothing_and_are_synced_when_they_have_executed_everything() -> None:
    source, _ = pair()
    source.txn_sync.start()
    source.adopt(JOINT)
    source.clock.advance(LONGEST_REST_MS)
    assert source.txn_sync.is_ready
    assert not source.txn_sync.is_synced
    source.engine.complete_to = 0
    assert source.txn_sync.is_synced
    assert source.asked == []


def test_a_source_gives_what_it_has_while_others_learn_and_nothing_unfinished_later() -> None:
    source, _ = pair()
    page = source.answer(ValuesRead(epoch=0, after=b"k3", held=()))
    assert page == ValuesPage(differing=(0,), pairs=(Pair(b"k4", record_of(b"v")),), through=None)
    source.adopt(JOINT)
    assert source.answer(ValuesRead(epoch=4, after=None, held=())) == Unfinished()
    assert source.answer(KeptRead(epoch=4, after=None)) == Unfinished()
    source.engine.complete_to = 0
    assert source.answer(KeptRead(epoch=4, after=None)) == KeptPage(kept=(), more=False)


def test_pages_of_what_is_kept_are_as_long_as_may_be() -> None:
    many = [kept(slot) for slot in range(1, MAX_PAGE_ROWS + 2)]
    assert fitting(many) == KeptPage(kept=tuple(many[:MAX_PAGE_ROWS]), more=True)
    assert fitting(many[:MAX_PAGE_ROWS]) == KeptPage(kept=tuple(many[:MAX_PAGE_ROWS]), more=False)
