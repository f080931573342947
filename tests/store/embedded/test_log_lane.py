"""The lanes of the log, and the store on the one whose thread is C."""

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from epoxy.store.embedded import files
from epoxy.store.embedded.log import LogPosition, WriteAheadLog
from epoxy.store.embedded.log_lane import PROBATION, LogLane
from epoxy.store.embedded.recovery import recover
from epoxy.store.embedded.store import EmbeddedStore
from epoxy.store.embedded.syncs import QUICK_S
from tests.store.hand import SteppedIoThread
from tests.store.native import ALL, NEVER_MS, GatedDisk, built

BEGUN = LogPosition()
TOOK_S = 0.25


class HandWriter:
    """A frame writer that a hand moves."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, bytes, int]] = []
        self.ended: list[tuple[int, float, float]] = []
        self.closed = False

    def fileno(self) -> int:
        assert not self.closed
        return 77

    def write(self, file: int, frame: bytes, offset: int) -> None:
        self.frames.append((file, frame, offset))

    def take(self) -> tuple[int, float, float] | None:
        assert not self.closed
        return self.ended.pop() if self.ended else None

    def close(self) -> None:
        self.closed = True


class HandReaders:
    def __init__(self) -> None:
        self.watched: dict[int, Callable[[], object]] = {}

    def add_reader(self, fd: int, callback: Callable[[], object]) -> None:
        self.watched[fd] = callback

    def remove_reader(self, fd: int) -> None:
        del self.watched[fd]


class LaneBench:
    def __init__(self, folder: Path, segment_bytes: int = 1 << 16, *, inline: bool = True) -> None:
        self.now_s = 0.0
        self.log = WriteAheadLog(folder, BEGUN, segment_bytes)
        self.log.syncs._clock = lambda: self.now_s
        self.executor, self.writer, self.readers = SteppedIoThread(), HandWriter(), HandReaders()
        self.lane = LogLane(self.log, self.executor, inline=inline)
        self.lane.watch(self.writer, self.readers)
        self.readable = self.readers.watched[77]
        self.done: list[int] = []
        self.failed: list[Exception] = []

    def write(self, value: bytes, *, light: bool = False) -> bytes:
        frame = self.log.frame(1, {b"a": value})
        self.lane.write(frame, self.done.append, self.failed.append, light=light)
        return frame

    def end(self, error: int = 0, *, took_s: float = TOOK_S) -> None:
        """The write under way; a thread would have written it."""
        file, frame, offset = self.writer.frames[-1]
        os.pwrite(file, frame, offset)
        self.writer.ended.append((error, self.now_s, self.now_s + took_s))
        self.now_s += took_s
        self.readable()

    def at_once(self, *, light: bool = True) -> bool:
        """Whether a frame is written on the loop."""
        told = len(self.done)
        self.write(b"v", light=light)
        if at_once := len(self.done) > told:
            return at_once
        self.end(took_s=QUICK_S / 2)
        assert len(self.done) == told + 1
        return False

    def prove(self) -> None:
        assert not any(self.at_once() for _ in range(PROBATION))


def test_a_frame_is_told_when_its_write_has_ended(tmp_path: Path) -> None:
    bench = LaneBench(tmp_path)
    frame = bench.write(b"1")
    bench.readable()
    bench.now_s = 1.0
    assert (bench.done, bench.log.syncs.under_way_s()) == ([], 1.0), "woken for nothing"
    bench.end()
    assert (bench.done, bench.failed) == ([len(frame)], [])
    assert (bench.log.syncs.under_way_s(), bench.log.syncs.seconds.sum) == (0.0, TOOK_S)
    bench.write(b"2")
    bench.end()
    assert recover(tmp_path, BEGUN)[0] == {b"a": b"2"}


def test_a_frame_that_needs_a_longer_file_goes_through_the_executor(tmp_path: Path) -> None:
    bench = LaneBench(tmp_path, segment_bytes=64)
    bench.write(bytes(100))
    assert bench.writer.frames == []
    assert bench.executor.work()
    assert bench.executor.report()
    bench.write(b"2")
    assert len(bench.writer.frames) == len(bench.done) == 1, "the next has room"
    bench.end()
    assert recover(tmp_path, BEGUN)[0] == {b"a": b"2"}


def test_a_write_that_fails_is_told_with_its_error_and_none_comes_after_it(tmp_path: Path) -> None:
    bench = LaneBench(tmp_path)
    bench.write(b"1")
    bench.end(errno.ENOSPC)
    (failure,) = bench.failed
    assert (bench.done, isinstance(failure, OSError), str(failure)) == ([], True, "[Errno 28] No space left on device")
    with pytest.raises(AssertionError, match="never tried again"):
        bench.write(b"2")
    with pytest.raises(OSError, match="could not be written"):
        bench.log.rotate()


def test_what_ends_after_it_is_closed_is_not_told(tmp_path: Path) -> None:
    bench = LaneBench(tmp_path)
    bench.write(b"1")
    bench.lane.close()
    assert (bench.readers.watched, bench.writer.closed) == ({}, True)
    bench.readable()
    bench.lane.close()
    assert (bench.done, bench.failed) == ([], [])


def test_a_light_frame_is_written_on_the_loop_when_enough_syncs_were_quick(tmp_path: Path) -> None:
    bench = LaneBench(tmp_path)
    bench.prove()
    assert all(bench.at_once() for _ in range(3))
    assert not bench.at_once(light=False)
    assert bench.at_once()
    assert recover(tmp_path, BEGUN)[1].frame == PROBATION + 5


def test_a_slow_sync_sends_light_frames_to_the_writer_until_they_are_quick_again(tmp_path: Path) -> None:
    bench = LaneBench(tmp_path)
    bench.prove()
    bench.write(b"v")
    bench.end(took_s=2 * QUICK_S)
    bench.prove()
    assert bench.at_once()


def test_no_frame_is_written_on_a_loop_that_must_not_wait(tmp_path: Path) -> None:
    bench = LaneBench(tmp_path, inline=False)
    bench.prove()
    assert not bench.at_once()


def test_a_write_on_the_loop_that_fails_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = LaneBench(tmp_path)
    bench.prove()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    bench.write(b"v", light=True)
    assert [str(failure) for failure in bench.failed] == ["[Errno 28] No space left on device"]
    assert len(bench.done) == PROBATION


def test_what_done_raises_is_not_taken_for_a_failed_write(tmp_path: Path) -> None:
    bench = LaneBench(tmp_path)
    bench.prove()

    def done(_: int) -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError):
        bench.lane.write(bench.log.frame(1, {}), done, bench.failed.append, light=True)
    assert bench.failed == []


def test_without_a_writer_frames_go_through_the_executor(tmp_path: Path) -> None:
    log, executor = WriteAheadLog(tmp_path, BEGUN, 512), SteppedIoThread()
    lane, done = LogLane(log, executor, inline=True), list[int]()
    lane.write(log.frame(1, {b"a": b"1"}), done.append, done.append, light=False)  # type: ignore[arg-type]
    assert (executor.work(), executor.report(), len(done)) == (True, True, 1)
    lane.close()
    log.close()


# The store, with the thread in C.


class Gated:
    """A store on this loop whose disk goes on when it is told to."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        module = built(folder, fake=True)
        self.disk = GatedDisk(module, folder / "other")
        monkeypatch.setattr(files, "LogWriter", module.LogWriter)
        self.loop = asyncio.get_running_loop()
        self.failures: asyncio.Queue[str] = asyncio.Queue()
        self.folder = folder / "store"
        self.folder.mkdir()
        self.store = EmbeddedStore(
            self.folder,
            post=self.loop.call_soon_threadsafe,
            schedule=self.loop.call_soon,
            readers=self.loop,
            on_failure=lambda error: self.failures.put_nowait(str(error)),
        )

    def commit(self, key: bytes) -> "asyncio.Future[bytes]":
        self.store.transact(lambda tx: tx.set(key, b"v"))
        synced: asyncio.Future[bytes] = self.loop.create_future()
        self.store.when_durable(lambda: synced.set_result(key))
        return synced

    async def ticks(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    def close(self) -> None:
        self.store.close()
        self.disk.close()


def gated(folder: Path, monkeypatch: pytest.MonkeyPatch, story: Callable[[Gated], object]) -> None:
    async def run() -> None:
        bench = Gated(folder, monkeypatch)
        await asyncio.wait_for(story(bench), NEVER_MS / 1000)  # type: ignore[arg-type]

    asyncio.run(run())


def test_the_loop_goes_on_during_a_sync_and_sees_how_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(bench: Gated) -> None:
        first = bench.commit(b"a")
        await bench.ticks()
        assert not first.done()
        assert 0 < bench.store.longest_sync_ms() < bench.store.longest_sync_ms(), "while it is under way"
        later = [bench.commit(b"b%d" % number) for number in range(3)]
        bench.disk.tell(ALL)
        assert await first == b"a"
        assert not any(each.done() for each in later)
        bench.disk.tell(ALL)
        assert await asyncio.gather(*later) == [b"b0", b"b1", b"b2"]
        assert bench.store.syncs.under_way_s() == 0
        bench.close()
        assert recover(bench.folder / "log", BEGUN)[0].keys() == {b"a", b"b0", b"b1", b"b2"}

    gated(tmp_path, monkeypatch, story)


def test_a_sync_that_fails_ends_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(bench: Gated) -> None:
        first = bench.commit(b"a")
        bench.disk.tell(10, -errno.EIO)
        assert "Input/output error" in await bench.failures.get()
        assert not first.done()
        with pytest.raises(Exception, match="the disk failed"):
            bench.commit(b"b")
        bench.close()

    gated(tmp_path, monkeypatch, story)


def test_closing_during_a_sync_acknowledges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(bench: Gated) -> None:
        first = bench.commit(b"a")
        await bench.ticks()
        bench.disk.tell(ALL)
        bench.close()
        await bench.ticks()
        assert not first.done()
        assert bench.failures.empty()

    gated(tmp_path, monkeypatch, story)
