"""What a node knows of its epochs, and of members that were away: seen, kept on its disk, and bounded."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from msgspec.structs import replace

from epoxy.model.api_members import MembersPast
from epoxy.model.cluster import CONFIG_KEY, ClusterConfig, ReplicaInfo
from epoxy.model.incarnation import Greeting, Incarnation, Sighting
from epoxy.node.members import config_record
from epoxy.node.members.history import AWAY_MS, MAX_EPOCHS, MAX_EVENTS, SEARCHED_ROWS, MemberHistory
from epoxy.node.quorum_watch import LOST_MS
from epoxy.protocol.effects import Adopt
from tests.node.service_bench import World
from tests.protocol.keys.harness import A, B, C, D

BEGUN_S = 1_000_000.0
LONG_MS = AWAY_MS + LOST_MS + 2_000


class Watched:
    def __init__(self, world: World | None = None) -> None:
        self.world = world or World(3)
        self.world.links.rtts = {B: 1.0, C: 1.0, D: 1.0}
        self.history = MemberHistory(self.world.node, self.world.node._store, lambda: BEGUN_S + self.now_s)
        self.history.start()

    @property
    def now_s(self) -> float:
        return self.world.clock.now / 1000

    def past(self) -> MembersPast:
        return self.history.past()

    def adopt(self, config: ClusterConfig) -> None:
        self.world.node.replica.perform(Adopt(config=config), lambda _: None)
        self.world.disk.sync()

    def silence(self, *peers: int) -> None:
        self.world.links.silent = set(peers)
        self.world.links.silences = dict.fromkeys(peers, LOST_MS + 1)

    def pass_ms(self, ms: float) -> None:
        self.world.clock.advance(ms)

    def happened(self) -> list[tuple[str, int]]:
        return [(event.what, event.id) for event in self.past().events]


def next_epoch(config: ClusterConfig, *ids: int, **more: Any) -> ClusterConfig:
    infos = [config.info(i) or ReplicaInfo(id=i, datacenter=f"new-{i}") for i in ids or config.replica_ids]
    return replace(config, epoch=config.epoch + 1, replicas=tuple(infos), **more)


def epochs(past: MembersPast) -> list[tuple[int, float | None, str]]:
    return [(seen.epoch, seen.at, seen.source) for seen in past.epochs]


def test_an_epoch_is_seen_with_its_time_and_what_changed() -> None:
    watched = Watched()
    first = watched.world.node.replica.config
    watched.pass_ms(5_000)
    watched.adopt(next_epoch(first, A, B, C, D, previous=(A, B, C)))
    past = watched.past()
    assert epochs(past) == [(2, BEGUN_S + 5, "seen"), (1, None, "kept")]
    assert (past.started, past.now, past.complete) == (BEGUN_S, BEGUN_S + 5, True)
    newest, oldest = past.epochs
    assert (newest.joint, newest.previous, newest.quorums.slow) == (True, (A, B, C), 2)
    assert [(member.id, member.datacenter, member.status) for member in newest.members][-1] == (D, "new-4", "active")
    assert [change.what for change in newest.changes] == ["together"]
    assert newest.changes[0].words.startswith("new-4 begins to vote")
    assert oldest.changes[0].words == "dc-1, dc-2 and dc-3 decide"


def test_one_that_is_gone_keeps_its_name_and_missed_epochs_are_counted() -> None:
    watched = Watched()
    first = watched.world.node.replica.config
    second = next_epoch(first, A, B, C, D)
    watched.adopt(second)
    watched.adopt(replace(next_epoch(second, A, B, C), epoch=7))
    newest = watched.past().epochs[0]
    assert (newest.epoch, newest.missed) == (7, 4)
    assert newest.changes[0].words == "new-4 was removed"


def test_earlier_epochs_are_found_on_the_disk_without_times() -> None:
    world = World(3)
    watched = Watched(world)
    config = world.node.replica.config
    for _ in range(3):
        config = next_epoch(config)
        watched.adopt(config)
    again = Watched(world)
    assert epochs(again.past()) == [(epoch, None, "kept") for epoch in (4, 3, 2, 1)]


def test_a_long_changelog_is_not_read_through() -> None:
    """Rows of other keys are in front: what is in force is known all the same."""
    world = World(3)
    watched = Watched(world)
    watched.adopt(next_epoch(world.node.replica.config))
    world.learn(*[b"k%d" % i for i in range(SEARCHED_ROWS)])
    past = Watched(world).past()
    assert epochs(past) == [(2, None, "kept")]
    assert not past.complete
    assert past.epochs[0].changes[0].what == "first"


def test_no_more_epochs_are_kept_than_the_limit() -> None:
    watched = Watched()
    config = watched.world.node.replica.config
    for _ in range(MAX_EPOCHS + 5):
        config = next_epoch(config)
        watched.adopt(config)
    seen = [record.epoch for record in watched.past().epochs]
    assert seen == list(range(config.epoch, config.epoch - MAX_EPOCHS, -1))
    assert [record.epoch for record in Watched(watched.world).past().epochs] == seen


def test_the_first_start_of_a_store_has_seen_its_epoch() -> None:
    world = World(3)
    with_gate(world, starts=1)
    assert epochs(Watched(world).past()) == [(1, BEGUN_S, "seen")]
    with_gate(world, starts=2)
    assert epochs(Watched(world).past()) == [(1, None, "kept")]


def with_gate(world: World, starts: int, others: dict[int, int] | None = None) -> None:
    incarnation = Incarnation(store=1, counter=starts, nonce=1, base=0)

    def greeting(peer: int) -> Greeting:
        count = (others or {}).get(peer)
        known = Sighting(store=peer, counter=count, nonce=1, position=0) if count else None
        return Greeting(incarnation=incarnation, position=0, known=known)

    world.node.gate = cast(Any, SimpleNamespace(incarnation=incarnation, greeting=greeting))


def test_a_member_that_is_silent_for_some_seconds_is_away_and_comes_back() -> None:
    watched = Watched()
    watched.pass_ms(10_000)
    assert watched.past().events == ()
    watched.silence(C)
    watched.pass_ms(AWAY_MS - 100)
    assert watched.past().away == (), "it may only have been restarted"
    watched.pass_ms(LONG_MS)
    (away,) = watched.past().away
    assert (away.id, away.datacenter, away.trouble) == (C, "dc-3", "gone")
    assert BEGUN_S + 10 <= away.since <= BEGUN_S + 11.1
    assert watched.happened() == [("away", C)]
    watched.silence()
    watched.pass_ms(1_000)
    past = watched.past()
    assert past.away == ()
    assert watched.happened() == [("back", C), ("away", C)], "newest first"
    assert past.events[0].away_s == past.events[0].at - away.since


def test_one_that_is_back_at_once_was_not_away() -> None:
    watched = Watched()
    watched.silence(B)
    watched.pass_ms(AWAY_MS - 1_000)
    watched.silence()
    watched.pass_ms(LONG_MS)
    assert watched.happened() == []


def test_one_that_was_removed_is_not_away() -> None:
    watched = Watched()
    watched.silence(C)
    watched.pass_ms(LONG_MS)
    watched.adopt(next_epoch(watched.world.node.replica.config, A, B))
    watched.pass_ms(1_000)
    assert (watched.past().away, watched.happened()) == ((), [("away", C)])


def test_a_node_that_was_removed_watches_no_member() -> None:
    watched = Watched()
    watched.adopt(next_epoch(watched.world.node.replica.config, B, C))
    watched.silence(B, C)
    watched.pass_ms(LONG_MS)
    assert watched.happened() == []


def test_another_start_of_a_members_store_is_noticed() -> None:
    world = World(3)
    with_gate(world, starts=5, others={B: 7})
    watched = Watched(world)
    watched.pass_ms(2_000)
    with_gate(world, starts=5, others={B: 8})
    watched.pass_ms(2_000)
    assert watched.happened() == [("restarted", B)]


def test_no_more_events_are_kept_than_the_limit() -> None:
    watched = Watched()
    for _ in range(MAX_EVENTS // 2 + 3):
        watched.silence(C)
        watched.pass_ms(LONG_MS)
        watched.silence()
        watched.pass_ms(LONG_MS)
    assert len(watched.past().events) == MAX_EVENTS
    watched.history.stop()
    seen = watched.happened()
    watched.silence(C)
    watched.pass_ms(LONG_MS)
    assert watched.happened() == seen, "it has stopped watching"


def test_only_rows_of_the_configuration_are_taken_for_one() -> None:
    """A client's key, or a value, may hold the same bytes."""
    world = World(3)
    world.learn(CONFIG_KEY + b"/not", b"x" + CONFIG_KEY)
    found: Sequence[int] = [record.epoch for record in Watched(world).past().epochs]
    assert found == [1]
    assert config_record.from_proposal(config_record.to_proposal(world.node.replica.config)).epoch == 1
