"""A thread for disk IO beside the event loop: jobs in order, results by callback on the loop. Tests bring executors
that they step by hand."""

import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Protocol, TypeVar

T = TypeVar("T")

Post = Callable[[Callable[[], None]], object]
"""Runs a function on the owner's thread, soon. May be called from any thread: `loop.call_soon_threadsafe`."""


class IoExecutor(Protocol):
    def submit(
        self,
        job: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
        *,
        light: bool = False,
    ) -> None:
        """Run the job after earlier ones and call `done` with its result or `failed` with its exception; before this
        returns, perhaps, if the job is `light`."""

    def close(self) -> None:
        """Returns when the job under way has ended; later ones are not started."""


class IoThread:
    """Beside a busy event loop a thread waits one switch interval for the interpreter's lock, 5 ms by default: the
    process should set it to half a millisecond (`sys.setswitchinterval(0.0005)`)."""

    def __init__(self, name: str, post: Post) -> None:
        self._post = post
        # At most a handful: the store submits the next job of a kind when the one before is done.
        self._jobs: SimpleQueue[Callable[[], Callable[[], None]]] = SimpleQueue()
        self._open = True
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(
        self,
        job: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
        *,
        light: bool = False,  # noqa: ARG002 (everything goes to the thread)
    ) -> None:
        def attempt() -> Callable[[], None]:
            try:
                result = job()
            except Exception as error:
                reason = error
                return lambda: failed(reason)
            return lambda: done(result)

        self._jobs.put(attempt)

    def close(self) -> None:
        self._open = False
        self._jobs.put(lambda: lambda: None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            attempt = self._jobs.get()
            if not self._open:
                return
            self._post(attempt())
            del attempt  # A job holds the rows of its checkpoint, and the next may be an hour away.


QUICK_S = 0.002
"""Handing a job to a thread and back takes a third of a millisecond and as much CPU as a sync. A shorter job is better
run on the loop, unless the loop is busy."""

PROBATION = 64
"""Quick jobs in a row before the next is run on the loop: a disk with one slow sync in 64 is slow."""


class AdaptiveIoThread(IoThread):
    """Runs light jobs on the owner's thread while the disk is quick, and all others in its thread. A slow disk blocks
    the loop once, and then not until it has been quick for `PROBATION` jobs."""

    def __init__(self, name: str, post: Post, *, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(name, post)
        self._clock = clock
        self._in_thread = 0
        self._quick_in_a_row = 0

    def submit(
        self,
        job: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
        *,
        light: bool = False,
    ) -> None:
        if not light or self._in_thread or self._quick_in_a_row < PROBATION:

            def back(result: T) -> None:
                self._in_thread -= 1
                done(result)

            self._in_thread += 1
            super().submit(lambda: self._timed(job), back, failed)
            return
        try:
            result = self._timed(job)
        except Exception as error:
            failed(error)
        else:
            done(result)

    def _timed(self, job: Callable[[], T]) -> T:
        begun_s = self._clock()
        result = job()
        quick = self._clock() - begun_s < QUICK_S
        self._quick_in_a_row = self._quick_in_a_row + 1 if quick else 0
        return result
