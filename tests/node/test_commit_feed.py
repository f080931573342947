"""What a node knows, shown when it is durable and not before, and told to those who listen."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from epoxy.model.marks import OWNED
from epoxy.model.transactions import Delete, Executed, Put, Txn
from epoxy.model.writes import ReadResult, Source
from epoxy.node.commit_feed import CommitFeed
from epoxy.node.keys.replica import Replica
from epoxy.node.service import Node
from epoxy.ports import Store
from tests.node.service_bench import World
from tests.protocol.keys.harness import KEY, B, commit, prop

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
    newest = world.node.newest_changes(None, 2)
    older = world.node.newest_changes(newest[-1][0], 10)
    assert [row.key for _, row in newest + older] == [b"b/3", b"c", b"b/1", b"a", b"b/2"]
    assert world.node.newest_changes(older[-1][0], 10) == []


def held(world: World, key: bytes, value: bytes | None, *, mutable: bool = True) -> None:
    heard = msgspec.structs.replace(commit(prop(value, by=B, mutable=mutable)), key=key)
    world.node.replica.handle([heard], lambda _: None)


def test_a_page_of_long_values_is_short() -> None:
    world = World()
    for i in range(9):
        held(world, b"%d" % i, bytes(1 << 20))
    world.disk.sync()
    assert [key for key, _ in world.node.page(b"", None, 100)] == [b"0", b"1", b"2", b"3"]
    assert [key for key, _ in world.node.page(b"", b"7", 100)] == [b"8"]


def test_keys_are_counted_that_live() -> None:
    world = World(n=1)
    held(world, b"live", b"v")
    held(world, b"gone", None)
    held(world, b"mine", OWNED)
    told: list[object] = []
    for operation in (Put(key=b"of transactions", value=b"v"), Put(key=b"was", value=b"v"), Delete(key=b"was")):
        world.node.txn(Txn(then=(operation,)), told.append)
        for _ in range(20):
            world.disk.sync()
            world.clock.advance(0)
    assert [type(each) for each in told] == [Executed] * 3
    assert world.node.count(None, 2) == (1, b"live")
    assert world.node.count(None, 100) == (3, None)
    assert sum(not each.is_tombstone for _, each in world.node.page(b"", None, 100)) == 3


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


class SlowToCatchUp:
    """A store that others share, as far as the feed asks it."""

    def __init__(self) -> None:
        self.asked: list[Callable[[], None]] = []

    def catch_up(self, done: Callable[[], None]) -> None:
        self.asked.append(done)


@pytest.mark.pure("the replica is a stand-in")
def test_what_others_have_added_is_announced_when_it_is_found() -> None:
    """Many announcements of other nodes share one look; those that come during it share the next."""
    store, replica = SlowToCatchUp(), SimpleNamespace(keyspace=None, short_watchers=[])
    feed = CommitFeed(cast(Replica, replica), cast(Store, store))
    heard: list[str] = []
    feed.on_change(lambda: heard.append("changed"))
    for _ in range(3):
        feed.others_committed()
    assert (len(store.asked), heard) == (1, [])
    store.asked[0]()
    assert (len(store.asked), heard) == (2, ["changed"])
    store.asked[1]()
    assert (len(store.asked), heard) == (2, ["changed"] * 2)
    feed.others_committed()
    assert len(store.asked) == 3
