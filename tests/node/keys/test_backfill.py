"""Cutting over a store that holds 100,000 values of the first layout."""

import random
from collections.abc import Callable

import pytest

from epoxy.codec.tuple import pack
from epoxy.model.ballot import Ballot, fast_ballot
from epoxy.model.cluster import first_epoch
from epoxy.model.members import ChangelogRead, SnapshotRead
from epoxy.model.messages import Accept, AlreadyCommitted, Prepare, Reply
from epoxy.model.records import LEGACY_PROPOSAL_ID, Proposal, ProposalId
from epoxy.model.writes import Source
from epoxy.node.keys.backfill import STEP_ROWS, Backfill
from epoxy.node.keys.replica import Replica
from epoxy.node.members.key_sync import LONGEST_REST_MS, KeySync
from epoxy.ports import Store
from epoxy.protocol.members.effects import Ask, CurrentConfig, Effect, Flow
from epoxy.protocol.members.learner import LEARNING_SHARE, compare, copy
from epoxy.store.keyspace import KV, LEGACY_LAYOUT
from epoxy.store.member_rows import MemberSpace
from epoxy.store.memory import MemoryStore
from tests.node.bench import HandClock
from tests.runtime.host import run_learner
from tests.store.hand import EmbeddedBench

OLD, NEW = 1, 2
CONFIG = first_epoch((OLD, NEW))
KEYS = 100_000
ROWS_AT_ONCE = 10_000
COMMITTED, VALUE = 0, 1


def key_of(number: int) -> bytes:
    return b"user/%07d" % number


def value_of(number: int) -> bytes:
    return b"region-%d" % (number % 7)


def legacy_of(number: int) -> Proposal:
    return Proposal(value=value_of(number), version=0, mutable=False, proposal_id=LEGACY_PROPOSAL_ID)


class BusyClock(HandClock):
    """Everything takes a millisecond."""

    def now_ms(self) -> float:
        self.now += 1.0
        return self.now


class End:
    def __init__(self, store: Store, me: int) -> None:
        self.store, self.clock = store, BusyClock()
        self.alarms: list[str] = []
        self.replica = Replica(me, store, CONFIG, self.alarms.append)
        space = MemberSpace(self.replica.keyspace, me)
        store.transact(lambda tx: space.identity(tx, me))
        self.key_sync = KeySync(self.replica, store, space, self.clock)

    def says(self, request: Accept | Prepare) -> Reply:
        replies: list[Reply] = []
        self.replica.handle((request,), replies.append)
        return replies[0]


@pytest.fixture(scope="module")
def old_store() -> EmbeddedBench:
    """As the first engine left it: most values are committed, some only accepted, and some are both."""
    bench = EmbeddedBench()
    for begin in range(0, KEYS, ROWS_AT_ONCE):
        tx = bench.store.begin()
        for number in range(begin, begin + ROWS_AT_ONCE):
            field = VALUE if number % 10 == 0 else COMMITTED
            tx.set(pack((LEGACY_LAYOUT, OLD, KV, key_of(number), field)), value_of(number))
            if number % 100 == 1:
                tx.set(pack((LEGACY_LAYOUT, OLD, KV, key_of(number), VALUE)), b"accepted by one, and not chosen")
        tx.commit()
    bench.settle()
    bench.reopen()
    bench.settle()
    return bench


def copying(learner: End, source: End, flow: Flow[bool]) -> bool:
    results: list[bool] = []

    def perform(effect: Effect, done: Callable[[object], None]) -> None:
        if isinstance(effect, Ask):
            assert isinstance(effect.request, SnapshotRead | ChangelogRead)
            request = effect.request
            done(source.store.transact(lambda tx: source.key_sync.page(tx, request)))
        elif isinstance(effect, CurrentConfig):
            done(CONFIG)
        else:
            learner.key_sync.perform(effect, done)  # type: ignore[arg-type]
            learner.clock.advance(LONGEST_REST_MS)

    run_learner(perform, flow, results.append)
    return results == [True]


def test_a_store_with_100_000_legacy_keys_is_cut_over(old_store: EmbeddedBench) -> None:
    old = End(old_store.store, OLD)
    old_store.settle()
    some = random.Random(5).sample(range(KEYS), 500)
    assert_held(old, some)
    assert_no_vote(old_store, old, some[:50])
    new = End(MemoryStore(), NEW)
    assert copying(new, old, copy(CONFIG, NEW, OLD, LEARNING_SHARE))
    assert new.key_sync.copied == KEYS
    assert_held(new, some)
    assert_backfilled(old_store, old, some)
    assert copying(new, old, compare(NEW, OLD))
    assert (new.key_sync.repaired, old.alarms, new.alarms) == (0, [], [])


def assert_held(end: End, numbers: list[int]) -> None:
    for number in numbers:
        found = end.replica.peek(key_of(number), use_cache=True)
        assert found is not None
        assert (found.committed, found.source) == (legacy_of(number), Source.LEGACY)


def assert_no_vote(bench: EmbeddedBench, end: End, numbers: list[int]) -> None:
    """Immutable, for the acceptor too."""
    for number in numbers:
        mine = Proposal(value=b"mine", version=1, mutable=False, proposal_id=ProposalId(NEW, 1))
        refusal = AlreadyCommitted(committed=legacy_of(number))
        for request in (
            Accept(key=key_of(number), epoch=1, ballot=fast_ballot(NEW), proposal=mine),
            Prepare(key=key_of(number), epoch=1, ballot=Ballot(2, NEW), base=0),
        ):
            assert end.says(request) == refusal
    bench.settle()


def assert_backfilled(bench: EmbeddedBench, end: End, numbers: list[int]) -> None:
    """Step by step; a process that ends in the middle goes on with the next, and nobody sees a difference."""
    told: list[int] = []
    first = Backfill(end.replica.keyspace, end.store, end.clock, told.append)
    first.start()
    for _ in range(3):
        end.clock.advance(50.0)
        assert_held(end, numbers[:20])
        bench.settle()
        assert_held(end, numbers[:20])
    first.stop()
    assert STEP_ROWS <= first.moved < KEYS
    second = Backfill(end.replica.keyspace, end.store, end.clock, told.append)
    second.start()
    end.clock.advance(1e6)
    assert told == [], "not before it is durable"
    bench.settle()
    assert told == [second.moved]
    assert first.moved + second.moved == KEYS
    assert_held(end, numbers)
    legacy = pack((LEGACY_LAYOUT, OLD, KV))
    assert not end.store.newest().range(legacy, legacy + b"\xff", limit=1)
