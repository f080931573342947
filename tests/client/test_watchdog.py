"""When a worker's process ends itself: decided by a pure function, and seen in a process that blocks or is paused."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from epoxy.client import watchdog
from epoxy.client.watchdog import EXIT_STOOD_STILL, WorkerLease, WorkerWatchdog, reason_to_end

PATIENCE_S = 60.0

LEASE = WorkerLease(ends_ms=10_000.0, length_ms=8_000.0, in_use=True)

Decide = Callable[[float, float, WorkerLease], str | None]


def check(decide: Decide) -> None:
    """Times are milliseconds; the last ping that was answered was sent at 2,000."""
    ends = [(now, turned) for now, turned in CASES if decide(now, turned, LEASE) is not None]
    assert ends == ENDS
    idle = WorkerLease(LEASE.ends_ms, LEASE.length_ms, in_use=False)
    assert [decide(now, turned, idle) for now, turned in CASES] == [None] * len(CASES)


CASES = [
    (4_000.0, 3_999.0),  # it turns
    (10_900.0, 9_900.0),  # the lease is over, and the loop has time to notice
    (11_001.0, 10_001.0),  # it turned since, and has cancelled its actors
    (11_001.0, 9_999.0),  # it did not turn since
    (40_000.0, 39_999.0),  # cut off for long, and turning
    (18_002.0, 10_001.0),  # it turned since, and its actors' clean-up blocks it
    (90_000.0, 4_000.0),  # paused for long
]
ENDS = [CASES[3], CASES[5], CASES[6]]


def test_a_loop_that_cannot_cancel_its_actors_ends_the_process() -> None:
    check(reason_to_end)


def test_the_line_says_how_long_and_why() -> None:
    assert reason_to_end(11_001.0, 2_500.0, LEASE) == (
        "the event loop of a worker stood still for 8.5 s, longer than its lease of 8 s: code that blocks it, or a"
        " process or machine that was paused"
    )
    assert "for 1.0 s, beyond the end of its lease of 8 s" in str(reason_to_end(11_001.0, 9_999.0, LEASE))


@pytest.mark.parametrize("fault", ["never", "only the lease", "only the pause", "without slack", "also when idle"])
def test_planted_faults_in_the_decision_are_found(fault: str) -> None:
    def broken(now_ms: float, turned_ms: float, lease: WorkerLease) -> str | None:
        still, over = now_ms - turned_ms > lease.length_ms, turned_ms <= lease.ends_ms < now_ms - 1_000
        ends = {
            "never": False,
            "only the lease": over,
            "only the pause": still,
            "without slack": still or turned_ms <= lease.ends_ms < now_ms,
            "also when idle": still or over,
        }[fault]
        return "it ends" if ends and (lease.in_use or fault == "also when idle") else None

    with pytest.raises(AssertionError):
        check(broken)


def test_it_ends_before_others_start_the_actors() -> None:
    """A node waits for 100 where its envoy waits for 80."""
    threshold_ms = LEASE.length_ms / 0.8
    acknowledged_ms = LEASE.ends_ms - LEASE.length_ms
    assert reason_to_end(acknowledged_ms + threshold_ms, LEASE.ends_ms, LEASE) is not None


class Ends:
    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.told = threading.Event()

    def __call__(self, reason: str) -> None:
        self.reasons.append(reason)
        self.told.set()


def test_workers_share_one_thread_which_ends_with_the_last() -> None:
    async def main() -> None:
        dog = WorkerWatchdog()
        first, second = dog.watch(lambda: None), dog.watch(lambda: None)
        thread = dog._thread
        assert thread is not None
        first.end()
        assert dog._thread is thread
        second.end()
        await asyncio.to_thread(thread.join, PATIENCE_S)
        assert not thread.is_alive()
        third = dog.watch(lambda: None)
        assert dog._thread is not None
        third.end()

    asyncio.run(main())


def test_a_child_after_a_fork_watches_nothing_of_its_parent() -> None:
    async def main() -> None:
        dog = WorkerWatchdog()
        watched = dog.watch(lambda: None)
        thread = dog._thread
        dog.forget_all()
        assert (dog._watched, dog._thread) == (set(), None)
        watched.end()
        assert thread is not None

    asyncio.run(main())


@pytest.mark.parametrize("who", ["thread", "loop"])
def test_whichever_runs_first_ends_it(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread, while the loop is blocked; the loop, if it runs first after a pause."""

    async def main() -> None:
        dog, ends = WorkerWatchdog(), Ends()
        dog.end_process = ends
        if who == "loop":
            monkeypatch.setattr(dog, "_run", lambda: None)
        lease = WorkerLease(watchdog.boottime_ms() - 1, 160.0, in_use=True)
        watched = dog.watch(lambda: lease)
        watched._turned_ms = lease.ends_ms
        if who == "thread":
            assert ends.told.wait(PATIENCE_S), "this blocks the loop"
        else:
            monkeypatch.setattr(watchdog, "boottime_ms", lambda: lease.ends_ms + 1_000)
            watched.turn()
        watched.end()
        assert "stood still" in ends.reasons[0]

    asyncio.run(main())


PROCESS = """
import asyncio, sys, time
from epoxy.client.watchdog import WATCHDOG, WorkerLease, boottime_ms

async def main():
    def lease():
        return WorkerLease(ends[0], 400.0, True)
    ends = [boottime_ms() + 400]
    WATCHDOG.watch(lease)
    print("up", flush=True)
    for _ in range(100_000):
        ends[0] = boottime_ms() + 400
        await asyncio.sleep(0.01)
        if sys.argv[1] == "block":
            time.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["block", "pause"])
def test_a_real_process_ends_with_one_line(how: str) -> None:
    command = [sys.executable, "-c", PROCESS, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        if how == "pause":
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            threading.Event().wait(0.6)
            process.send_signal(signal.SIGCONT)
        _, told = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == EXIT_STOOD_STILL
        assert told.startswith("epoxy worker: this process ends with status 70: the event loop of a worker stood still")
        assert told.count("\n") == 1
