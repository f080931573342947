"""Work beside the event loop: jobs one after another, and what became of them told on the loop. A store on a bench
brings lanes that are driven by hand."""

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
        """Do the job after those before it, and call one of the other two with what came of it, perhaps at once if the
        job is `light`."""

    def close(self) -> None:
        """Returns when the job under way has ended; those behind it are not started."""


class IoThread:
    """A thread beside a busy event loop gets its turn after one switch interval of the interpreter, 5 ms by default:
    the process should set that to half a millisecond (`sys.setswitchinterval(0.0005)`)."""

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
            del attempt  # The rows of a checkpoint are part of its job, and the next may be an hour away.


QUICK_S = 0.002
"""To hand a job to a thread and back takes a third of a millisecond and as much CPU as a sync. A quicker one is better
done where it is, as long as nothing else waits for the loop; a busy loop does better beside the disk."""

PROBATION = 64
"""Quick jobs in a row before the next is done at once: one sync in 64 that is slow is a slow disk."""


class AdaptiveIoThread:
    """Does light jobs at once, on the owner's thread, while the disk is quick, and everything else in a thread of its
    own. So a slow disk holds up the loop once, and then not until it has been quick for a while."""

    def __init__(self, name: str, post: Post, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._thread = IoThread(name, post)
        self._clock = clock
        self._handed_over = 0
        self._quick_in_a_row = 0

    def submit(
        self,
        job: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
        *,
        light: bool = False,
    ) -> None:
        if not light or self._handed_over or self._quick_in_a_row < PROBATION:
            self._hand_over(job, done, failed)
            return
        try:
            result = self._timed(job)
        except Exception as error:
            failed(error)
        else:
            done(result)

    def close(self) -> None:
        self._thread.close()

    def _hand_over(self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        def back(result: T) -> None:
            self._handed_over -= 1
            done(result)

        self._handed_over += 1
        self._thread.submit(lambda: self._timed(job), back, failed)

    def _timed(self, job: Callable[[], T]) -> T:
        begun_s = self._clock()
        result = job()
        quick = self._clock() - begun_s < QUICK_S
        self._quick_in_a_row = self._quick_in_a_row + 1 if quick else 0
        return result
