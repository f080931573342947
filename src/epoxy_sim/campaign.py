"""Many runs, on every core. What comes out depends on the seeds alone, not on how many processes shared them."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from hashlib import blake2b
from itertools import count
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from epoxy_sim.keys.simulation import Failure
from epoxy_sim.worker_pool import work

MAX_CHUNK = 16
"""Seeds given to a process at a time. Half a second of work: enough to forget the cost of handing it over, and little
enough for smooth progress."""

DIGEST_BYTES = 16


class FailedRun(Struct, frozen=True, kw_only=True):
    seed: int
    rule: str
    detail: str
    replay: str


class Tally(Struct, kw_only=True):
    """What a number of runs add up to."""

    runs: int = 0
    failures: int = 0
    virtual_us: int = 0
    events: int = 0
    messages: int = 0
    operations: int = 0
    paths: dict[str, int] = {}
    faults: dict[str, int] = {}
    verdicts: dict[str, int] = {}

    def add(self, other: "Tally") -> None:
        for name in ("runs", "failures", "virtual_us", "events", "messages", "operations"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("paths", "faults", "verdicts"):
            counts: dict[str, int] = getattr(self, name)
            for word, times in getattr(other, name).items():
                counts[word] = counts.get(word, 0) + times

    @property
    def virtual_hours(self) -> float:
        return self.virtual_us / 3_600_000_000

    @property
    def fast_share(self) -> float | None:
        """Of the committed writes that needed a round, those that needed only one. Local answers needed none."""
        rounds = self.paths.get("fast", 0) + self.paths.get("slow", 0)
        return self.paths.get("fast", 0) / rounds if rounds else None


class Played(Struct, frozen=True, kw_only=True):
    """What a campaign keeps of one run."""

    tally: Tally
    digest: bytes
    failure: Failure | None


class Playable(Protocol):
    """What all runs of a campaign share, whatever it is that they simulate."""

    def planted(self) -> AbstractContextManager[None]: ...
    def play(self, seed: int) -> Played: ...
    def replay_command(self, seed: int) -> str: ...


S = TypeVar("S", bound=Playable)


class Task(Struct, Generic[S], frozen=True, kw_only=True):
    """Seeds from `first` to before `end`, by one process."""

    setup: S
    first: int
    end: int
    keep_going: bool = False


class Chunk(Struct, Generic[S], frozen=True, kw_only=True):
    """What became of a task. It ends with its first failure unless it was told to keep going."""

    task: Task[S]
    tally: Tally
    failed: list[FailedRun]
    digests: bytes


def play(task: Task[S]) -> Chunk[S]:
    setup, tally, failed, digests = task.setup, Tally(), list[FailedRun](), bytearray()
    with setup.planted():
        for seed in range(task.first, task.end):
            played = setup.play(seed)
            tally.add(played.tally)
            digests += played.digest
            if played.failure is not None:
                failed.append(failed_at(setup, seed, played.failure))
                if not task.keep_going:
                    break
    return Chunk(task=task, tally=tally, failed=failed, digests=bytes(digests))


def failed_at(setup: Playable, seed: int, failure: Failure) -> FailedRun:
    return FailedRun(seed=seed, rule=failure.rule, detail=failure.detail, replay=setup.replay_command(seed))


class Summary(Struct, Generic[S], frozen=True, kw_only=True):
    """`digest` is one number for all runs in the order of their seeds: two machines that agree on it saw the same.
    There is none after an interruption, which leaves gaps."""

    setup: S
    first_seed: int
    tally: Tally
    failed: list[FailedRun]
    digest: str | None
    real_seconds: float
    interrupted: bool

    @property
    def held(self) -> bool:
        return not self.failed


Listener = Callable[[Tally, float], None]
"""Is told what has been done so far, and in how many seconds."""


def unheard(_: Tally, __: float) -> None:
    return None


class Campaign(Generic[S]):
    """Seeds from `first` to before `end`; with `minutes`, on and on until they are over. Stops at the first failure,
    which is the one with the lowest seed, unless told to keep going."""

    def __init__(
        self,
        setup: S,
        first: int,
        end: int,
        *,
        jobs: int = 1,
        minutes: float | None = None,
        keep_going: bool = False,
        listener: Listener = unheard,
    ) -> None:
        self.setup = setup
        self.first = first
        self.end = end
        self.jobs = jobs
        self.minutes = minutes
        self.keep_going = keep_going
        self.listener = listener
        self._started = time.monotonic()
        self._chunks: list[Chunk[S]] = []
        self._failed = False

    def run(self) -> Summary[S]:
        so_far = Tally()
        interrupted = False
        try:
            for chunk in work(play, self._tasks(), self.jobs):
                self._chunks.append(chunk)
                self._failed = self._failed or bool(chunk.failed)
                so_far.add(chunk.tally)
                self.listener(so_far, self._seconds())
        except KeyboardInterrupt:
            interrupted = True
        return self._summary(interrupted)

    def _tasks(self) -> Iterator[Task[S]]:
        """In rising order, so that after a failure only chunks below it are still at work or done."""
        size = max(1, min(MAX_CHUNK, (self.end - self.first) // (4 * self.jobs)))
        starts = range(self.first, self.end, size) if self.minutes is None else count(self.first, MAX_CHUNK)
        for first in starts:
            if (self._failed and not self.keep_going) or self._time_is_over():
                return
            end = min(first + size, self.end) if self.minutes is None else first + MAX_CHUNK
            yield Task(setup=self.setup, first=first, end=end, keep_going=self.keep_going)

    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _time_is_over(self) -> bool:
        return self.minutes is not None and self._seconds() >= self.minutes * 60

    def _summary(self, interrupted: bool) -> Summary[S]:
        """Chunks above the first failure were work in vain: counting them would make the result depend on `jobs`."""
        tally, failed, digest = Tally(), list[FailedRun](), blake2b(digest_size=DIGEST_BYTES)
        for chunk in sorted(self._chunks, key=lambda chunk: chunk.task.first):
            tally.add(chunk.tally)
            failed += chunk.failed
            digest.update(chunk.digests)
            if failed and not self.keep_going:
                break
        return Summary(
            setup=self.setup,
            first_seed=self.first,
            tally=tally,
            failed=failed,
            digest=None if interrupted else digest.hexdigest(),
            real_seconds=self._seconds(),
            interrupted=interrupted,
        )
