"""Processes that we started: what they use, and how they end."""

import contextlib
import ctypes
import os
import random
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from benchmarks.machine import CpuTimes, cpu_times, process_times

START_S = 30.0
"""For a server to answer. Each takes a second or two; the machine may be busy."""

FIRST_PORT, LAST_PORT = 20000, 32000
"""Linux gives those from 32768 to outgoing connections."""

STOP_S = 20.0
"""For a server that was asked to end. After that it is killed."""


SCHED_SETATTR = 314
"""The system call, of Linux on x86-64."""


def take_short_turns(microseconds: int) -> None:
    """Of this process and all that it starts from here on: the scheduler gives them turns of this length. On a machine
    with other work a process that wakes up then waits for its turn less long, and gets no more time than before.
    OSError: the kernel does not do it."""
    # Size, policy, flags, nice, priority, runtime in nanoseconds, deadline, period, two limits that are not used.
    attributes = struct.pack("=IIQiIQQQII", 56, 0, 0, 0, 0, microseconds * 1000, 0, 0, 0, 0)
    if ctypes.CDLL(None, use_errno=True).syscall(SCHED_SETATTR, 0, attributes, 0):
        raise OSError(ctypes.get_errno(), "the length of turns cannot be set")


class Memory(Struct, frozen=True, kw_only=True):
    """Bytes. `anonymous` is what belongs to the processes alone; `resident` has mapped files in it too, which the
    system may take back at any time."""

    anonymous: int
    resident: int


def tick_s() -> float:
    return 1 / os.sysconf("SC_CLK_TCK")


def tree(roots: Iterable[int]) -> list[int]:
    """They, their children and all below."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended in the meantime
            process = process_times(path.read_text())
            children.setdefault(process.parent, []).append(process.pid)
    found, ahead = [], list(roots)
    while ahead:
        pid = ahead.pop()
        found.append(pid)
        ahead += children.get(pid, [])
    return found


def cpu_since(before: Mapping[int, float]) -> float:
    """On a core, of those that are still there: what another used that has ended is not known any more."""
    return sum(max(0.0, cpu_s((pid,)) - used) for pid, used in before.items())


def cpu_each(pids: Iterable[int]) -> dict[int, float]:
    return {pid: cpu_s((pid,)) for pid in pids}


def cpu_s(pids: Iterable[int]) -> float:
    """On a core, of all their threads. Not out of /proc/PID/stat, which is cut to whole ticks: hundreds of small
    processes, as PostgreSQL has them, would seem to need next to nothing."""
    nanoseconds = 0
    for pid in pids:
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):  # it has ended in the meantime
                nanoseconds += int(path.read_text().split()[0])
    return nanoseconds / 1e9


def machine_times() -> CpuTimes:
    return cpu_times(Path("/proc/stat").read_text())


def memory(pids: Iterable[int]) -> Memory:
    anonymous = resident = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = dict(
                line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
            )
            anonymous += kilobytes(lines.get("RssAnon"))
            resident += kilobytes(lines.get("VmRSS"))
    return Memory(anonymous=anonymous, resident=resident)


def kilobytes(words: str | None) -> int:
    return int(words.split()[0]) * 1024 if words else 0


def disk_bytes(folder: Path) -> int:
    """What the files take, holes not counted."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_blocks * 512 if path.is_file() else 0
    return total


def free_ports(count: int) -> list[int]:
    """Below those that the system gives to outgoing connections: there are thousands of these, and servers that are
    stopped and started again. RuntimeError: there are too few."""
    found: list[int] = []
    candidates = random.sample(range(FIRST_PORT, LAST_PORT), LAST_PORT - FIRST_PORT)
    for port in candidates:
        if len(found) == count:
            return found
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    raise RuntimeError(f"no {count} free ports from {FIRST_PORT} to {LAST_PORT}")


class Server:
    """One process, started in its own folder, its words kept in a file there."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        user: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.log = folder / "log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=user, group=user,
                env=environment, extra_groups=[] if user is not None else None,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if not self.running:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_words(self) -> str:
        return self.log.read_text("utf-8", errors="replace")[-2000:] or "(it said nothing)"


def wait_until(answers: Callable[[], bool], server: Server, name: str) -> None:
    """RuntimeError: it ended, or it took too long."""
    deadline = time.monotonic() + START_S
    while not answers():
        if not server.running:
            raise RuntimeError(f"{name} ended before it was ready:\n{server.last_words()}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{name} was not ready in {START_S:.0f} s:\n{server.last_words()}")
        time.sleep(0.05)
