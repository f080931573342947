import gc
import time
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, get_ident

from epoxy.store.embedded.io_thread import IoThread

NEVER_S = 30.0


def test_jobs_run_in_order_and_are_told_of_by_post() -> None:
    post: SimpleQueue[Callable[[], None]] = SimpleQueue()
    thread = IoThread("epoxy-test", post.put)
    results: list[object] = []

    def fail() -> int:
        raise OSError("no space left")

    for job in (get_ident, fail, get_ident):
        thread.submit(job, results.append, results.append)
    assert results == []
    for _ in range(3):
        post.get(timeout=NEVER_S)()
    assert results[0] == results[2] != get_ident()
    assert str(results[1]) == "no space left"
    thread.close()


class Rows:
    """What a job brings along, as a checkpoint its rows."""

    def __call__(self) -> None:
        pass


def test_a_job_that_is_done_is_let_go() -> None:
    """Not when the next one comes: that may be an hour later."""
    post: SimpleQueue[Callable[[], None]] = SimpleQueue()
    thread = IoThread("epoxy-test", post.put)
    rows = Rows()
    gone = weakref.ref(rows)
    done = Event()
    thread.submit(rows, lambda _: done.set(), lambda _: None)
    del rows
    post.get(timeout=NEVER_S)()
    assert done.is_set()
    deadline = time.monotonic() + NEVER_S
    while gone() is not None:  # The thread may be about to.
        assert time.monotonic() < deadline, "its last job is held"
        gc.collect()
    thread.close()
