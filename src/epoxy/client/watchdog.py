"""Ends this process when its event loop cannot cancel actors in time: code blocks it, the process was stopped
(SIGSTOP), or the machine was suspended. The actors would go on beside those that others start when the lease is over.

A thread looks at the leases of all workers in this process, and at when the loop of each turned last, by a clock that
goes on while the machine is suspended. The loop looks, too, when it turns: after a pause it may be the first to run. A
loop that turns cancels its actors by itself when the lease is over (`EnvoyProtocol`), and the process goes on.
"""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

EXIT_STOOD_STILL = 70
"""EX_SOFTWARE of sysexits.h. Start it again: its actors are started elsewhere, or here after that."""

SLACK = 8
"""An eighth of the lease is left to the loop to turn, after it is over. A node waits for a quarter of it before it
starts the actors elsewhere (`LOST_PERCENT` of hosting)."""

LOOKS = 32
"""For each lease, and so four within the slack."""

SLOWEST_LOOK_S = 1.0

STDERR = 2

ENDING = threading.Lock()

BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""CLOCK_MONOTONIC stands still in Linux while a machine is suspended."""


def boottime_ms() -> float:
    return time.clock_gettime(BOOTTIME) * 1000


class WorkerLease(Struct, frozen=True):
    """By `boottime_ms`. `in_use`: code of actors runs under it, cancelled or not."""

    ends_ms: float
    length_ms: float
    in_use: bool


def reason_to_end(now_ms: float, turned_ms: float, lease: WorkerLease) -> str | None:
    """Why the process must end, if its loop turned last at `turned_ms`; None: it may go on. A loop that turned after
    the end of its lease has cancelled its actors by then; but their clean-up may block it as well."""
    still_ms = now_ms - turned_ms
    if not lease.in_use:
        return None
    if still_ms > lease.length_ms:
        what = "longer than its lease"
    elif turned_ms <= lease.ends_ms and now_ms > lease.ends_ms + lease.length_ms / SLACK:
        what = "beyond the end of its lease"
    else:
        return None
    return (
        f"the event loop of a worker stood still for {still_ms / 1000:.1f} s, {what} of {lease.length_ms / 1000:g} s:"
        " code that blocks it, or a process or machine that was paused"
    )


def end_process(reason: str) -> None:
    """Without clean-up, which could wait for what blocks the process. So does a reader of stderr that reads no more, or
    a lock of `sys.stderr`. The thread and the loop may both come here: the second waits for the end."""
    with ENDING:
        with contextlib.suppress(OSError):
            os.set_blocking(STDERR, False)
            os.write(STDERR, f"epoxy worker: this process ends with status {EXIT_STOOD_STILL}: {reason}\n".encode())
        os._exit(EXIT_STOOD_STILL)


Lease = Callable[[], WorkerLease | None]
"""None: the worker has not been welcome yet."""


class LoopWatcher(Protocol):
    """What ends the process: the thread, or the simulator's."""

    def end_process(self, reason: str) -> None: ...

    def forget(self, watched: "WatchedLoop") -> None: ...


class WatchedLoop:
    """The loop of one worker, and its lease. Made in that loop."""

    def __init__(self, lease: Lease, watchdog: LoopWatcher, now_ms: Callable[[], float] | None = None) -> None:
        self._lease = lease
        self._watchdog = watchdog
        self._now_ms = now_ms or (lambda: boottime_ms())
        self._turned_ms = self._now_ms()
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(0, self.turn)

    def interval_s(self) -> float:
        lease = self._lease()
        return SLOWEST_LOOK_S if lease is None else min(SLOWEST_LOOK_S, lease.length_ms / LOOKS / 1000)

    def look(self) -> str | None:
        lease, turned_ms = self._lease(), self._turned_ms
        return None if lease is None else reason_to_end(self._now_ms(), turned_ms, lease)

    def turn(self) -> None:
        """Called by a timer, and before and after a welcome: with the first one the interval becomes that of its
        lease."""
        if (reason := self.look()) is not None:
            self._watchdog.end_process(reason)
        self._turned_ms = self._now_ms()
        self._timer.cancel()
        self._timer = self._loop.call_later(self.interval_s(), self.turn)

    def end(self) -> None:
        self._timer.cancel()
        self._watchdog.forget(self)


class WorkerWatchdog:
    """One thread for all workers of a process, while there are any."""

    def __init__(self) -> None:
        self.end_process = end_process
        self.forget_all()

    def forget_all(self) -> None:
        """In a child after a fork, which has neither the thread nor the loops."""
        self._watched: set[WatchedLoop] = set()
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, lease: Lease) -> WatchedLoop:
        """Of a worker in the running loop, until its `end`."""
        watched = WatchedLoop(lease, self)
        with self._lock:
            self._watched.add(watched)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="epoxy watchdog", daemon=True)
                self._thread.start()
        self._changed.set()
        return watched

    def forget(self, watched: WatchedLoop) -> None:
        with self._lock:
            self._watched.discard(watched)
        self._changed.set()

    def _run(self) -> None:
        while watched := self._all():
            for each in watched:
                if (reason := each.look()) is not None:
                    self.end_process(reason)
            self._changed.wait(min(each.interval_s() for each in watched))
            self._changed.clear()

    def _all(self) -> list[WatchedLoop]:
        """With none left the thread ends."""
        with self._lock:
            if not self._watched:
                self._thread = None
            return list(self._watched)


WATCHDOG = WorkerWatchdog()
os.register_at_fork(after_in_child=WATCHDOG.forget_all)
