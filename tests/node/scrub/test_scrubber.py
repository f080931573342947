"""Rounds over all rows: at their pace, giving way, recorded, and repeated."""

from collections.abc import Callable

import pytest

from epoxy.model.writes import Committed
from epoxy.node.scrub.scrubber import (
    BUSY_MS,
    DAY_MS,
    FIRST_MS,
    LOOK_MS,
    MIB,
    NOTE_MS,
    PAGE_ROWS,
    PATIENCE_MS,
    Scrubber,
)
from epoxy.store.embedded.scrub import ScrubPage
from epoxy.store.scrub_rows import NEVER, ScrubProgress, ScrubSpace
from tests.node.scrub.replicas import KEY, Cluster
from tests.node.scrub.test_repairs import value_row

pytestmark = pytest.mark.pure("it drops the cached states of a replica")

NOW_MS = 1_800_000_000_000


class Scrubbed:
    """A scrubber of the first replica's store, whose pages a test may hand out itself."""

    def __init__(self, cluster: Cluster | None = None, *, days: int = 7, mib_s: int = 1) -> None:
        self.cluster = cluster or Cluster()
        self.node = self.cluster.replicas[0]
        self.clock = self.cluster.clock
        self.asked: list[tuple[bytes, Callable[[ScrubPage], None]]] = []
        self.by_hand = False
        self.busy = False
        self.told: list[str] = []
        self.wall_ms = NOW_MS
        self.newest = self.node.store.newest
        self.remember = self.node.store.remember
        self.scrubber = self.begun(days=days, mib_s=mib_s)

    def begun(self, *, days: int = 7, mib_s: int = 1) -> Scrubber:
        scrubber = Scrubber(
            self,
            self.node.repairs,
            ScrubSpace(1),
            self.clock,
            days=days,
            mib_s=mib_s,
            is_busy=lambda: self.busy,
            wall_ms=lambda: int(self.wall_ms + self.clock.now),
        )
        scrubber.report = lambda words, _: self.told.append(words)
        return scrubber

    def scrub(self, after: bytes, rows: int, done: Callable[[ScrubPage], None]) -> None:
        assert rows == PAGE_ROWS
        self.asked.append((after, done))
        if not self.by_hand:
            self.node.store.scrub(after, rows, done)

    def answer(self, last: bytes | None, size: int = MIB) -> None:
        self.asked.pop()[1](ScrubPage(last=last, rotten=(), rows=PAGE_ROWS, bytes=size))


def test_a_rotten_row_is_found_and_repaired() -> None:
    bench = Scrubbed()
    assert isinstance(bench.node.write(b"v"), Committed)
    bench.node.rot(value_row(1))
    assert bench.scrubber.begin()
    bench.clock.advance(0)
    report = bench.scrubber.described()
    assert (report.state, report.rotten_found, report.repaired, report.unrepaired) == ("idle", 1, 1, [])
    assert report.rows == bench.scrubber.rows > 2
    assert report.last_ended_at == NOW_MS / 1000
    assert bench.node.state(KEY).version == 1
    assert bench.told == ["scrub begins", "scrub ended"]


def test_one_round_at_a_time() -> None:
    bench = Scrubbed()
    bench.by_hand = True
    assert bench.scrubber.begin()
    assert not bench.scrubber.begin()
    bench.answer(None)
    assert bench.scrubber.begin()


def test_pages_come_at_the_rate_of_the_setting() -> None:
    bench = Scrubbed(mib_s=4)
    bench.by_hand = True
    bench.scrubber.begin()
    bench.clock.advance(100)
    bench.answer(b"a", 4 * MIB)
    bench.clock.advance(899)
    assert bench.asked == []
    bench.clock.advance(1)
    assert [after for after, _ in bench.asked] == [b"a"]
    assert (bench.scrubber.progress.rows, bench.scrubber.bytes) == (PAGE_ROWS, 4 * MIB)


def test_it_gives_way_while_clients_are_busy_but_not_for_ever() -> None:
    bench = Scrubbed()
    bench.by_hand, bench.busy = True, True
    bench.scrubber.begin()
    bench.clock.advance(PATIENCE_MS - BUSY_MS)
    assert (bench.asked, bench.scrubber.described().state) == ([], "paused")
    bench.clock.advance(BUSY_MS)
    assert len(bench.asked) == 1
    bench.answer(b"a", 0)
    bench.busy = False
    bench.clock.advance(2)
    assert [after for after, _ in bench.asked] == [b"a"]
    assert bench.scrubber.described().state == "running"


def test_the_first_round_begins_a_while_after_the_start_and_the_next_after_days() -> None:
    bench = Scrubbed()
    bench.scrubber.start()
    bench.clock.advance(FIRST_MS - 1)
    assert bench.told == []
    bench.clock.advance(LOOK_MS)
    assert bench.told == ["scrub begins", "scrub ended"]
    ended_ms = bench.scrubber.progress.ended_ms
    bench.clock.advance(7 * DAY_MS - LOOK_MS)
    assert len(bench.told) == 2
    bench.clock.advance(2 * LOOK_MS)
    assert len(bench.told) == 4
    assert bench.scrubber.progress.ended_ms - ended_ms >= 7 * DAY_MS


def test_it_goes_on_where_it_was_after_a_restart() -> None:
    bench = Scrubbed()
    bench.by_hand = True
    bench.scrubber.begin()
    bench.answer(b"a", MIB)
    bench.clock.advance(1_000)
    bench.clock.advance(NOTE_MS)
    bench.answer(b"b", MIB)
    bench.scrubber.stop()
    again = bench.begun()
    assert again.progress == ScrubProgress(after=b"b", rows=2 * PAGE_ROWS, bytes=2 * MIB, begun_ms=NOW_MS)
    bench.asked.clear()
    again.start()
    assert [after for after, _ in bench.asked] == [b"b"]
    bench.answer(None)
    assert bench.begun().progress.last_rows == 3 * PAGE_ROWS
    assert bench.begun().described().rows_expected == 3 * PAGE_ROWS


def test_a_clock_that_was_set_back_does_not_stop_it() -> None:
    bench = Scrubbed()
    bench.scrubber.begin()
    bench.scrubber.stop()
    bench.wall_ms -= 300 * DAY_MS
    again = bench.begun()
    again.start()
    assert bench.told == ["scrub begins", "scrub ended"] * 2


def test_zero_days_are_none_unless_asked_for() -> None:
    bench = Scrubbed(days=0)
    bench.scrubber.start()
    bench.clock.advance(DAY_MS)
    assert (bench.told, bench.scrubber.described().state) == ([], "off")
    assert bench.scrubber.begin()
    assert bench.told == ["scrub begins", "scrub ended"]
    assert bench.scrubber.progress != NEVER


def test_a_page_that_comes_after_the_stop_is_dropped() -> None:
    bench = Scrubbed()
    bench.by_hand = True
    bench.scrubber.begin()
    bench.scrubber.stop()
    bench.answer(b"a")
    bench.clock.advance(DAY_MS)
    assert bench.asked == []
    assert bench.scrubber.rows == 0
