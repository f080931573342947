"""What a figure depends on beside the code: the machine, the versions, and what else was going on meanwhile."""

import os
import platform
import statistics
import subprocess
import tempfile
import time
from importlib import metadata
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("hiredis", "httptools", "lmdb", "msgspec", "uvloop")

SYNCS = 50
"""Enough for a median; a tenth of a second on a quiet disk."""


class Machine(Struct, frozen=True, kw_only=True):
    cores: int
    kernel: str
    python: str
    packages: dict[str, str]


class Conditions(Struct, frozen=True, kw_only=True):
    """Shares are of all cores. `fsync_ms`: the median of a few small synced appends, right before and right after."""

    seconds: float
    busy_share: float
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
    """Ticks since the start of the machine."""

    total: int
    idle: int
    stolen: int


def cpu_times(text: str) -> CpuTimes:
    """From the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal; guests are in user."""
    user, nice, system, idle, iowait, irq, softirq, steal = map(int, text.split()[1:9])
    return CpuTimes(user + nice + system + idle + iowait + irq + softirq + steal, idle + iowait, steal)


class Watch:
    """From its making to `read`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fsync_ms = fsync_ms(folder)
        self._began = time.monotonic()
        self._cpu = cpu_times(Path("/proc/stat").read_text())

    def read(self) -> Conditions:
        now = cpu_times(Path("/proc/stat").read_text())
        total = max(1, now.total - self._cpu.total)
        idle, stolen = now.idle - self._cpu.idle, now.stolen - self._cpu.stolen
        return Conditions(
            seconds=time.monotonic() - self._began,
            busy_share=(total - idle - stolen) / total,
            stolen_share=stolen / total,
            fsync_ms=(self._fsync_ms, fsync_ms(self._folder)),
        )


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
