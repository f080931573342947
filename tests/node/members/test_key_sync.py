"""A page is learned whole, with how far it goes, or not at all; and whoever dies goes on where it was."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from epoxy.codec import wire
from epoxy.model.cluster import CHANGE_REQUEST_KEY, CONFIG_KEY, ClusterConfig, first_epoch
from epoxy.model.members import (
    ChangelogPage,
    ChangelogRead,
    ChangeRequest,
    Member,
    MemberReply,
    MemberRequest,
    Progress,
    SnapshotRead,
    Stretch,
)
from epoxy.model.messages import Failed
from epoxy.model.records import ChangelogEntry, Proposal, ProposalId
from epoxy.node.keys.replica import Replica
from epoxy.node.members import config_record
from epoxy.node.members.key_sync import LONGEST_REST_MS, LONGEST_WAIT_MS, SERVING_SHARE, KeySync
from epoxy.ports import Store, Transaction
from epoxy.protocol.members.digest import NOTHING
from epoxy.protocol.members.effects import (
    Ask,
    Changing,
    CurrentConfig,
    Effect,
    Followed,
    GiveWay,
    Keep,
    LoadProgress,
    Repair,
    Summarise,
)
from epoxy.protocol.members.learner import LEARNING_SHARE, compare, copy
from epoxy.store.member_rows import MemberSpace
from epoxy.store.memory import MemoryStore
from tests.node.bench import HandClock
from tests.runtime.host import run_learner
from tests.store.hand import EmbeddedBench

SOURCE, LEARNER = 1, 2
CONFIG = first_epoch((SOURCE, LEARNER))
PAGE_KEYS = 8
PAGES = 12
PAGE = ChangelogPage(entries=(), cursor=bytes(10), more=False)


def value_of(number: int, version: int = 1) -> Proposal:
    return Proposal(value=b"v%d" % number, version=version, mutable=True, proposal_id=ProposalId(SOURCE, number + 1))


def key_of(number: int) -> bytes:
    return b"key-%04d" % number


class Life:
    """One process of a replica."""

    def __init__(self, store: Store, me: int) -> None:
        self.alarms: list[str] = []
        self.store, self.clock = store, HandClock()
        self.replica = Replica(me, store, CONFIG, self.alarms.append)
        self.space = MemberSpace(self.replica.keyspace, me)
        self.space.page_rows = PAGE_KEYS
        store.transact(lambda tx: self.space.identity(tx, 70 + me))
        self.key_sync = KeySync(self.replica, store, self.space, self.clock)

    def versions(self, count: int) -> list[int]:
        return [self.replica.version(key_of(i)) for i in range(count)]


class Place:
    """A disk, and the processes on it."""

    def __init__(self, me: int) -> None:
        self.me = me
        self.bench = EmbeddedBench(log_bytes=4096)
        self.life = Life(self.bench.store, me)
        self.bench.flush()

    def crash(self) -> None:
        self.bench.crash()
        self.life = Life(self.bench.store, self.me)
        self.bench.flush()

    def commit(self, number: int) -> None:
        self.life.replica.learn(key_of(number), value_of(number))
        self.bench.flush()


class Died(Exception):
    pass


class Road:
    """From the learner to the source. `happens` is called for every page, twice: before it is learned and after."""

    def __init__(self, learner: Place, source: Place, happens: Callable[[str], None] = lambda _: None) -> None:
        self.learner, self.source, self.happens = learner, source, happens
        self.asked: list[MemberRequest] = []
        self.done = False

    def travel(self) -> None:
        """One pass, which ends when somebody dies."""
        flow = copy(CONFIG, LEARNER, SOURCE, LEARNING_SHARE)
        try:
            run_learner(self.perform, flow, self._ended)
        except Died:
            flow.close()

    def _ended(self, copied: bool) -> None:
        self.done = copied

    def perform(self, effect: Effect, done: Callable[[object], None]) -> None:
        if isinstance(effect, Ask):
            self.asked.append(effect.request)
            done(self._answer(effect.request))
            return
        if isinstance(effect, CurrentConfig):
            done(CONFIG)
            return
        if isinstance(effect, Keep):
            self.happens("before")
        assert isinstance(effect, Changing | LoadProgress | Summarise | Keep | Repair | GiveWay)
        self.learner.life.key_sync.perform(effect, done)
        if isinstance(effect, Keep):
            self.happens("unsynced")
        self.learner.bench.flush()
        self.learner.life.clock.advance(LONGEST_REST_MS)
        if isinstance(effect, Keep):
            self.happens("after")

    def _answer(self, request: MemberRequest) -> MemberReply:
        source = self.source.life
        assert isinstance(request, SnapshotRead | ChangelogRead)
        try:
            self.happens("asked")
        except Died:
            return Failed(reason="connection refused")
        return self.source.bench.store.transact(lambda tx: source.key_sync.page(tx, request))


def full_source(keys: int = PAGES * PAGE_KEYS) -> Place:
    source = Place(SOURCE)
    for number in range(keys):
        source.life.replica.learn(key_of(number), value_of(number))
    source.bench.flush()
    return source


def places(road: Road) -> list[bytes]:
    return [request.after or b"" for request in road.asked if isinstance(request, SnapshotRead)]


@pytest.mark.parametrize("moment", ["before", "unsynced", "after"])
def test_a_learner_that_dies_at_every_page_does_not_start_over(moment: str) -> None:
    source, learner = full_source(), Place(LEARNER)
    deaths = 0

    def die(at: str) -> None:
        nonlocal deaths
        if at == moment:
            deaths += 1
            if deaths % 2:
                learner.crash()
                raise Died

    road = Road(learner, source, die)
    for _ in range(4 * PAGES):
        road.travel()
        if road.done:
            break
    assert road.done
    assert deaths >= PAGES, "it died at every other page it kept"
    assert learner.life.versions(PAGES * PAGE_KEYS) == [1] * (PAGES * PAGE_KEYS)
    asked = places(road)
    assert asked == sorted(asked), "never back"
    assert max(map(asked.count, asked)) <= 2, "a death costs a page"


def test_a_source_that_dies_at_every_page_is_asked_on_from_there() -> None:
    source, learner = full_source(), Place(LEARNER)
    questions = 0

    def die(at: str) -> None:
        nonlocal questions
        if at == "asked":
            questions += 1
            if questions % 2:
                source.crash()
                source.commit(PAGES * PAGE_KEYS + questions)
                raise Died

    road = Road(learner, source, die)
    for _ in range(4 * PAGES):
        road.travel()
        if road.done:
            break
    assert road.done
    asked = places(road)
    assert asked == sorted(asked)
    assert max(map(asked.count, asked)) <= 2
    total = PAGES * PAGE_KEYS + questions + 1
    assert learner.life.versions(total) == source.life.versions(total), "what it learned meanwhile, too"


def test_a_page_and_how_far_it_goes_are_one_transaction() -> None:
    """Whatever part of the log a crash leaves, one is not there without the other."""
    learner = Place(LEARNER)
    entries = tuple(ChangelogEntry(key=key_of(i), committed=value_of(i)) for i in range(PAGE_KEYS))
    progress = Progress(store=71, cursor=bytes(10), after=key_of(PAGE_KEYS - 1))
    results: list[object] = []
    learner.life.key_sync.perform(Keep(source=SOURCE, entries=entries, progress=progress), results.append)
    assert results == [], "not durable"
    learner.bench.flush()
    assert results == [PAGE_KEYS]
    learner.crash()
    assert learner.life.versions(PAGE_KEYS) == [1] * PAGE_KEYS
    found = learner.bench.store.transact(lambda tx: learner.life.space.progress(tx, SOURCE))
    assert found == progress


def test_who_holds_the_same_sends_digests_and_gets_nothing() -> None:
    source, learner = full_source(), Place(LEARNER)
    road = Road(learner, source)
    road.travel()
    results: list[bool] = []
    again = Road(learner, source)
    run_learner(again.perform, compare(LEARNER, SOURCE), results.append)
    assert results == [True]
    assert learner.life.key_sync.repaired == 0
    held = [request.held for request in again.asked if isinstance(request, SnapshotRead)]
    assert [stretch.count for stretch in held[:-1]] == [PAGE_KEYS] * (len(held) - 1)
    assert NOTHING not in held


def test_gaps_are_repaired_and_counted() -> None:
    source, learner = full_source(), Place(LEARNER)
    Road(learner, source).travel()
    for number in (3, 50, 51):
        source.life.replica.learn(key_of(number), value_of(number, version=2))
    source.life.replica.learn(b"key-0003-beside", value_of(7))
    source.bench.flush()
    road = Road(learner, source)
    run_learner(road.perform, compare(LEARNER, SOURCE), lambda _: None)
    assert learner.life.key_sync.repaired == 4
    assert [learner.life.replica.version(key_of(i)) for i in (3, 50, 51)] == [2, 2, 2]
    assert not learner.life.alarms


def in_memory() -> Life:
    return Life(MemoryStore(), LEARNER)


def test_what_is_newer_here_stays_and_another_value_for_one_version_is_an_alarm() -> None:
    life = in_memory()
    for number, version in ((0, 2), (1, 1)):
        life.replica.learn(key_of(number), value_of(number, version))
    entries = (
        ChangelogEntry(key=key_of(0), committed=value_of(0, 1)),
        ChangelogEntry(key=key_of(1), committed=value_of(9, 1)),
        ChangelogEntry(key=key_of(2), committed=value_of(2, 5)),
    )
    results: list[object] = []
    life.key_sync.perform(Repair(entries=entries), results.append)
    assert results == [1]
    assert life.versions(3) == [2, 1, 5]
    assert len(life.alarms) == 1
    assert life.replica.newest(key_of(1)) == value_of(1, 1)


def test_two_versions_of_a_key_in_one_page_are_learned_in_turn() -> None:
    life = in_memory()
    entries = tuple(ChangelogEntry(key=b"k", committed=value_of(v, v)) for v in (1, 2, 3))
    results: list[object] = []
    life.key_sync.perform(Keep(source=SOURCE, entries=entries, progress=None), results.append)
    assert results == [3]
    assert life.replica.version(b"k") == 3


def test_a_learner_rests_in_proportion_to_its_work() -> None:
    life = in_memory()
    work_ms = 30.0

    def slow(_: object) -> None:
        life.clock.advance(work_ms)

    life.replica.commit_watchers.append(lambda *_: slow(None))
    entry = ChangelogEntry(key=b"k", committed=value_of(1))
    life.key_sync.perform(Repair(entries=(entry,)), lambda _: None)
    results: list[object] = []
    life.key_sync.perform(GiveWay(share=0.25), results.append)
    life.clock.advance(3 * work_ms - 1)
    assert results == []
    life.clock.advance(1)
    assert results == [None]


def serve(life: Life, work_ms: float) -> list[MemberReply]:
    """A page that takes so long to make."""

    def work(_: Transaction) -> MemberReply:
        life.clock.advance(work_ms)
        return PAGE

    told: list[MemberReply] = []
    life.key_sync.serve(work, told.append)
    return told


def test_a_source_that_decides_for_clients_lets_learners_wait_for_a_page() -> None:
    life = in_memory()
    assert serve(life, 10.0) == [PAGE], "nobody writes"
    life.replica.learn(key_of(1), value_of(1))
    told = serve(life, 10.0)
    life.clock.advance(10.0 * (1 / SERVING_SHARE - 1) - 1)
    assert told == []
    life.clock.advance(1)
    assert told == [PAGE]
    assert serve(life, 10.0) == [PAGE], "nobody has written since"


def test_nobody_waits_long_for_a_page_and_not_at_all_in_a_joint_epoch() -> None:
    life = in_memory()
    life.replica.learn(key_of(1), value_of(1))
    told = serve(life, 10_000.0)
    life.clock.advance(LONGEST_WAIT_MS)
    assert told == [PAGE]
    joint = replace(CONFIG, epoch=2, previous=(SOURCE,))
    life.replica.learn(CONFIG_KEY, config_record.to_proposal(joint))
    assert life.replica.config.is_joint
    assert serve(life, 10.0) == [PAGE]


def test_who_was_followed_is_told_as_long_as_members_change() -> None:
    """Otherwise whose snapshot was copied, some time ago."""
    life = in_memory()
    results: list[object] = []
    copied = Progress(store=71, cursor=bytes(10), copied=True)
    life.key_sync.perform(Keep(source=SOURCE, entries=(), progress=copied), results.append)
    assert sources(life) == (SOURCE,)
    wish = wire.encode_change_request(ChangeRequest(members=(Member(id=LEARNER),)))
    life.replica.learn(
        CHANGE_REQUEST_KEY, Proposal(value=wish, version=1, mutable=True, proposal_id=ProposalId(SOURCE, 1))
    )
    life.key_sync.perform(Changing(), results.append)
    assert (results[-1], sources(life)) == (True, ())
    life.key_sync.perform(Followed(source=SOURCE), results.append)
    assert sources(life) == (SOURCE,)
    two = ClusterConfig(epoch=2, coordinator_id=SOURCE, replicas=CONFIG.replicas[1:])
    life.replica.learn(CONFIG_KEY, config_record.to_proposal(two))
    assert not life.key_sync.followed
    life.key_sync.perform(Changing(), results.append)
    assert results[-1] is False


def sources(life: Life) -> tuple[int, ...]:
    return life.store.transact(life.key_sync.sources)


def test_what_is_summarised_is_what_a_page_would_be() -> None:
    life = in_memory()
    for number in range(PAGE_KEYS + 1):
        life.replica.learn(key_of(number), value_of(number))
    results: list[object] = []
    life.key_sync.perform(Summarise(after=None), results.append)
    (found,) = results
    assert isinstance(found, Stretch)
    assert (found.until, found.count) == (key_of(PAGE_KEYS - 1), PAGE_KEYS)
