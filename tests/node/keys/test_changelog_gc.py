"""Rows of the changelog go when no reader needs them, or when they take too much."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus, first_epoch
from epoxy.model.errors import StoreUnavailable
from epoxy.model.members import NO_STAMP, ChangelogPage, ChangelogRead, CursorTruncated, SnapshotPage, SnapshotRead
from epoxy.model.records import ChangelogEntry
from epoxy.node.keys import changelog_gc
from epoxy.node.keys.replica import Replica
from epoxy.node.members.key_sync import KeySync
from epoxy.protocol.members.digest import NOTHING
from epoxy.protocol.members.retention import UNLIMITED, RetentionCeiling, RetentionFloor, last_of
from epoxy.store.member_rows import ChangelogSize, MemberSpace
from epoxy.store.memory import MemoryStore
from tests.node.bench import HandClock
from tests.protocol.keys.harness import A, B, C, prop

LEARNING = ClusterConfig(
    epoch=1, coordinator_id=A, replicas=(ReplicaInfo(id=A), ReplicaInfo(id=C, status=ReplicaStatus.LEARNING))
)


KEEP_ALL = RetentionFloor(commits=1 << 30, age_ms=0.0)


class Bench:
    def __init__(self, config: ClusterConfig | None = None, contents: Mapping[bytes, bytes] | None = None) -> None:
        self.store, self.clock = MemoryStore(contents=contents), HandClock()
        self.replica = Replica(A, self.store, config or first_epoch((A, B)), alarm=print)
        self.space = MemberSpace(self.replica.keyspace, A)
        self.key_sync = KeySync(self.replica, self.store, self.space, self.clock)
        self.gc = self.key_sync.gc
        self.gc.floor = RetentionFloor(commits=0, age_ms=0.0)
        self.gc.start()

    def commit(self, count: int, value: bytes = b"v") -> None:
        for i in range(count):
            self.replica.learn(b"%d/%d" % (self.store.newest_stamp(), i), prop(value))

    def may_keep(self, size: int, pinned_size: int = UNLIMITED) -> None:
        self.gc.floor = KEEP_ALL
        self.gc.ceiling = lambda: RetentionCeiling(size=size, pinned_size=pinned_size)

    def counted(self) -> int:
        """The bytes of the changelog, row by row."""
        view, nothing = self.store.newest(), ChangelogSize(through=NO_STAMP, size=0)
        truncated = ChangelogSize(through=self.replica.keyspace.truncated(view), size=nothing.size)
        return self.space.measure(view, truncated, last_of(self.store.newest_stamp()), 1 << 20, UNLIMITED).size

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
    bench.gc.floor = KEEP_ALL
    bench.look()
    entries = [entry for _, entry in other_changes(5)]
    bench.replica.learn_all(entries, lambda _: None)
    whole = bench.gc.kept_bytes
    for through, rows, swept in ((2, 3, 3), (2, 9, 6), (9, 9, 6)):
        whole -= bench.gc.remove(last_of(through), rows, UNLIMITED)
        assert (bench.gc.swept, bench.gc.kept_bytes) == (swept, whole)
    assert (bench.rows(), whole) == (0, 0)


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


def begin(bench: Bench) -> bytes:
    page = bench.ask(SnapshotRead(reader=C, store=0, after=None, held=NOTHING))
    assert isinstance(page, SnapshotPage)
    return page.cursor


def test_a_beginning_that_arrives_late_does_not_move_the_place_of_a_newcomer() -> None:
    """It gave that request up and asked again (found by `epoxy sim hot`, seed 21269)."""
    bench = Bench(LEARNING)
    bench.commit(2)
    place = begin(bench)
    bench.commit(2)
    assert begin(bench) > place, "the earlier request, which took its time"
    bench.look()
    assert bench.rows() == 2
    assert isinstance(bench.ask(ChangelogRead(reader=C, store=0, after=place)), ChangelogPage)


def test_a_newcomer_whose_place_is_gone_has_a_new_one_where_it_begins_again() -> None:
    bench = Bench(LEARNING)
    bench.look()
    place = begin(bench)
    bench.commit(3)
    bench.gc.remove(last_of(bench.store.newest_stamp()), 10, UNLIMITED)
    assert bench.ask(ChangelogRead(reader=C, store=0, after=place)) == CursorTruncated()
    bench.commit(1)
    begin(bench)
    bench.commit(2)
    bench.look()
    assert bench.rows() == 2


def test_a_member_that_compares_has_its_place_where_it_began_last() -> None:
    bench = Bench(replace(LEARNING, replicas=(ReplicaInfo(id=A), ReplicaInfo(id=C))))
    begin(bench)
    bench.commit(3)
    begin(bench)
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


def test_what_the_rows_take_is_bounded() -> None:
    """A floor that would keep everything, and large values: at most what one pass leaves and a second adds."""
    bench, row, most = Bench(), 20_000, 400_000
    bench.may_keep(most)
    for _ in range(40):
        bench.commit(10, bytes(row))
        bench.look()
        assert bench.gc.kept_bytes == bench.counted() <= most
    assert bench.counted() > most - 2 * row, "and no more than needed goes"
    assert bench.ask(ChangelogRead(reader=B, store=0, after=NO_STAMP)) == CursorTruncated()


def test_a_pass_takes_a_few_bytes_and_the_next_comes_soon() -> None:
    bench = Bench()
    bench.may_keep(0)
    bench.commit(20, bytes(1 << 20))
    before = bench.store.commits
    bench.look()
    assert bench.rows() == 0
    assert bench.store.commits - before >= 20 / (changelog_gc.SWEPT_BYTES / (1 << 20))


def test_rows_that_a_newcomer_reads_may_take_more_but_not_everything() -> None:
    bench = Bench(LEARNING)
    bench.may_keep(10_000, pinned_size=40_000)
    bench.commit(20, bytes(1000))
    bench.look(3)
    assert bench.rows() == 20, "it has not begun"
    bench.commit(40, bytes(1000))
    bench.look(3)
    assert 30_000 < bench.counted() <= 40_000, "it may never begin"
    bench.ask(ChangelogRead(reader=C, store=0, after=last_of(bench.store.newest_stamp())))
    bench.look(3)
    assert bench.counted() <= 10_000


def test_a_start_counts_what_was_not_recorded_a_few_rows_at_a_time() -> None:
    bench = Bench()
    bench.may_keep(UNLIMITED)
    bench.look()
    bench.commit(3 * changelog_gc.SWEPT_ROWS)
    again = Bench(contents=bench.store.survivors())
    again.may_keep(UNLIMITED)
    again.commit(3)
    assert again.gc.kept_bytes < again.counted(), "as far as it is known"
    assert not again.gc.is_measured
    again.look()
    assert again.gc.is_measured
    assert again.gc.kept_bytes == again.counted()


def test_a_start_goes_on_from_the_last_record() -> None:
    bench = Bench()
    bench.may_keep(UNLIMITED)
    bench.look()
    bench.commit(17, bytes(1 << 20))
    bench.look()
    recorded = bench.space.measured(bench.store.newest())
    assert recorded == ChangelogSize(through=last_of(bench.store.newest_stamp()), size=bench.counted())
    again = Bench(contents=bench.store.survivors())
    assert again.gc.is_measured
    assert again.gc.kept_bytes == bench.gc.kept_bytes


def test_rows_that_are_not_measured_go_and_are_not_missed() -> None:
    bench = Bench()
    bench.commit(2 * changelog_gc.SWEPT_ROWS)
    again = Bench(contents=bench.store.survivors())
    again.commit(5)
    again.gc.remove(last_of(again.store.newest_stamp()), 1 << 20, UNLIMITED)
    assert again.rows() == 5, "those of this process are counted by the store: they stay until the others are"
    again.may_keep(UNLIMITED)
    again.look()
    assert again.gc.kept_bytes == again.counted() > 0


def test_rows_in_a_database_are_read_by_ranges() -> None:
    """Each look-up there is a round trip, during which the event loop stands still: a new gateway lost its lease."""
    bench = Bench()
    bench.commit(changelog_gc.SWEPT_ROWS)
    looked_up = bench.counted()
    bench.space.scans_changelog = True
    asked: list[bytes] = []
    newest = bench.store.newest()

    class Counting:
        range = staticmethod(newest.range)

        def get(self, key: bytes) -> bytes | None:
            asked.append(key)
            return newest.get(key)

    nothing, last = ChangelogSize(through=NO_STAMP, size=0), last_of(bench.store.newest_stamp())
    found = bench.space.measure(Counting(), nothing, last, 1 << 20, UNLIMITED)
    assert found.size == looked_up
    assert not asked
    some = bench.space.measure(newest, nothing, last, 10, UNLIMITED)
    rest = bench.space.measure(newest, some, last, 1 << 20, UNLIMITED)
    assert rest.size == looked_up, "each row once"
    bench.look()
    assert not bench.rows()


def test_without_the_database_the_next_pass_is_tried() -> None:
    bench = Bench()
    bench.commit(3)
    away = pytest.MonkeyPatch()

    def unavailable(*_: object, **__: object) -> None:
        raise StoreUnavailable("no connection to the database")

    away.setattr(bench.space, "expire", unavailable)
    bench.look(2)
    assert bench.rows() == 3
    away.undo()
    bench.look()
    assert not bench.rows()
