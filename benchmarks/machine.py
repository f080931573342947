"""What a figure depends on beside the code: the machine, the versions, and what else was going on meanwhile."""

import contextlib
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("hiredis", "httptools", "lmdb", "msgspec", "uvloop")

NOISE_SHARE = 0.1
"""Of all cores, that others and the host may take from a measurement. Two cores are busy by a third with our own."""

SYNCS = 50
"""Enough for a median; a tenth of a second on a quiet disk."""


class Machine(Struct, frozen=True, kw_only=True):
    cores: int
    kernel: str
    python: str
    packages: dict[str, str]


class Conditions(Struct, frozen=True, kw_only=True):
    """Shares are of all cores; `others_share` is what processes used that are none of ours. `fsync_ms`: the median of a
    few small synced appends, right before and right after."""

    seconds: float
    busy_share: float
    others_share: float
    stolen_share: float
    fsync_ms: tuple[float, float]


def machine() -> Machine:
    return Machine(
        cores=os.cpu_count() or 0,
        kernel=platform.release(),
        python=platform.python_version(),
        packages={name: metadata.version(name) for name in PACKAGES},
    )


def commit() -> str:
    """With a mark if what was measured is not what was committed."""
    words = git("rev-parse", "--short", "HEAD")
    return f"{words}+changes" if git("status", "--porcelain", "--", "src", "benchmarks") else words


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


class CpuTimes(Struct, frozen=True):
    """Ticks since the start of the machine; `ours` are those of this process and its children."""

    total: int
    idle: int
    stolen: int
    ours: int = 0


class Shares(Struct, frozen=True):
    """Of all cores."""

    busy: float
    others: float
    stolen: float

    @property
    def noise(self) -> float:
        """What we could not have."""
        return self.others + self.stolen


def cpu_times(text: str, ours: int = 0) -> CpuTimes:
    """From the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal; guests are in user."""
    user, nice, system, idle, iowait, irq, softirq, steal = map(int, text.split()[1:9])
    return CpuTimes(user + nice + system + idle + iowait + irq + softirq + steal, idle + iowait, steal, ours)


class ProcessTimes(Struct, frozen=True):
    pid: int
    parent: int
    ticks: int


def process_times(text: str) -> ProcessTimes:
    """From /proc/PID/stat: user, system, and both for children that have ended. The name may have spaces."""
    head, _, rest = text.rpartition(")")
    fields = rest.split()
    return ProcessTimes(int(head.split()[0]), int(fields[1]), sum(map(int, fields[11:15])))


def shares(before: CpuTimes, after: CpuTimes) -> Shares:
    total = max(1, after.total - before.total)
    idle, stolen = after.idle - before.idle, after.stolen - before.stolen
    busy = total - idle - stolen
    others = max(0, busy - (after.ours - before.ours))
    return Shares(busy / total, others / total, stolen / total)


def read_cpu() -> CpuTimes:
    """What we start has no children of its own."""
    me, ours = os.getpid(), 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended in the meantime
            process = process_times(path.read_text())
            ours += process.ticks if me in (process.pid, process.parent) else 0
    return cpu_times(Path("/proc/stat").read_text(), ours)


class Watch:
    """From its making to `read`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fsync_ms = fsync_ms(folder)
        self._began = time.monotonic()
        self._cpu = read_cpu()

    def read(self) -> Conditions:
        used = shares(self._cpu, read_cpu())
        return Conditions(
            seconds=time.monotonic() - self._began,
            busy_share=used.busy,
            others_share=used.others,
            stolen_share=used.stolen,
            fsync_ms=(self._fsync_ms, fsync_ms(self._folder)),
        )


class Quiet:
    """Repeats what was measured while other processes used the machine, and keeps the quietest. Whether to repeat is
    decided by the CPU time of others alone, never by what was found; but what has failures is kept."""

    def __init__(self, patience_s: float) -> None:
        """`patience_s`: for all repetitions together."""
        self._patience_s = patience_s
        self.noise: list[float] = []
        self.repeated = 0

    async def __call__(self, run: Callable[[], Awaitable[T]], failed: Callable[[T], bool]) -> T:
        kept, noise, took = await self._once(run)
        while noise > NOISE_SHARE and not failed(kept) and self._patience_s >= took:
            self._patience_s -= took
            self.repeated += 1
            again, less, took = await self._once(run)
            if less < noise or failed(again):
                kept, noise = again, less
        self.noise.append(noise)
        return kept

    async def _once(self, run: Callable[[], Awaitable[T]]) -> tuple[T, float, float]:
        before, began = read_cpu(), time.monotonic()
        result = await run()
        return result, shares(before, read_cpu()).noise, time.monotonic() - began


def fsync_ms(folder: Path) -> float:
    """On the disk the nodes write to."""
    took = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            file.write(bytes(300))
            file.flush()
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)
