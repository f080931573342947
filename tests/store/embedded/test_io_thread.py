import gc
import time
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, get_ident

import pytest

from epoxy.store.embedded.io_thread import PROBATION, QUICK_S, AdaptiveIoThread, IoThread

NEVER_S = 30.0


class Bench:
    """A thread whose jobs take as long as a test says, and an owner who looks into the post when asked to."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.post: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.thread = AdaptiveIoThread("epoxy-test", self.post.put, clock=lambda: self.now_s)
        self.results: list[object] = []

    def submit(self, takes_s: float, *, light: bool = True) -> None:
        """The result is the thread the job ran in."""

        def job() -> int:
            self.now_s += takes_s
            return get_ident()

        self.thread.submit(job, self.results.append, self.results.append, light=light)

    def run(self, takes_s: float, *, light: bool = True) -> bool:
        """Whether it was done at once, in our own thread."""
        self.submit(takes_s, light=light)
        at_once = bool(self.results)
        if not at_once:
            self.post.get(timeout=NEVER_S)()
        return self.results.pop() == get_ident() and at_once

    def prove(self) -> None:
        assert not any(self.run(QUICK_S / 2) for _ in range(PROBATION))


def test_jobs_are_done_at_once_when_enough_of_them_were_quick() -> None:
    bench = Bench()
    bench.prove()
    assert all(bench.run(QUICK_S / 2) for _ in range(3))
    bench.thread.close()


def test_what_is_not_light_goes_to_the_thread_however_quick_it_is() -> None:
    bench = Bench()
    bench.prove()
    assert not bench.run(QUICK_S / 2, light=False)
    assert bench.run(QUICK_S / 2)
    bench.thread.close()


def test_a_slow_job_sends_the_next_to_the_thread_until_they_are_quick_again() -> None:
    bench = Bench()
    bench.prove()
    assert bench.run(2 * QUICK_S)
    bench.prove()
    assert bench.run(QUICK_S / 2)
    bench.thread.close()


def test_a_job_does_not_overtake_those_in_the_thread() -> None:
    bench = Bench()
    bench.prove()
    assert bench.run(2 * QUICK_S)
    for _ in range(PROBATION + 1):
        bench.submit(QUICK_S / 2)
    assert bench.results == []
    for _ in range(PROBATION + 1):
        bench.post.get(timeout=NEVER_S)()
    assert len(bench.results) == PROBATION + 1
    assert get_ident() not in bench.results
    bench.thread.close()


@pytest.mark.parametrize("proven", [False, True])
def test_a_job_that_fails_is_told_of(proven: bool) -> None:
    bench = Bench()
    if proven:
        bench.prove()

    def fail() -> None:
        raise OSError("no space left")

    failures: list[Exception] = []
    bench.thread.submit(fail, bench.results.append, failures.append, light=True)
    if not proven:
        bench.post.get(timeout=NEVER_S)()
    assert [str(failure) for failure in failures] == ["no space left"]
    assert bench.results == []
    bench.thread.close()


def test_what_done_raises_is_not_taken_for_a_failed_job() -> None:
    bench = Bench()
    bench.prove()
    failures: list[Exception] = []

    def done(_: None) -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError):
        bench.thread.submit(lambda: None, done, failures.append, light=True)
    assert failures == []
    bench.thread.close()


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
