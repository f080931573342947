"""How frames of the log get to the disk, one at a time: on the loop while the disk is quick, in a thread that never
waits for the interpreter's lock (`log_writer.c`), which compiled wheels have, or in a thread of Python's."""

import os
from collections.abc import Callable
from typing import Protocol

from epoxy.store.embedded.files import FrameWriter
from epoxy.store.embedded.io_thread import IoExecutor
from epoxy.store.embedded.log import WriteAheadLog

Done = Callable[[int], None]
Failed = Callable[[Exception], None]

PROBATION = 64
"""Quick syncs in a row before the next is made on the loop: a disk with one slow sync in 64 is slow."""


class Readers(Protocol):
    """An event loop, as far as it watches descriptors."""

    def add_reader(self, fd: int, callback: Callable[[], object], /) -> object: ...

    def remove_reader(self, fd: int, /) -> object: ...


class LogLane:
    """A light frame is written on the loop, which is cheaper than two wake-ups, while the disk is quick. A disk that
    becomes slow blocks the loop once, and then not until it has been quick for `PROBATION` syncs. `inline` False: it
    never is."""

    def __init__(self, log: WriteAheadLog, executor: IoExecutor, *, inline: bool) -> None:
        self._log = log
        self._executor = executor
        self._inline = inline
        self._writer: FrameWriter | None = None
        self._readers: Readers | None = None
        self._under_way: tuple[bytes, Done, Failed] | None = None

    def watch(self, writer: FrameWriter, readers: Readers) -> None:
        """Frames go through this writer from now on."""
        self._writer, self._readers = writer, readers
        readers.add_reader(writer.fileno(), self._readable)

    def write(self, frame: bytes, done: Done, failed: Failed, *, light: bool) -> None:
        """Calls `done` with the size of the frame when it is synced, or `failed` if it may not be; before this returns,
        perhaps, if it is light. Nothing else may be under way in the log."""
        if light and self._inline and self._log.syncs.quick_in_a_row >= PROBATION:
            self._write_now(frame, done, failed)
            return
        place = self._log.begin_write(frame) if self._writer is not None else None
        if self._writer is None or place is None:
            self._executor.submit(lambda: self._log.write(frame), done, failed)
            return
        self._under_way = frame, done, failed
        self._writer.write(place[0], frame, place[1])

    def close(self) -> None:
        """Returns when the write under way in the writer has ended; it is not told any more."""
        writer, readers = self._writer, self._readers
        self._writer = self._readers = None
        if writer is not None and readers is not None:
            readers.remove_reader(writer.fileno())
            writer.close()

    def _write_now(self, frame: bytes, done: Done, failed: Failed) -> None:
        try:
            size = self._log.write(frame)
        except Exception as error:
            failed(error)
        else:
            done(size)

    def _readable(self) -> None:
        ended = self._writer.take() if self._writer is not None else None
        if ended is None:
            return
        assert self._under_way is not None, "what ended was under way"
        (error, began_s, ended_s), (frame, done, failed) = ended, self._under_way
        self._under_way = None
        if error:
            failed(OSError(error, os.strerror(error)))
        else:
            done(self._log.end_write(frame, began_s, ended_s))
