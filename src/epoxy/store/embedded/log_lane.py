"""How frames of the log get to the disk: in a thread of Python's, or in one that never waits for the interpreter's lock
(`log_writer.c`), which compiled wheels have. One frame is under way at a time; what else is done to the log goes to the
executor, before a frame or after it."""

import os
from collections.abc import Callable
from typing import Protocol

from epoxy.store.embedded.files import Files, FrameWriter
from epoxy.store.embedded.io_thread import IoExecutor
from epoxy.store.embedded.log import WriteAheadLog


class Readers(Protocol):
    """An event loop, as far as it watches descriptors."""

    def add_reader(self, fd: int, callback: Callable[[], object], /) -> object: ...

    def remove_reader(self, fd: int, /) -> object: ...


class LogLane(Protocol):
    def write(
        self, frame: bytes, done: Callable[[int], None], failed: Callable[[Exception], None], *, light: bool
    ) -> None:
        """Call `done` with the size of the frame when it is synced, or `failed` if it may not be; before this returns,
        perhaps, if the frame is `light`."""

    def close(self) -> None:
        """Returns when the write under way has ended; it is not told any more."""


class ThreadLane:
    def __init__(self, log: WriteAheadLog, executor: IoExecutor) -> None:
        self._log = log
        self._executor = executor

    def write(
        self, frame: bytes, done: Callable[[int], None], failed: Callable[[Exception], None], *, light: bool
    ) -> None:
        self._executor.submit(lambda: self._log.write(frame), done, failed, light=light)

    def close(self) -> None:
        """The executor is its owner's."""


class NativeLane:
    def __init__(self, log: WriteAheadLog, executor: IoExecutor, writer: FrameWriter, readers: Readers) -> None:
        self._log = log
        self._executor = executor
        self._writer = writer
        self._readers = readers
        self._under_way: tuple[bytes, Callable[[int], None], Callable[[Exception], None]] | None = None
        self._closed = False
        readers.add_reader(writer.fileno(), self._readable)

    def write(
        self, frame: bytes, done: Callable[[int], None], failed: Callable[[Exception], None], *, light: bool
    ) -> None:
        place = self._log.begin_write(frame)
        if place is None:
            self._executor.submit(lambda: self._log.write(frame), done, failed)
            return
        self._under_way = frame, done, failed
        self._writer.write(place[0], frame, place[1])

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._readers.remove_reader(self._writer.fileno())
            self._writer.close()

    def _readable(self) -> None:
        ended = self._writer.take() if not self._closed else None
        if ended is None:
            return
        assert self._under_way is not None
        (error, began_s, ended_s), (frame, done, failed) = ended, self._under_way
        self._under_way = None
        if error:
            failed(OSError(error, os.strerror(error)))
        else:
            done(self._log.end_write(frame, began_s, ended_s))


def lane_of(log: WriteAheadLog, executor: IoExecutor, files: Files, readers: Readers | None) -> LogLane:
    writer = files.frame_writer() if readers is not None else None
    if readers is None or writer is None:
        return ThreadLane(log, executor)
    return NativeLane(log, executor, writer, readers)
