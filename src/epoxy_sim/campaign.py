"""Many runs, on every core. The result depends on the seeds alone, not on how many processes shared them."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from hashlib import blake2b
from itertools import count
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Struct

from epoxy_sim import trace_format
from epoxy_sim.patching import Mutant, planted
from epoxy_sim.search import Search, ShrinkListener, Shrunk
from epoxy_sim.simulation import P, Report
from epoxy_sim.worker_pool import work

MAX_CHUNK = 16
"""Seeds given to a process at a time. Half a second of work: enough to make the hand-over cheap, and little enough for
smooth progress."""

DIGEST_BYTES = 16


class FailedRun(Struct, frozen=True, kw_only=True):
    seed: int
    rule: str
    detail: str
    replay: str


class Tally(Struct, kw_only=True):
    """The sum of a number of runs."""

    runs: int = 0
    embedded: int = 0
    """Of them, those over the embedded store."""
    failures: int = 0
    virtual_us: int = 0
    events: int = 0
    messages: int = 0
    operations: int = 0
    paths: dict[str, int] = {}
    faults: dict[str, int] = {}
    verdicts: dict[str, int] = {}
    folds: dict[str, int] = {}

    def add(self, other: "Tally") -> None:
        for name in ("runs", "embedded", "failures", "virtual_us", "events", "messages", "operations"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("paths", "faults", "verdicts", "folds"):
            counts: dict[str, int] = getattr(self, name)
            for word, times in getattr(other, name).items():
                counts[word] = counts.get(word, 0) + times

    @property
    def virtual_hours(self) -> float:
        return self.virtual_us / 3_600_000_000

    def hours_per_minute(self, seconds: float) -> float:
        """Virtual hours for each real minute."""
        return self.virtual_hours / (seconds / 60) if seconds else 0.0

    def virtual_time(self, seconds: float) -> str:
        rate = self.hours_per_minute(seconds)
        return f"{self.virtual_hours:,.2f} h: {rate:,.2f} virtual hours for each real minute"

    @property
    def fast_share(self) -> float | None:
        """The share of committed writes that took one round, of those that took any. Local answers take none."""
        rounds = self.paths.get("fast", 0) + self.paths.get("slow", 0)
        return self.paths.get("fast", 0) / rounds if rounds else None


class CampaignSetup(Struct, Generic[P], frozen=True, kw_only=True):
    """A protocol as a campaign plays it, and what all runs of the campaign share; a field that is None is drawn by each
    seed. A subclass says how plans are made, played, shrunk and described, and what is counted."""

    name: ClassVar[str]
    mutants: ClassVar[Mapping[str, Mutant]]
    limit_seeds: ClassVar[int]

    n: int | None = None
    mutant: str | None = None

    def plan(self, seed: int) -> P:
        raise NotImplementedError

    def run(self, plan: P, *, tracing: bool = False) -> Report[P]:
        raise NotImplementedError

    def search(self, plan: P) -> type[Search[P]]:
        """How a failing plan is shrunk."""
        raise NotImplementedError

    def describe(self, plan: P) -> Iterator[str]:
        raise NotImplementedError

    def rows(self, tally: Tally, seconds: float) -> Iterator[tuple[str, str]]:
        """What a campaign counted, for its summary."""
        raise NotImplementedError

    def condense(self, trace: list[str]) -> list[str]:
        return trace_format.condense(trace)

    def faults(self, report: Report[P]) -> dict[str, int]:
        return report.faults

    def is_embedded(self, plan: P) -> bool:  # noqa: ARG002
        """Whether the machines of this plan have the embedded store."""
        return False

    def facts(self, report: Report[P]) -> tuple[object, ...]:
        """What tells two runs apart, beside their failure, time, events and messages."""
        return tuple(sorted(counts.items()) for counts in (report.paths, report.faults))

    def more(self, report: Report[P]) -> dict[str, object]:  # noqa: ARG002
        """What else the JSON of a replay has."""
        return {}

    def asked(self) -> dict[str, object]:
        """The chosen fields, by the names of their options."""
        return {"n": self.n, "mutant": self.mutant}

    @property
    def protocol(self) -> str:
        """The command that plays it. A mutant that replaces a whole protocol has a command of its own."""
        return self.name

    @property
    def title(self) -> str:
        words = [self.protocol]
        if self.mutant is not None and self.mutant != self.protocol:
            words.append(f"with {self.mutant} planted")
        if self.n is not None:
            words.append(f"n = {self.n}")
        return ", ".join(words)

    def planted(self) -> AbstractContextManager[None]:
        return planted(self.mutants, self.mutant)

    def shrink(
        self, plan: P, rule: str, *, limit_events: int | None = None, listener: ShrinkListener[P] | None = None
    ) -> Shrunk[P]:
        """`plan` must break `rule`. Call it with the same fault planted, if there is one."""
        return self.search(plan)(plan, rule, self.run, limit_events=limit_events, listener=listener).shrunk()

    def tally(self, report: Report[P]) -> Tally:
        return Tally(
            runs=1,
            embedded=int(self.is_embedded(report.plan)),
            failures=int(report.failure is not None),
            virtual_us=report.virtual_us,
            events=report.events,
            messages=report.messages,
            operations=report.operations,
            paths=report.paths,
            faults=self.faults(report),
            verdicts=report.verdicts,
            folds=report.folds,
        )

    def digest(self, report: Report[P]) -> bytes:
        return blake2b(self.encoded(report), digest_size=DIGEST_BYTES).digest()

    def encoded(self, report: Report[P]) -> bytes:
        facts = (report.failure, report.virtual_us, report.events, report.messages, *self.facts(report))
        return msgspec.json.encode(facts)

    def replay_command(self, seed: int) -> str:
        """The command that repeats this run, on any machine."""
        words = ["epoxy", "sim", self.protocol, "--replay", str(seed)]
        for option, value in self.asked().items():
            if value is not None and value != self.protocol:
                words += [f"--{option}", str(value)]
        return " ".join(words)


S = TypeVar("S", bound=CampaignSetup[Any])


def counts(named: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {times:,}" for name, times in sorted(named.items())) or "none"


class Task(Struct, Generic[S], frozen=True, kw_only=True):
    """Seeds from `first` to before `end`, for one process."""

    setup: S
    first: int
    end: int
    keep_going: bool = False


class Chunk(Struct, Generic[S], frozen=True, kw_only=True):
    """The result of a task. It ends at the first failure unless the task says `keep_going`."""

    task: Task[S]
    tally: Tally
    failed: list[FailedRun]
    digests: bytes


def play(task: Task[S]) -> Chunk[S]:
    setup, tally, failed, digests = task.setup, Tally(), list[FailedRun](), bytearray()
    with setup.planted():
        for seed in range(task.first, task.end):
            report = setup.run(setup.plan(seed))
            tally.add(setup.tally(report))
            digests += setup.digest(report)
            if report.failure is not None:
                rule, detail, replay = report.failure.rule, report.failure.detail, setup.replay_command(seed)
                failed.append(FailedRun(seed=seed, rule=rule, detail=detail, replay=replay))
                if not task.keep_going:
                    break
    return Chunk(task=task, tally=tally, failed=failed, digests=bytes(digests))


class Summary(Struct, Generic[S], frozen=True, kw_only=True):
    """`digest` is one number for all runs in the order of their seeds: machines that agree on it had the same runs.
    None after an interruption, which leaves gaps."""

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
"""Called with the counts so far, and the seconds they took."""


class Campaign(Generic[S]):
    """Seeds from `first` to before `end`; with `minutes`, from `first` on until they are over. Stops at the failure
    with the lowest seed, unless it keeps going."""

    def __init__(
        self,
        setup: S,
        first: int,
        end: int,
        *,
        jobs: int = 1,
        minutes: float | None = None,
        keep_going: bool = False,
        listener: Listener = lambda _tally, _seconds: None,
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
        """In rising order, so that after a failure all chunks below it are done or under way."""
        size = max(1, min(MAX_CHUNK, (self.end - self.first) // (4 * self.jobs)))
        starts = range(self.first, self.end, size) if self.minutes is None else count(self.first, MAX_CHUNK)
        for first in starts:
            if (self._failed and not self.keep_going) or self._is_time_over():
                return
            end = min(first + size, self.end) if self.minutes is None else first + MAX_CHUNK
            yield Task(setup=self.setup, first=first, end=end, keep_going=self.keep_going)

    def _seconds(self) -> float:
        return time.monotonic() - self._started

    def _is_time_over(self) -> bool:
        return self.minutes is not None and self._seconds() >= self.minutes * 60

    def _summary(self, interrupted: bool) -> Summary[S]:
        """Chunks above the first failure are not counted: with them the result would depend on `jobs`."""
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
