"""Work beside the event loop: jobs in a thread of their own, one after another, and what became of them told on the
loop. A store on a bench brings lanes that are driven by hand."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Protocol, TypeVar

T = TypeVar("T")

Post = Callable[[Callable[[], None]], object]
"""Runs a function on the owner's thread, soon. May be called from any thread: `loop.call_soon_threadsafe`."""


class Lane(Protocol):
    def submit(self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """Do the job after those before it, and call one of the other two with what came of it."""

    def close(self) -> None:
        """Returns when the job under way has ended; those behind it are not started."""


class ThreadLane:
    """A thread beside a busy event loop gets its turn after one switch interval of the interpreter, 5 ms by default:
    the process should set that to half a millisecond (`sys.setswitchinterval(0.0005)`)."""

    def __init__(self, name: str, post: Post) -> None:
        self._post = post
        # At most a handful: the store submits the next job of a kind when the one before is done.
        self._jobs: SimpleQueue[Callable[[], Callable[[], None]]] = SimpleQueue()
        self._open = True
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
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
