"""Rows of the changelog go when nobody needs them."""

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus, first_epoch
from epoxy.model.members import NO_STAMP, ChangelogPage, ChangelogRead, CursorTruncated, SnapshotPage, SnapshotRead
from epoxy.model.records import ChangelogEntry
from epoxy.node.keys import changelog_gc
from epoxy.node.keys.replica import Replica
from epoxy.node.members.key_sync import KeySync
from epoxy.protocol.members.digest import NOTHING
from epoxy.protocol.members.retention import RetentionFloor, last_of
from epoxy.store.member_rows import MemberSpace
from epoxy.store.memory import MemoryStore
from tests.node.bench import HandClock
from tests.protocol.keys.harness import A, B, C, prop

LEARNING = ClusterConfig(
    epoch=1, coordinator_id=A, replicas=(ReplicaInfo(id=A), ReplicaInfo(id=C, status=ReplicaStatus.LEARNING))
)


class Bench:
    def __init__(self, config: ClusterConfig | None = None) -> None:
        self.store, self.clock = MemoryStore(), HandClock()
        self.replica = Replica(A, self.store, config or first_epoch((A, B)), alarm=print)
        self.space = MemberSpace(self.replica.keyspace, A)
        self.key_sync = KeySync(self.replica, self.store, self.space, self.clock)
        self.gc = self.key_sync.gc
        self.gc.floor = RetentionFloor(commits=0, age_ms=0.0)
        self.gc.start()

    def commit(self, count: int) -> None:
        for i in range(count):
            self.replica.learn(b"%d/%d" % (self.store.newest_stamp(), i), prop(b"v"))

    def rows(self) -> int:
        return len(self.replica.keyspace.changelog(self.store.begin(), None, 10_000))

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.clock.advance(changelog_gc.LOOK_MS)

    def ask(self, request: SnapshotRead | ChangelogRead) -> object:
        return self.key_sync.page(self.store.begin(), request)


def test_what_nobody_reads_goes_and_the_place_is_told() -> None:
    bench = Bench()
    bench.commit(3)
    bench.look()
    assert (bench.rows(), bench.gc.swept) == (0, 4), "the configuration is a row, too"
    assert bench.ask(ChangelogRead(reader=B, store=0, after=NO_STAMP)) == CursorTruncated()
    end = bench.replica.keyspace.truncated(bench.store.begin())
    assert bench.space.newest(bench.store.begin()) == end
    bench.commit(1)
    page = bench.ask(ChangelogRead(reader=B, store=0, after=end))
    assert isinstance(page, ChangelogPage)
    assert len(page.entries) == 1


def test_a_sweep_takes_a_few_rows_and_the_next_comes_soon() -> None:
    bench = Bench()
    bench.commit(3 * changelog_gc.SWEPT_ROWS)
    bench.clock.advance(changelog_gc.LOOK_MS)
    assert bench.gc.swept >= changelog_gc.SWEPT_ROWS
    bench.look(4)
    assert bench.rows() == 0


def test_rows_of_one_commit_go_together_or_not() -> None:
    """A page that was learned is one commit of many rows."""
    bench = Bench()
    entries = [entry for _, entry in other_changes(5)]
    bench.replica.learn_all(entries, lambda _: None)
    assert bench.store.transact(lambda tx: bench.space.expire(tx, last_of(2), 3)) == 3
    assert bench.store.transact(lambda tx: bench.space.expire(tx, last_of(2), 9)) == 3
    assert bench.store.transact(lambda tx: bench.space.expire(tx, last_of(9), 9)) == 0
    assert bench.rows() == 0


def other_changes(count: int) -> list[tuple[bytes, ChangelogEntry]]:
    other = Bench()
    other.commit(count)
    return other.replica.keyspace.changelog(other.store.begin(), None, 100)


def test_a_newcomer_is_waited_for_from_its_first_page_on() -> None:
    bench = Bench(LEARNING)
    bench.commit(3)
    bench.look(3)
    assert bench.rows() == 3, "it has not begun"
    page = bench.ask(SnapshotRead(reader=C, store=0, after=None, held=NOTHING))
    assert isinstance(page, SnapshotPage)
    bench.commit(2)
    bench.ask(SnapshotRead(reader=C, store=0, after=b"1/0", held=NOTHING))
    bench.look()
    assert bench.rows() == 2, "what came after its first page"
    changes = bench.ask(ChangelogRead(reader=C, store=0, after=page.cursor))
    assert isinstance(changes, ChangelogPage)
    assert len(changes.entries) == 2
    bench.look()
    assert bench.rows() == 2, "it may not have got that page"
    bench.ask(ChangelogRead(reader=C, store=0, after=changes.cursor))
    bench.look()
    assert bench.rows() == 0


def test_the_floor_keeps_the_newest_commits_and_the_young() -> None:
    bench = Bench()
    bench.gc.floor = RetentionFloor(commits=2, age_ms=0.0)
    bench.commit(5)
    bench.look(2)
    assert bench.rows() == 2
    aging = Bench()
    aging.gc.floor = RetentionFloor(commits=0, age_ms=16 * changelog_gc.LOOK_MS)
    aging.commit(5)
    aging.look(16)
    assert aging.rows() == 5
    aging.commit(1)
    aging.look(2)
    assert aging.rows() == 1


def test_it_ends_when_it_is_told_to() -> None:
    bench = Bench()
    bench.gc.stop()
    bench.commit(1)
    bench.look(5)
    assert bench.rows() == 1
