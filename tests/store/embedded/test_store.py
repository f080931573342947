"""The embedded store: the port's suite on whole and on tiny generations, and what only a disk can do."""

import asyncio
import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from epoxy.model.errors import RottenRow, StoreFailed, StoreRefused
from epoxy.ports import KeyValue
from epoxy.store.conflicts import Values
from epoxy.store.embedded import files, space
from epoxy.store.embedded import store as embedded
from epoxy.store.embedded.files import Files
from epoxy.store.embedded.log import LogPosition, segments
from epoxy.store.embedded.recovery import recover
from epoxy.store.embedded.scrub import ScrubPage
from epoxy.store.embedded.store import LOG_BYTES, MANY_COMMITS, MAX_LOG_BYTES, EmbeddedStore
from epoxy.store.embedded.tree import Tree, TreeView
from epoxy.store.mvcc import UndoRecord
from tests.store.conformance import LAST, Bench, StoreConformance, put, rows
from tests.store.crash_steps import check_crashes
from tests.store.hand import EmbeddedBench
from tests.store.model import check_random_histories
from tests.store.native import built
from tests.store.rot import rot

TINY = 64
"""Bytes of a generation: every other flush freezes one, so checkpoints are always under way."""

TRIAL = settings(
    max_examples=300,
    stateful_step_count=50,
    phases=[Phase.generate],
    database=None,
    derandomize=True,
    deadline=None,
)
"""The same histories every time, and the first that fails is enough."""


class TestEmbeddedStore(StoreConformance):
    log_bytes = LOG_BYTES

    def open_bench(self) -> Bench:
        return EmbeddedBench(log_bytes=self.log_bytes)

    def test_random_histories_match_a_plain_dict(self) -> None:
        check_random_histories(self.open_bench, settings(max_examples=50, stateful_step_count=40, deadline=None))


class TestTinyGenerations(TestEmbeddedStore):
    log_bytes = TINY


# Crashes.


def test_crashes_at_every_step() -> None:
    check_crashes(EmbeddedStore, settings(max_examples=100, stateful_step_count=50, deadline=None))


class AcknowledgesBeforeTheSync(EmbeddedStore):
    def _flush(self) -> None:
        super()._flush()
        self._synced = self.commits
        self._notify()


class MovesThePositionFirst(EmbeddedStore):
    def _checkpoint(self, effects: Values, reached: LogPosition) -> None:
        self._tree.apply({}, reached)
        super()._checkpoint(effects, reached)


class DropsTheLogFirst(EmbeddedStore):
    def _checkpoint(self, effects: Values, reached: LogPosition) -> None:
        self._log.drop(reached.generation)
        super()._checkpoint(effects, reached)


class CheckpointsWhatIsNotSynced(EmbeddedStore):
    """The memtable that commits go to, instead of the frozen one: ahead of the position it is stored with."""

    def _checkpoint(self, effects: Values, reached: LogPosition) -> None:
        newer = self._levels
        super()._checkpoint({**effects, **newer.active.values, **newer.open.values}, reached)


@pytest.mark.pure("plants faults in the store, in a class that inherits from it")
@pytest.mark.parametrize(
    "kind", [AcknowledgesBeforeTheSync, MovesThePositionFirst, DropsTheLogFirst, CheckpointsWhatIsNotSynced]
)
def test_crashes_find(kind: type[EmbeddedStore]) -> None:
    with pytest.raises((AssertionError, StoreRefused, ExceptionGroup)):
        check_crashes(kind, TRIAL)


Recovered = tuple[dict[bytes, bytes | None], LogPosition]


def replays_nothing(folder: Path, reached: LogPosition | None, files: Files) -> Recovered:
    return {}, recover(folder, reached, files)[1]


def forgets_a_row(folder: Path, reached: LogPosition | None, files: Files) -> Recovered:
    effects, at = recover(folder, reached, files)
    return dict(list(effects.items())[1:]), at


def forgets_the_stamps(folder: Path, reached: LogPosition | None, files: Files) -> Recovered:
    effects, at = recover(folder, reached, files)
    return effects, LogPosition(generation=at.generation, frame=at.frame, sequence=0)


@pytest.mark.parametrize("broken", [replays_nothing, forgets_a_row, forgets_the_stamps])
def test_crashes_find_a_start_that(
    broken: Callable[[Path, LogPosition | None, Files], Recovered], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "recover", broken)
    with pytest.raises((AssertionError, StoreRefused, ExceptionGroup)):
        check_crashes(EmbeddedStore, TRIAL)


# Flushes.


def test_commits_of_a_tick_share_a_frame() -> None:
    bench, told = EmbeddedBench(), list[bytes]()
    for key in (b"a", b"b", b"c"):
        put(bench.store, key)
        bench.store.when_durable(lambda key=key: told.append(key))  # type: ignore[misc]
    bench.tick()
    assert len(bench.writer.jobs) == 1
    put(bench.store, b"d")
    bench.store.when_durable(lambda: told.append(b"d"))
    assert bench.writer.work()
    assert told == []
    bench.writer.report()
    assert told == [b"a", b"b", b"c"]
    bench.sync()
    assert told == [b"a", b"b", b"c", b"d"]
    bench.store.close()
    _, reached = recover(bench.folder / "log", LogPosition())
    assert reached.frame == 2


def delayed(store: EmbeddedStore, key: bytes) -> None:
    store.put({key: b"v"}, None, urgent=False)


def test_a_commit_that_is_not_urgent_is_synced_after_the_delay() -> None:
    bench, told = EmbeddedBench(), list[bytes]()
    for key in (b"a", b"b"):
        delayed(bench.store, key)
        bench.store.when_durable(lambda key=key: told.append(key), urgent=False)  # type: ignore[misc]
    assert (len(bench.ticks), len(bench.delays)) == (0, 1)
    assert bench.store.newest().get(b"b") == b"v"
    assert bench.store.durable().get(b"a") is None
    bench.delays.popleft()()
    bench.flush()
    assert told == [b"a", b"b"]
    assert bench.store.durable().get(b"a") == b"v"
    bench.store.close()


@pytest.mark.parametrize("by", ["a commit", "a question"])
def test_it_shares_the_next_sync(by: str) -> None:
    bench, told = EmbeddedBench(), list[str]()
    delayed(bench.store, b"a")
    bench.store.when_durable(lambda: told.append("not urgent"), urgent=False)
    if by == "a commit":
        put(bench.store, b"b")
    else:
        bench.store.when_durable(lambda: told.append("urgent"))
    bench.flush()
    assert told == ["not urgent", "urgent"][: 1 + (by == "a question")]
    bench.delays.popleft()()
    assert not bench.ticks, "its delay is over, and it is durable"
    assert not bench.delays
    bench.store.close()
    _, reached = recover(bench.folder / "log", LogPosition())
    assert reached.frame == 1


def test_a_sync_under_way_is_followed_by_none_for_it() -> None:
    bench = EmbeddedBench()
    put(bench.store, b"a")
    bench.tick()
    delayed(bench.store, b"b")
    bench.flush()
    assert bench.store.pending == 1
    assert bench.store.position() == 1
    bench.delays.popleft()()
    bench.flush()
    assert (bench.store.pending, bench.store.position()) == (0, 2)
    bench.store.close()


def test_what_came_during_a_delay_has_one_of_its_own() -> None:
    bench = EmbeddedBench()
    delayed(bench.store, b"a")
    put(bench.store, b"b")
    bench.flush()
    delayed(bench.store, b"c")
    assert len(bench.delays) == 1
    bench.delays.popleft()()
    assert (len(bench.ticks), len(bench.delays), bench.store.pending) == (0, 1, 1)
    bench.delays.popleft()()
    bench.flush()
    assert bench.store.pending == 0
    bench.store.close()


def test_a_crash_loses_what_was_not_urgent_and_nothing_else() -> None:
    bench = EmbeddedBench()
    put(bench.store, b"a")
    bench.flush()
    delayed(bench.store, b"b")
    bench.crash()
    assert rows(bench.store.newest()) == [(b"a", b"v")]
    assert bench.store.position() == 1
    bench.store.close()


def test_a_delay_that_is_over_after_the_end_does_nothing() -> None:
    bench = EmbeddedBench()
    delayed(bench.store, b"a")
    bench.store.close()
    bench.delays.popleft()()
    assert not bench.ticks


def put_many(bench: EmbeddedBench, count: int) -> None:
    for number in range(count):
        put(bench.store, b"%03d" % number)


def flushed_many(count: int = MANY_COMMITS) -> EmbeddedBench:
    """The first flush has ended, and its pause has not."""
    bench = EmbeddedBench()
    put_many(bench, count)
    bench.tick()
    assert bench.writer.work()
    assert bench.writer.report()
    return bench


def test_a_flush_of_many_commits_is_followed_by_a_pause() -> None:
    bench, told = flushed_many(), list[bytes]()
    assert (bench.store.pending, len(bench.pauses)) == (0, 1), "they are told at once"
    for key in (b"a", b"b"):
        put(bench.store, key)
        bench.store.when_durable(lambda key=key: told.append(key))  # type: ignore[misc]
        bench.tick()
    assert (len(bench.writer.jobs), bench.store.pending) == (0, 2)
    assert bench.rest()
    assert len(bench.writer.jobs) == 1, "begun by the end of the pause"
    assert bench.writer.work()
    assert bench.writer.report()
    assert told == [b"a", b"b"]
    assert not bench.pauses, "they were few"
    bench.store.close()
    assert recover(bench.folder / "log", LogPosition())[1].frame == 2


def test_a_flush_of_few_commits_is_followed_by_none() -> None:
    bench = flushed_many(MANY_COMMITS - 1)
    assert not bench.pauses
    put(bench.store, b"a")
    bench.tick()
    assert len(bench.writer.jobs) == 1
    bench.store.close()


def test_a_pause_that_ends_before_the_flush_delays_nothing() -> None:
    bench = EmbeddedBench()
    put_many(bench, MANY_COMMITS)
    bench.tick()
    put(bench.store, b"a")
    assert bench.rest()
    assert len(bench.writer.jobs) == 1, "one flush at a time"
    bench.writer.work()
    bench.writer.report()
    assert len(bench.writer.jobs) == 1, "the next began when the first had ended"
    bench.store.close()


def test_a_pause_after_which_nothing_is_wanted_ends_quietly() -> None:
    bench = flushed_many()
    assert bench.rest()
    assert (len(bench.writer.jobs), len(bench.ticks), len(bench.pauses)) == (0, 0, 0)
    put(bench.store, b"a")
    bench.flush()
    assert bench.store.pending == 0
    bench.store.close()


def test_a_pause_that_is_over_after_the_end_does_nothing() -> None:
    bench = flushed_many()
    put(bench.store, b"a")
    bench.store.close()
    assert bench.rest()
    assert not bench.writer.jobs


def test_a_generation_may_end_during_a_pause() -> None:
    bench = EmbeddedBench(log_bytes=TINY)
    bench.checkpointer.work()
    bench.checkpointer.report()
    put_many(bench, MANY_COMMITS)
    bench.tick()
    bench.writer.work()
    bench.writer.report()
    put(bench.store, b"a")
    assert len(bench.writer.jobs) == 1, "the next generation begins"
    bench.writer.work()
    bench.writer.report()
    assert not bench.writer.jobs, "the pause is not over"
    bench.settle()
    assert bench.store.pending == 0
    bench.crash()
    assert len(rows(bench.store.newest())) == MANY_COMMITS + 1
    bench.store.close()


def test_a_store_that_filled_a_segment_has_the_next_prepared() -> None:
    bench = EmbeddedBench(log_bytes=TINY)
    bench.settle()
    draft = bench.folder / "log" / "next"
    assert not draft.exists(), "an empty one did not"
    put_many(bench, MANY_COMMITS)
    bench.settle()
    assert draft.stat().st_size == TINY + 512
    put_many(bench, MANY_COMMITS)
    bench.settle()
    bench.crash()
    assert len(rows(bench.store.newest())) == MANY_COMMITS
    bench.store.close()


def test_reads_start_no_flush() -> None:
    bench = EmbeddedBench()
    assert bench.store.transact(lambda tx: tx.get(b"a")) is None
    assert not bench.ticks
    bench.store.close()


def test_one_that_raises_does_not_silence_the_others() -> None:
    bench, told = EmbeddedBench(), list[str]()

    def breaks() -> None:
        raise ZeroDivisionError

    put(bench.store, b"a")
    bench.store.when_durable(breaks)
    bench.store.when_durable(lambda: told.append("after it"))
    bench.tick()
    bench.writer.work()
    with pytest.raises(ZeroDivisionError):
        bench.writer.report()
    bench.tick()
    assert told == ["after it"]
    bench.store.close()


def test_what_is_cleared_and_was_never_there_is_not_written() -> None:
    bench = EmbeddedBench()
    bench.store.transact(lambda tx: tx.clear(b"absent"))
    put(bench.store, b"a")
    bench.sync()
    bench.store.close()
    assert recover(bench.folder / "log", LogPosition())[0] == {b"a": b"v"}


def test_history_lives_as_long_as_somebody_reads_it() -> None:
    gc.collect()
    bench, before = EmbeddedBench(), undo_records()
    reader = bench.store.begin()
    for _ in range(10):
        put(bench.store, b"a")
    assert undo_records() == before + 11
    del reader
    assert undo_records() == before
    bench.settle()
    assert undo_records() == before
    bench.store.close()


def undo_records() -> int:
    return sum(type(thing) is UndoRecord for thing in gc.get_objects())


# Generations.


def test_a_checkpointed_generation_leaves_memory_and_log() -> None:
    bench = EmbeddedBench(log_bytes=TINY)
    for number in range(100):
        put(bench.store, b"%03d" % number)
        bench.settle()
    levels = bench.store._levels
    assert sum(len(memtable.values) for memtable in (levels.open, levels.flushing, levels.active, levels.frozen)) < 5
    assert len(segments(bench.folder / "log")) == 1
    assert len(rows(bench.store.begin())) == len(rows(bench.store.durable())) == 100
    bench.store.close()


def test_a_view_outlives_the_generations_it_looks_through() -> None:
    bench = EmbeddedBench(log_bytes=TINY)
    put(bench.store, b"a", b"b")
    bench.settle()
    before, durable = bench.store.begin(), bench.store.durable()
    for value in (b"1", b"2", b"3", b"4"):
        put(bench.store, b"a", b"c", value=value)
        bench.store.transact(lambda tx: tx.clear(b"b"))
        bench.settle()
    for view in (before, durable):
        assert rows(view) == [(b"a", b"v"), (b"b", b"v")]
        assert [view.get(key) for key in (b"a", b"b", b"c")] == [b"v", b"v", None]
    assert rows(bench.store.durable()) == [(b"a", b"4"), (b"c", b"4")]
    bench.store.close()


def test_commits_go_on_during_a_checkpoint() -> None:
    bench = EmbeddedBench(log_bytes=TINY)
    bench.settle()
    while not bench.checkpointer.jobs:
        put(bench.store, b"a", value=b"frozen" * 20)
        bench.flush()
    told: list[str] = []
    put(bench.store, b"b")
    bench.store.when_durable(lambda: told.append("b"))
    bench.flush()
    assert told == ["b"]
    assert len(rows(bench.store.durable())) == 2
    bench.crash()
    assert len(rows(bench.store.durable())) == 2
    bench.store.close()


def test_a_batch_of_commits_from_elsewhere_is_as_if_they_were_made_here() -> None:
    """Rows, stamps in their order, what is counted, and what a crash leaves."""
    here, there = EmbeddedBench(), EmbeddedBench()
    for value in (b"1", b"2"):
        here.store.put({b"k": value}, (b"log", b"s", value))
    stamped = [[(b"log", b"s", b"1")], [(b"log", b"s", b"2")]]
    assert there.store.put_batch({b"k": b"2"}, stamped, counts=True) == 2
    for bench in (here, there):
        bench.settle()
        bench.crash()
    assert rows(there.store.newest()) == rows(here.store.newest())
    assert there.store.newest_stamp() == here.store.newest_stamp() == 2
    position = there.store.position()
    assert position == here.store.position()
    there.store.put_batch({b"noted": b"x"}, (), counts=False)
    there.settle()
    assert (there.store.position(), there.store.stamped_bytes()) == (position, 0)
    there.store.put_batch({b"k": None}, [[(b"log", b"", b"three"), (b"log", b"", b"3")]], counts=True)
    assert there.store.stamped_bytes() == 2 * len(b"log" + bytes(10)) + len(b"three3")
    there.settle()
    assert there.store.position() > position
    assert there.store.durable().get(b"k") is None
    for bench in (here, there):
        bench.store.close()


def test_a_tree_that_cannot_keep_up_holds_acknowledgements_back() -> None:
    bench, told = EmbeddedBench(log_bytes=TINY), list[int]()
    for number in range(200):
        put(bench.store, b"k", value=bytes(TINY))
        bench.store.when_durable(lambda number=number: told.append(number))  # type: ignore[misc]
        bench.flush()
    log_bytes = sum(path.stat().st_size for _, path in segments(bench.folder / "log"))
    assert log_bytes < 3 * TINY * MAX_LOG_BYTES // LOG_BYTES
    assert 0 < len(told) < 200
    bench.settle()
    assert told == list(range(200))
    bench.store.close()


def test_a_range_reads_no_more_of_the_tree_than_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = EmbeddedBench()
    put(bench.store, *(b"%04d" % number for number in range(5000)))
    bench.reopen()
    put(bench.store, b"0001x", b"4998x")
    read: list[bytes] = []
    real = TreeView.rows

    def counted(self: TreeView, begin: bytes, end: bytes, reverse: bool) -> Iterator[KeyValue]:
        for row in real(self, begin, end, reverse):
            read.append(row[0])
            yield row

    monkeypatch.setattr(TreeView, "rows", counted)
    assert [key for key, _ in bench.store.begin().range(b"", LAST, limit=3)] == [b"0000", b"0001", b"0001x"]
    assert [key for key, _ in bench.store.begin().range(b"", LAST, limit=2, reverse=True)] == [b"4999", b"4998x"]
    assert len(read) <= 8
    bench.store.close()


# Failures.


def fails(*_: object) -> int:
    raise OSError(28, "No space left on device")


def test_a_full_disk_is_called_one_whatever_the_tree_calls_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """LMDB tells a write that was cut short as an input/output error."""
    broken = StoreFailed("the tree cannot be written: mdb_txn_commit: Input/output error")
    assert space.cause_of(broken, tmp_path) == str(broken)
    monkeypatch.setattr(space, "free_bytes", lambda *_: 4096)
    assert space.cause_of(broken, tmp_path) == f"the disk is full: make room, and start the node again ({broken})"
    monkeypatch.undo()
    assert space.free_bytes(tmp_path) > 0
    assert space.cause_of(broken, tmp_path / "gone") == str(broken)


def test_a_failed_write_ends_the_store_and_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, told = EmbeddedBench(), list[str]()
    put(bench.store, b"a")
    bench.store.when_durable(lambda: told.append("a"))
    monkeypatch.setattr(os, "pwrite", fails)
    bench.sync()
    monkeypatch.undo()
    assert [str(failure) for failure in bench.failures] == [
        "the disk failed: the disk is full: make room, and start the node again ([Errno 28] No space left on device)"
    ]
    for use in (bench.store.begin, bench.store.durable, lambda: put(bench.store, b"b")):
        with pytest.raises(StoreFailed, match="No space left"):
            use()
    bench.store.when_durable(lambda: told.append("late"))
    bench.sync()
    assert (told, len(bench.failures)) == ([], 1)
    bench.crash()
    assert rows(bench.store.begin()) == []
    bench.store.close()


@pytest.mark.parametrize("place", ["epoxy.store.embedded.log.Segment.create", "epoxy.store.embedded.tree.Tree.apply"])
def test_a_failed_checkpoint_ends_the_store(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, told = EmbeddedBench(log_bytes=TINY), list[int]()
    monkeypatch.setattr(place, fails)
    for number in range(10):
        if not bench.failures:
            put(bench.store, b"%d" % number, value=bytes(TINY))
            bench.store.when_durable(lambda number=number: told.append(number))  # type: ignore[misc]
            bench.settle()
    monkeypatch.undo()
    assert len(bench.failures) == 1
    bench.crash()
    assert [int(key) for key, _ in rows(bench.store.begin())] == told
    assert told
    bench.store.close()


def test_a_full_disk_at_the_start_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "posix_fallocate", fails)
    with pytest.raises(StoreFailed, match=r"the disk is full: make room, .*No space left on device"):
        EmbeddedStore(tmp_path, post=unused, schedule=unused, on_failure=unused)


def test_a_refused_folder_can_be_opened_when_it_is_put_right() -> None:
    bench = EmbeddedBench()
    put(bench.store, b"a")
    bench.sync()
    bench.store.close()
    ((_, path),) = segments(bench.folder / "log")
    path.rename(path.with_suffix(".away"))
    with pytest.raises(StoreRefused, match="the log after generation 0 is missing"):
        bench.crash()
    path.with_suffix(".away").rename(path)
    bench.crash()
    assert rows(bench.store.begin()) == [(b"a", b"v")]
    bench.store.close()


# Rot.


class RottenBench(EmbeddedBench):
    """Rows a, b and c are in the tree, and that of b has changed there."""

    def __init__(self) -> None:
        super().__init__()
        put(self.store, b"a", b"c")
        put(self.store, b"b", value=b"the value of b")
        self.reopen()
        self.settle()
        self.reported: list[bytes] = []
        self.store._on_rot = self.reported.append
        rot(self.folder / "tree", b"the value of b")


def test_a_rotten_row_is_reported_once_and_never_returned() -> None:
    bench = RottenBench()
    views = [bench.store.begin(), bench.store.durable(), bench.store.newest()]
    for view in views:
        for reverse in (False, True):
            with pytest.raises(RottenRow) as raised:
                view.range(b"", LAST, limit=5, reverse=reverse)
            assert raised.value.key == b"b"
        with pytest.raises(RottenRow):
            view.get(b"b")
        assert view.get(b"a") == b"v"
        assert view.range(b"", b"b", limit=1) == [(b"a", b"v")]
    bench.tick()
    assert bench.reported == [b"b"]
    bench.store.close()


@pytest.mark.parametrize("mend", [b"the value of b", None])
def test_a_rotten_row_that_is_written_again_is_in_the_tree_soon(mend: bytes | None) -> None:
    bench = RottenBench()
    with pytest.raises(RottenRow):
        bench.store.newest().get(b"b")
    bench.tick()
    bench.store.transact(lambda tx: tx.set(b"b", mend) if mend is not None else tx.clear(b"b"))
    expected = [(b"a", b"v"), *([(b"b", mend)] if mend is not None else []), (b"c", b"v")]
    assert rows(bench.store.begin()) == expected, "before it is in the tree"
    bench.settle()
    assert bench.store._tree.view().get(b"b") == mend
    assert rows(bench.store.durable()) == expected
    pages = list[ScrubPage]()
    bench.store.scrub(b"", 100, pages.append)
    bench.settle()
    assert [page.rotten for page in pages] == [()]
    bench.store.close()


def test_a_range_with_a_rotten_row_can_be_cleared() -> None:
    bench = RottenBench()
    bench.store.transact(lambda tx: tx.clear_range(b"", b"z"))
    assert rows(bench.store.begin()) == []
    bench.store.close()


def test_the_scrub_reports_too_and_leaves_out_what_was_written_since() -> None:
    bench, pages = RottenBench(), list[ScrubPage]()
    bench.store.scrub(b"", 2, pages.append)
    bench.settle()
    assert [(page.rotten, page.last) for page in pages] == [((b"b",), b"c")]
    assert bench.reported == [b"b"]
    bench.store.scrub(b"", 100, pages.append)
    put(bench.store, b"b", value=b"again")
    bench.settle()
    assert (pages[-1].rotten, pages[-1].last, bench.reported) == ((), None, [b"b"])
    bench.store.close()


def test_a_row_that_rots_again_is_reported_again() -> None:
    bench = RottenBench()
    for _ in range(2):
        with pytest.raises(RottenRow):
            bench.store.newest().get(b"b")
        bench.tick()
        put(bench.store, b"b", value=b"the value of b")
        bench.settle()
        assert bench.store.newest().get(b"b") == b"the value of b"
        rot(bench.folder / "tree", b"the value of b")
    assert bench.reported == [b"b", b"b"]
    bench.store.close()


# With threads.


@pytest.mark.parametrize("lane", ["as it is", "native"])
def test_with_threads_on_an_event_loop(tmp_path: Path, lane: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real thing: fifty writers, small generations, every acknowledgement after its sync; then a restart."""
    if lane == "native":
        (tmp_path / "built").mkdir()
        monkeypatch.setattr(files, "LogWriter", built(tmp_path / "built").LogWriter)
    told = asyncio.run(write_with_threads(tmp_path, writers=50, each=40))
    assert len(told) == 2000
    tree = Tree(tmp_path / "tree")
    effects, _ = recover(tmp_path / "log", tree.position())
    tree.close()
    store = EmbeddedStore(tmp_path, post=lambda _: None, schedule=unused, on_failure=unused)
    assert [key for key, _ in rows(store.durable())] == sorted(told)
    assert len(effects) < 2000, "most of it was in the tree by then"
    store.close()


async def write_with_threads(folder: Path, writers: int, each: int) -> list[bytes]:
    loop = asyncio.get_running_loop()
    store = EmbeddedStore(
        folder,
        post=loop.call_soon_threadsafe,
        schedule=loop.call_soon,
        readers=loop,
        on_failure=unused,
        log_bytes=8192,
    )
    told: list[bytes] = []

    async def write(writer: int) -> None:
        for number in range(each):
            key = b"%03d/%03d" % (writer, number)
            put(store, key)
            assert store.begin().get(key) == b"v"
            synced = loop.create_future()
            store.when_durable(lambda synced=synced: synced.set_result(None))  # type: ignore[misc]
            await synced
            assert store.durable().get(key) == b"v"
            told.append(key)

    await asyncio.gather(*(write(writer) for writer in range(writers)))
    store.close()
    return told


def test_with_threads_a_failure_is_heard_on_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> str:
        loop = asyncio.get_running_loop()
        failed: asyncio.Future[str] = loop.create_future()
        store = EmbeddedStore(
            tmp_path,
            post=loop.call_soon_threadsafe,
            schedule=loop.call_soon,
            on_failure=lambda error: failed.set_result(str(error)),
        )
        monkeypatch.setattr(os, "pwrite", fails)
        put(store, b"a")
        store.when_durable(unused)
        reason = await failed
        store.close()
        return reason

    assert "No space left" in asyncio.run(fail())


def unused(*_: object) -> None:
    raise AssertionError("nobody should call this")
