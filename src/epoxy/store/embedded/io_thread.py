"""A thread for disk IO beside the event loop: jobs in order, results by callback on the loop. Tests bring executors
that they step by hand."""

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
    ) -> None:
        """Run the job after earlier ones and call `done` with its result or `failed` with its exception."""

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
