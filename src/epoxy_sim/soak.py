"""Simulation without an end: all workloads, sizes and policies in turn, always with new seeds.

Results are kept in a summary file, from which the next soak goes on. A lane (a workload, size and policy) plays one
chunk at a time, so its next seed is all its state, whenever the soak was killed.
"""

import os
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import msgspec
from msgspec import Struct

from epoxy.model.quorum import QuorumPolicy
from epoxy_sim.campaign import Chunk, FailedRun, Tally, Task, play
from epoxy_sim.keys.generate import HOT, SIZES, WORKLOADS
from epoxy_sim.members.campaign import Setup
from epoxy_sim.members.mutants import MEMBERSHIP
from epoxy_sim.worker_pool import work

FORMAT = 1
CHUNK = 16
"""Seeds of a lane's turn: one to several seconds, so that all lanes have a turn within minutes."""

SAVE_SECONDS = 5.0
"""Between two writes of the summary: what a power cut may cost."""

MAX_FAILURES = 100
"""Kept in the summary: enough to work on."""

LANES = [
    Setup(workload=workload, n=n, policy=policy)
    for n in sorted(set(SIZES))
    for policy in QuorumPolicy
    for workload in WORKLOADS
] + [Setup(workload=workload, policy=policy) for workload in (MEMBERSHIP, HOT) for policy in QuorumPolicy]
"""Where the size is not fixed, members change: in all runs, or in some."""


class BadSummary(Exception):
    """The file is not a summary this version can go on from."""


class SoakSummary(Struct, kw_only=True):
    """`next_seeds`: for each lane, the first seed it has not finished."""

    format: int = FORMAT
    real_seconds: float = 0.0
    tally: Tally = msgspec.field(default_factory=Tally)
    next_seeds: dict[str, int] = {}
    failed: list[FailedRun] = []

    @property
    def held(self) -> bool:
        return self.tally.failures == 0

    def add(self, chunk: Chunk[Setup]) -> None:
        self.tally.add(chunk.tally)
        self.next_seeds[lane_name(chunk.task.setup)] = chunk.task.end
        self.failed += chunk.failed[: MAX_FAILURES - len(self.failed)]


class Header(Struct):
    """What summaries of every version have."""

    format: int


def lane_name(setup: Setup) -> str:
    assert setup.policy is not None
    size = f" n={setup.n}" if setup.n is not None else ""
    return f"{setup.workload}{size} {setup.policy.value}"


def load(path: Path) -> SoakSummary:
    """Where an earlier soak ended; a new beginning if there is no file."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return SoakSummary()
    except OSError as error:
        raise BadSummary(f"{path} cannot be read: {error.strerror}") from error
    try:
        found = msgspec.json.decode(text, type=Header).format
        if found != FORMAT:
            raise BadSummary(f"{path} is a summary of format {found}, this version writes {FORMAT}: name another file")
        return msgspec.json.decode(text, type=SoakSummary)
    except msgspec.MsgspecError as error:
        raise BadSummary(f"{path} is no soak summary ({error}): name another file") from error


def save(summary: SoakSummary, path: Path) -> None:
    """The old file or the new one, never half of each."""
    beside = path.with_name(f"{path.name}.new")
    try:
        beside.write_bytes(msgspec.json.format(msgspec.json.encode(summary)) + b"\n")
        os.replace(beside, path)
    except OSError as error:
        raise BadSummary(f"{path} cannot be written: {error.strerror}") from error


Listener = Callable[[SoakSummary], None]


class Soak:
    """Runs until the minutes are over or an interrupt comes."""

    def __init__(self, path: Path, *, jobs: int, minutes: float | None, listener: Listener) -> None:
        self.summary = load(path)
        self.path = path
        self.jobs = min(jobs, len(LANES))
        self.minutes = minutes
        self.listener = listener
        self._started = time.monotonic()
        self._spent_before = self.summary.real_seconds
        self._busy: set[str] = set()

    def run(self) -> SoakSummary:
        save(self.summary, self.path)
        saved = self._started
        try:
            for chunk in work(play, self._tasks(), self.jobs):
                self._finished(chunk)
                if time.monotonic() - saved >= SAVE_SECONDS:
                    save(self.summary, self.path)
                    saved = time.monotonic()
        except KeyboardInterrupt:
            pass
        save(self.summary, self.path)
        return self.summary

    def _finished(self, chunk: Chunk[Setup]) -> None:
        self._busy.discard(lane_name(chunk.task.setup))
        self.summary.add(chunk)
        self.summary.real_seconds = self._spent_before + self._seconds()
        self.listener(self.summary)

    def _tasks(self) -> Iterator[Task[Setup]]:
        """The lane that is farthest behind comes first, so that a resumed soak goes on where it ended."""
        lanes = sorted(LANES, key=lambda lane: self.summary.next_seeds.get(lane_name(lane), 0))
        for setup in cycle(lanes):
            if self.minutes is not None and self._seconds() >= self.minutes * 60:
                return
            lane = lane_name(setup)
            if lane not in self._busy:
                self._busy.add(lane)
                first = self.summary.next_seeds.get(lane, 0)
                yield Task(setup=setup, first=first, end=first + CHUNK, keep_going=True)

    def _seconds(self) -> float:
        return time.monotonic() - self._started
