"""The node as its doors see it: who is turned away, who is told when, and what it says of itself."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from epoxy.consensus.effects import Timing
from epoxy.model.ballot import NO_BALLOT
from epoxy.model.messages import AcceptOk, Failed, Inspect, Inspected
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    Consistency,
    Outcome,
    ReadAnswer,
    ReadFailed,
    ReadResult,
    Refused,
    Source,
    Write,
)
from epoxy.model.writes import Path as Way
from epoxy.node.config import Address, ClusterSettings, Limits, Member, NodeSettings, Settings
from epoxy.node.pending import GRAIN_MS
from epoxy.node.service import (
    LONGEST_BACKOFF_MS,
    LONGEST_HEDGE_MS,
    RETIME_EVERY_MS,
    SHORTEST_BACKOFF_MS,
    SHORTEST_HEDGE_MS,
    SHORTEST_ROUND_MS,
    UNKNOWN_RTT_MS,
    Node,
)
from epoxy.node.status import ReplicaView
from epoxy.store.memory import MemoryStore
from tests.consensus.harness import KEY, A, B, C, D, E, FixedDice, commit, prop
from tests.node.bench import Disk, HandClock, HandTransport

TIMEOUT_MS = 10_000


class HandLinks(HandTransport):
    """Peers are there as long as their round trip is known."""

    def __init__(self) -> None:
        super().__init__()
        self.rtts: dict[int, float] = {}
        self.silent: set[int] = set()

    def rtt_ms(self, peer: int) -> float | None:
        return self.rtts.get(peer)

    def reachable(self, peer: int) -> bool:
        return peer in self.rtts and peer not in self.silent


def settings_of(n: int, *, writes_in_flight: int = 100, reads_in_flight: int = 100) -> Settings:
    members = tuple(Member(id=i, datacenter=f"dc-{i}", url=f"http://10.0.0.{i}") for i in range(1, n + 1))
    return Settings(
        node=NodeSettings(
            id=A,
            datacenter="dc-1",
            data_dir=Path("unused"),
            http=Address("127.0.0.1", 0),
            resp=None,
            advertise_url=members[0].url,
        ),
        cluster=ClusterSettings(members=members, quorum_policy=QuorumPolicy.OPTIMAL, secret_file=Path("unused")),
        tls=None,
        limits=Limits(
            connections=100,
            pipeline=100,
            writes_in_flight=writes_in_flight,
            reads_in_flight=reads_in_flight,
            request_timeout_ms=TIMEOUT_MS,
            peer_queue=100,
        ),
        emulate_wan=False,
    )


class World:
    """A node whose disk, clock and peers are moved by hand."""

    def __init__(
        self, n: int = 3, *, ready: bool = True, writes_in_flight: int = 100, reads_in_flight: int = 100
    ) -> None:
        self.disk, self.clock, self.links = Disk(), HandClock(), HandLinks()
        self.outcomes: list[Outcome] = []
        self.reads: list[ReadAnswer] = []
        self.alarms: list[str] = []
        store = MemoryStore(self.disk.flush)
        settings = settings_of(n, writes_in_flight=writes_in_flight, reads_in_flight=reads_in_flight)
        self.node = Node(settings, store, self.links, self.clock, FixedDice(), self.alarms.append)
        self.node.start()
        if ready:
            self.disk.sync()
            assert self.node.ready

    def write(self, key: bytes = KEY, value: bytes = b"v") -> None:
        self.node.write(Write(key=key, value=value), self.outcomes.append)

    def version_shown(self) -> int | None:
        shown = self.node.peek(KEY)
        return shown.committed.version if shown is not None and shown.committed is not None else None

    def learn(self, *keys: bytes) -> None:
        """From a peer, and not yet durable."""
        for key in keys:
            heard = msgspec.structs.replace(commit(prop(b"v", by=B)), key=key)
            self.node.replica.handle([heard], lambda _: None)

    def accept(self, *peers: int) -> None:
        """They vote for what was sent to them."""
        sent = self.links.take()
        for peer in peers:
            sent[peer].answer(AcceptOk())
        self.disk.sync()
        self.links.sent.clear()  # the commit is told to everybody


# Writes and reads at the door


def test_nothing_is_taken_on_before_the_store_is_durable() -> None:
    world = World(ready=False)
    assert not world.node.ready
    world.write()
    world.node.read(KEY, Consistency.OPTIMISTIC, world.reads.append)
    assert world.outcomes == [Refused(reason="the node is not ready")]
    assert world.reads == [ReadFailed(reason="the node is not ready")]
    assert (world.node.in_flight, world.links.sent) == (0, [])
    world.disk.sync()
    assert world.node.ready


def test_ready_although_nobody_else_is_there() -> None:
    world = World()
    assert world.node.ready
    assert not world.node.status().available


def test_nothing_is_taken_on_after_the_end() -> None:
    world = World()
    world.node.stop()
    world.write()
    assert world.outcomes == [Refused(reason="the node is not ready")]
    assert world.clock.pending == [], "a timer that would go on for ever"


def test_a_write_is_decided_and_counted() -> None:
    world = World()
    world.write()
    world.disk.sync()
    assert world.node.in_flight == 1
    world.accept(B)
    (outcome,) = world.outcomes
    assert isinstance(outcome, Committed)
    assert (outcome.mine, outcome.path) == (True, Way.FAST)
    assert world.node.in_flight == 0


def test_one_timer_serves_all_clients_and_ends_when_nobody_waits() -> None:
    world = World()
    for key in (b"a", b"b", b"c"):
        world.write(key)
        world.clock.advance(1)
    assert world.clock.pending.count(TIMEOUT_MS) == 1
    assert TIMEOUT_MS + 1 not in world.clock.pending
    world.disk.sync()
    for sent in list(world.links.sent):
        if sent.answered is not None and sent.to == B:
            sent.answer(AcceptOk())
    world.disk.sync()
    assert len(world.outcomes) == 3
    world.node.stop()
    assert world.clock.pending == []


def test_each_client_is_told_in_its_own_time_or_a_little_later() -> None:
    world = World()
    world.node.driver.timing = Timing(hedge_ms=100.0 * TIMEOUT_MS, round_timeout_ms=100.0 * TIMEOUT_MS)
    for key in (b"a", b"b", b"c"):
        world.write(key)
        world.clock.advance(1000)
    told = []
    for _ in range(TIMEOUT_MS // 10):
        world.clock.advance(10)
        told.append((world.clock.now, len(world.outcomes)))
    first = [next(now for now, count in told if count == many) for many in (1, 2, 3)]
    assert all(0 <= at - (TIMEOUT_MS + 1000 * index) <= GRAIN_MS + 10 for index, at in enumerate(first)), first


def test_a_client_that_fails_does_not_silence_the_next() -> None:
    world = World()
    world.node.write(Write(key=b"a", value=b"v"), lambda _: 1 // 0)  # type: ignore[arg-type]
    world.write(b"b")
    with pytest.raises(ZeroDivisionError):
        world.clock.advance(TIMEOUT_MS)
    world.clock.advance(GRAIN_MS)
    assert [type(outcome) for outcome in world.outcomes] == [ConsensusFailed]


def test_one_write_too_many_is_refused_and_the_room_comes_back() -> None:
    world = World(writes_in_flight=2)
    for key in (b"a", b"b", b"c"):
        world.write(key)
    assert world.outcomes == [Refused(reason="2 writes are in flight already")]
    assert world.node.in_flight == 2
    world.disk.sync()
    world.links.sent[0].answer(AcceptOk())
    world.disk.sync()
    assert world.node.in_flight == 1
    world.write(b"c")
    assert world.node.in_flight == 2


def test_a_refusal_further_in_gives_the_room_back() -> None:
    world = World(writes_in_flight=1000)
    for _ in range(300):
        world.write()
    refused = [outcome for outcome in world.outcomes if isinstance(outcome, Refused)]
    assert len(refused) == 300 - world.node.in_flight > 0


def test_a_client_is_told_in_time_and_once_and_the_write_goes_on() -> None:
    world = World()
    world.write()
    world.disk.sync()
    stuck = world.links.take()
    world.node.driver.timing = Timing(hedge_ms=10 * TIMEOUT_MS)
    world.clock.advance(TIMEOUT_MS - 1)
    assert world.outcomes == []
    before = world.node.in_flight
    world.clock.advance(1)
    failure = ConsensusFailed(reason="not decided in time; it may still take effect")
    assert world.outcomes == [failure]
    assert (before, world.node.in_flight) == (1, 1), "the node still works on it"
    stuck[B].answer(AcceptOk())
    settle(world)
    assert world.outcomes == [failure]
    assert world.node.in_flight == 0


def settle(world: World) -> None:
    """Whatever is asked fails, until the flow has ended one way or the other."""
    for _ in range(200):
        world.disk.sync()
        sent, world.links.sent = world.links.sent, []
        for each in sent:
            if each.answered is not None:
                each.answer(Failed(reason="unreachable"))
        world.clock.advance(1000)


def test_writes_whose_clients_have_gone_still_take_room() -> None:
    """Without a quorum, writes pile up in the driver: who forgets them with their clients lets in ever more."""
    world = World(writes_in_flight=2)
    world.node.driver.timing = Timing(hedge_ms=100.0 * TIMEOUT_MS, round_timeout_ms=100.0 * TIMEOUT_MS)
    world.node.stop()  # only the timers that follow the links
    world.node.ready = True
    for key in (b"a", b"b"):
        world.write(key)
    world.disk.sync()
    world.clock.advance(TIMEOUT_MS)
    assert [type(outcome) for outcome in world.outcomes] == [ConsensusFailed, ConsensusFailed]
    world.write(b"c")
    assert world.outcomes[2:] == [Refused(reason="2 writes are in flight already")]


def test_a_linearizable_read_asks_the_others() -> None:
    world = World()
    world.node.read(KEY, Consistency.LINEARIZABLE, world.reads.append)
    world.disk.sync()
    assert set(world.links.take()) == {B, C}


def test_a_linearizable_read_of_a_reserved_name_asks_nobody() -> None:
    """Its value cannot change, so what is durable here is the newest there will ever be."""
    world = World()
    world.learn(KEY)
    world.node.read(KEY, Consistency.LINEARIZABLE, world.reads.append)
    assert world.reads == [], "committed here, but a crash could take that back"
    world.disk.sync()
    world.links.sent.clear()
    world.node.read(KEY, Consistency.LINEARIZABLE, world.reads.append)
    assert world.reads == [ReadResult(committed=prop(b"v", by=B), source=Source.LOCAL)]
    assert world.links.sent == []


def test_a_linearizable_read_of_a_mutable_key_asks_however_well_it_is_known() -> None:
    world = World()
    known = commit(prop(b"v", by=B, mutable=True))
    world.node.replica.handle([known], lambda _: None)
    world.disk.sync()
    world.node.read(KEY, Consistency.LINEARIZABLE, world.reads.append)
    world.disk.sync()
    assert world.reads == []
    assert set(world.links.take()) == {B, C}


def test_one_read_too_many_is_refused_but_never_one_that_is_known_here() -> None:
    world = World(reads_in_flight=2)
    world.learn(b"known")
    world.disk.sync()
    for key in (b"a", b"b"):
        world.node.read(key, Consistency.LINEARIZABLE, world.reads.append)
    world.node.read(b"c", Consistency.OPTIMISTIC, world.reads.append)
    assert world.reads == [Refused(reason="2 reads are asking other regions already")]
    for consistency in Consistency:
        world.node.read(b"known", consistency, world.reads.append)
    assert [type(read) for read in world.reads] == [Refused, ReadResult, ReadResult, ReadResult]
    assert world.node.refused == {"writes_in_flight": 0, "reads_in_flight": 1}


def test_the_room_of_a_read_comes_back() -> None:
    world = World(reads_in_flight=1)
    for _ in range(3):
        world.node.read(KEY, Consistency.OPTIMISTIC, world.reads.append)
        world.disk.sync()
        for sent in world.links.take().values():
            sent.answer(Failed(reason="unreachable"))
    assert [type(read) for read in world.reads] == [ReadFailed] * 3


def test_a_read_that_nobody_answers_is_over_in_time() -> None:
    world = World()
    world.node.driver.timing = Timing(hedge_ms=100.0 * TIMEOUT_MS, round_timeout_ms=100.0 * TIMEOUT_MS)
    world.node.stop()  # only the timers that follow the links
    world.node.ready = True
    world.node.read(KEY, Consistency.LINEARIZABLE, world.reads.append)
    world.clock.advance(TIMEOUT_MS)
    assert world.reads == [ReadFailed(reason="no answer in time")]


# What is known at home


def test_only_what_is_durable_is_shown() -> None:
    world = World()
    world.learn(KEY)
    assert world.node.peek(KEY) is None
    assert world.node.page(b"", None, 10) == []
    assert world.node.changes(None, 10) == []
    world.disk.sync()
    committed = prop(b"v", by=B)
    assert world.node.peek(KEY) == ReadResult(committed=committed, source=Source.LOCAL)
    assert world.node.page(b"", None, 10) == [(KEY, committed)]
    ((_, row),) = world.node.changes(None, 10)
    assert (row.key, row.committed) == (KEY, committed)


def test_pages_and_changes_go_on_where_they_ended() -> None:
    world = World()
    world.learn(b"b/2", b"a", b"b/1", b"c", b"b/3")
    world.disk.sync()
    assert [key for key, _ in world.node.page(b"b/", None, 2)] == [b"b/1", b"b/2"]
    assert [key for key, _ in world.node.page(b"b/", b"b/2", 2)] == [b"b/3"]
    first = world.node.changes(None, 2)
    rest = world.node.changes(first[-1][0], 10)
    assert [row.key for _, row in first + rest] == [b"b/2", b"a", b"b/1", b"c", b"b/3"]


# Told of changes


class Listener:
    """Counts, and reads on as a stream of changes does."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.calls = 0
        self.keys: list[bytes] = []
        self._cursor: bytes | None = None
        self.end = node.on_change(self.told)
        self.read()

    def told(self) -> None:
        self.calls += 1
        self.read()

    def read(self) -> None:
        for cursor, row in self.node.changes(self._cursor, 100):
            self._cursor = cursor
            self.keys.append(row.key)


def test_told_when_it_is_durable_and_once_for_many() -> None:
    world = World()
    listener = Listener(world.node)
    world.learn(b"a")
    world.disk.sync_once()
    assert (listener.calls, listener.keys) == (1, [b"a"])
    world.learn(b"b")
    world.learn(b"c", b"d")
    assert listener.calls == 1
    world.disk.sync()
    assert listener.keys == [b"a", b"b", b"c", b"d"]
    assert listener.calls <= 3


def test_what_is_committed_while_the_disk_is_busy_is_told_too() -> None:
    world = World()
    listener = Listener(world.node)
    world.learn(b"a")
    world.learn(b"b")  # misses the sync that is under way
    world.disk.sync_once()
    assert listener.keys == [b"a"]
    world.disk.sync()
    assert listener.keys == [b"a", b"b"]


def test_who_comes_between_a_commit_and_its_sync_is_told() -> None:
    world = World()
    world.learn(b"a")
    listener = Listener(world.node)
    assert listener.keys == []
    world.disk.sync()
    assert listener.keys == [b"a"]


def test_what_a_peek_shows_stays_until_the_next_version_is_told_of() -> None:
    """... and it is told of before the peer that brought it hears that it is safe."""
    world = World(1)
    first, second = (prop(b"v", version, by=B, nonce=version, mutable=True) for version in (1, 2))
    world.node.replica.handle([commit(first)], lambda _: None)
    world.disk.sync()
    shown = world.node.peek(KEY)
    assert shown is not None
    assert world.node.stays(KEY, shown)
    events: list[str] = []
    world.node.on_overwrite(lambda key: events.append(f"{key.decode()} is overwritten, {world.version_shown()} shown"))
    world.node.replica.handle([commit(second)], lambda _: events.append("answered"))
    assert world.node.peek(KEY) == shown
    assert not world.node.stays(KEY, shown)
    assert events == []
    world.disk.sync()
    assert events == [f"{KEY.decode()} is overwritten, 2 shown", "answered"]
    assert world.node.stays(KEY, ReadResult(committed=second, source=Source.LOCAL))


def test_what_was_found_elsewhere_does_not_stay() -> None:
    world = World(1)
    found = ReadResult(committed=prop(b"v", 1, by=B, mutable=True), source=Source.CACHE)
    assert not world.node.stays(KEY, found)


def test_votes_are_no_changes() -> None:
    world = World()
    listener = Listener(world.node)
    world.write()
    world.disk.sync()
    assert listener.calls == 0
    world.accept(B)
    assert (listener.calls, listener.keys) == (1, [KEY])


def test_nobody_is_told_after_the_end_and_the_others_are() -> None:
    world = World()
    first, second = Listener(world.node), Listener(world.node)
    first.end()
    world.learn(b"a")
    world.disk.sync()
    assert (first.calls, second.calls) == (0, 1)


def test_a_listener_may_end_while_it_is_told() -> None:
    world = World()
    told: list[str] = []

    def once() -> None:
        told.append("once")
        end()

    end = world.node.on_change(once)
    world.node.on_change(lambda: told.append("always"))
    for key in (b"a", b"b"):
        world.learn(key)
        world.disk.sync()
    assert told == ["once", "always", "always"]


# Looking into the replicas


def inspected(world: World) -> list[list[ReplicaView]]:
    answers: list[list[ReplicaView]] = []
    world.node.inspect(KEY, answers.append)
    world.disk.sync()
    return answers


def empty() -> Inspected:
    return Inspected(epoch=1, committed=None, lineage=(), promised=NO_BALLOT, vote=None, cached=None, changelog=())


def test_an_inspection_shows_who_is_silent_and_who_failed() -> None:
    world = World(4)
    answers, sent = inspected(world), world.links.take()
    assert {to: each.requests for to, each in sent.items()} == dict.fromkeys((B, C, D), (Inspect(key=KEY),))
    sent[C].answer(Failed(reason="refused"))
    sent[D].answer(empty())
    world.clock.advance(world.node.driver.timing.round_timeout_ms - 1)
    assert answers == []
    world.clock.advance(1)
    ((mine, silent, failed, fine),) = answers
    assert isinstance(mine.held, Inspected)
    assert silent == ReplicaView(id=B, datacenter="dc-2", held=None, reason="no answer in time")
    assert failed == ReplicaView(id=C, datacenter="dc-3", held=None, reason="refused")
    assert fine == ReplicaView(id=D, datacenter="dc-4", held=empty())
    sent[B].answer(empty())
    assert len(answers) == 1


def test_an_inspection_that_everybody_answered_leaves_no_timer() -> None:
    world = World()
    before = world.clock.pending
    answers, sent = inspected(world), world.links.take()
    for peer in (B, C):
        sent[peer].answer(empty())
    assert [view.id for view in answers[0]] == [A, B, C]
    assert world.clock.pending == before


# How it is doing


@pytest.mark.parametrize(
    ("there", "available", "tolerated"),
    [((), False, -2), ((B,), False, -1), ((B, C), True, 0), ((B, C, 5), True, 1), ((B, C, D, 5), True, 2)],
)
def test_how_many_more_may_fail(there: Sequence[int], available: bool, tolerated: int) -> None:
    world = World(5)
    world.links.rtts = dict.fromkeys(there, 10.0)
    status = world.node.status()
    assert (status.available, status.tolerated_failures) == (available, tolerated)


def test_status_says_who_and_what() -> None:
    world = World(5)
    world.links.rtts = {B: 70.0, C: 72.5, D: 150.0}
    world.links.silent = {D}
    world.clock.advance(2500)
    world.write()
    status = world.node.status()
    assert (status.id, status.datacenter, status.epoch, status.ready) == (A, "dc-1", 1, True)
    assert (status.replicas, status.slow_quorum, status.fast_quorum) == (5, 3, 3)
    assert (status.quorum_policy, status.writes_in_flight, status.uptime_s) == ("optimal", 1, 2.5)
    assert [(peer.id, peer.datacenter, peer.rtt_ms, peer.reachable) for peer in status.peers] == [
        (B, "dc-2", 70.0, True),
        (C, "dc-3", 72.5, True),
        (D, "dc-4", 150.0, False),
        (5, "dc-5", None, False),
    ]
    assert status.peers[0].url == "http://10.0.0.2"
    assert msgspec.json.decode(msgspec.json.encode(status))["floor_ms"] == 72.5


def test_the_floor_is_the_farthest_of_the_nearest_fast_quorum() -> None:
    world = World(5)
    world.links.rtts = {B: 150.0, C: 70.0, D: 72.0, 5: 110.0}
    assert world.node.status().floor_ms == 72.0
    world.links.silent = {C}
    assert world.node.status().floor_ms == 110.0
    world.links.silent = {C, D, B}
    assert world.node.status().floor_ms is None


def test_alone_there_is_no_floor_to_wait_for() -> None:
    world = World(1)
    status = world.node.status()
    assert (status.floor_ms, status.available, status.tolerated_failures, status.peers) == (0.0, True, 0, [])
    world.write()
    world.disk.sync()
    assert isinstance(world.outcomes[0], Committed)


def test_the_fast_share_is_of_what_was_committed_here() -> None:
    world = World()
    assert world.node.status().fast_path_share is None
    for key in (b"a", b"b"):
        world.write(key)
        world.disk.sync()
        world.accept(B)
    world.write(b"a", b"another's name")
    world.disk.sync()
    assert world.node.status().fast_path_share == 1.0
    world.node.paths[Way.SLOW] += 2
    assert world.node.status().fast_path_share == 0.5


# Timers follow the links


def retimed(world: World, **rtts: float) -> Timing:
    world.links.rtts = {int(name[1:]): rtt for name, rtt in rtts.items()}
    world.clock.advance(RETIME_EVERY_MS)
    return world.node.driver.timing


def test_timers_follow_the_round_trips() -> None:
    world = World()
    timing = retimed(world, _2=70.0, _3=150.0)
    assert timing.hedge_ms == 1.5 * 150.0 + SHORTEST_HEDGE_MS
    assert timing.round_timeout_ms == max(SHORTEST_ROUND_MS, 2 * 150.0 + 4 * SHORTEST_HEDGE_MS)
    timing = retimed(world, _2=280.0, _3=300.0)
    assert (timing.hedge_ms, timing.round_timeout_ms) == (475.0, 700.0)
    assert retimed(world, _2=70.0, _3=90.0).backoff_ms == 45.0


def test_timers_stay_within_bounds() -> None:
    world = World()
    timing = retimed(world, _2=0.0, _3=0.0)
    assert (timing.hedge_ms, timing.round_timeout_ms) == (SHORTEST_HEDGE_MS, SHORTEST_ROUND_MS)
    assert timing.backoff_ms == SHORTEST_BACKOFF_MS
    timing = retimed(world, _2=5000.0, _3=5000.0)
    assert (timing.hedge_ms, timing.round_timeout_ms) == (LONGEST_HEDGE_MS, 10_100.0)


def test_a_busy_cluster_is_not_taken_for_a_silent_one() -> None:
    world = World()
    for _ in range(10):
        world.node.pace.proposal_done("Committed", Way.FAST, 0.25)
    timing = retimed(world, _2=1.0, _3=1.0)
    assert (timing.hedge_ms, timing.round_timeout_ms) == (750.0, 1500.0)
    timing = retimed(world, _2=1.0, _3=1.0)
    assert (timing.hedge_ms, timing.round_timeout_ms) == (1.5 + SHORTEST_HEDGE_MS, SHORTEST_ROUND_MS)
    world.node.pace.proposal_done("Committed", Way.FAST, 60.0)
    timing = retimed(world, _2=1.0, _3=1.0)
    assert (timing.hedge_ms, timing.round_timeout_ms) == (LONGEST_HEDGE_MS, 2 * LONGEST_HEDGE_MS)


def test_whom_nobody_has_measured_may_be_far_away() -> None:
    world = World()
    unknown = Timing(
        hedge_ms=1.5 * UNKNOWN_RTT_MS + SHORTEST_HEDGE_MS,
        round_timeout_ms=2 * UNKNOWN_RTT_MS + 100,
        backoff_ms=LONGEST_BACKOFF_MS,
    )
    assert world.node.driver.timing == unknown
    assert retimed(world, _2=1.0) == msgspec.structs.replace(unknown, near=(B,))


def test_the_nearest_are_asked_first_and_only_those_who_are_there() -> None:
    world = World(5)
    assert retimed(world, _2=70.0, _3=150.0, _4=30.0, _5=71.0).near == (D, B, E, C)
    world.links.silent = {D}
    assert retimed(world, _2=70.0, _3=150.0, _4=30.0).near == (B, C)


def test_neighbours_of_one_distance_take_turns() -> None:
    world = World(3)
    world.node.me = B
    assert retimed(world, _1=0.3, _3=0.4).near == (C, A)


def test_the_flow_under_way_keeps_its_timers_and_the_next_has_the_new() -> None:
    world = World()
    world.write(b"a")
    world.disk.sync()
    hedge = world.clock.now + world.node.driver.timing.hedge_ms
    assert hedge in world.clock.pending
    retimed(world, _2=1.0, _3=1.0)
    world.write(b"b")
    world.disk.sync()
    assert world.clock.now + 1.5 + SHORTEST_HEDGE_MS in world.clock.pending
