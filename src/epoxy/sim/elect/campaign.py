"""Many runs, on every core; what comes out depends on the seeds alone. And the hunt for planted faults."""

import time
from collections.abc import Iterator
from hashlib import blake2b

import msgspec
from msgspec import Struct

from epoxy.sim.campaign import DIGEST_BYTES, MAX_CHUNK, Failed, Listener, Tally, unheard
from epoxy.sim.crew import work
from epoxy.sim.elect.generate import generate
from epoxy.sim.elect.mutants import AS_DESCRIBED, MUTANTS, planted
from epoxy.sim.elect.plan import Plan
from epoxy.sim.elect.simulation import Report, run

LIMIT_SEEDS = 3_000
"""Three minutes on one core. A fault that needs longer is one that the simulator does not find."""


class Setup(Struct, frozen=True, kw_only=True):
    n: int | None = None
    mutant: str | None = None

    @property
    def protocol(self) -> str:
        return AS_DESCRIBED if self.mutant == AS_DESCRIBED else "elect"

    @property
    def title(self) -> str:
        words = [self.protocol]
        if self.mutant is not None and self.mutant != self.protocol:
            words.append(f"with {self.mutant} planted")
        if self.n is not None:
            words.append(f"n = {self.n}")
        return ", ".join(words)

    def plan(self, seed: int) -> Plan:
        return generate(seed, n=self.n)

    def replay_command(self, seed: int) -> str:
        words = ["epoxy", "sim", self.protocol, "--replay", str(seed)]
        if self.n is not None:
            words += ["--n", str(self.n)]
        if self.mutant is not None and self.mutant != AS_DESCRIBED:
            words += ["--mutant", self.mutant]
        return " ".join(words)


class Task(Struct, frozen=True, kw_only=True):
    setup: Setup
    first: int
    end: int
    keep_going: bool


class Chunk(Struct, frozen=True, kw_only=True):
    first: int
    tally: Tally
    failed: list[Failed]
    digests: bytes


class Summary(Struct, frozen=True, kw_only=True):
    setup: Setup
    first_seed: int
    tally: Tally
    failed: list[Failed]
    digest: str | None
    real_seconds: float
    interrupted: bool


class Catch(Struct, frozen=True, kw_only=True):
    """What became of a planted fault. No rule: it survived."""

    mutant: str
    breaks: str
    tried: int
    seed: int | None = None
    rule: str | None = None
    replay: str | None = None


def tally_of(report: Report) -> Tally:
    return Tally(
        runs=1,
        failures=int(report.failure is not None),
        virtual_us=report.virtual_us,
        events=report.events,
        messages=report.messages,
        operations=report.writes,
        paths={"acknowledged": report.acknowledged},
        faults={**report.faults, "clock-drift": sum(rate != 1.0 for rate in report.plan.skew)},
        verdicts={"elections": report.elections, "openings": report.openings},
    )


def digest_of(report: Report) -> bytes:
    facts = (
        report.failure,
        report.virtual_us,
        report.events,
        report.messages,
        report.acknowledged,
        report.elections,
        sorted(report.faults.items()),
    )
    return blake2b(msgspec.json.encode(facts), digest_size=DIGEST_BYTES).digest()


def play(task: Task) -> Chunk:
    setup, tally, failed, digests = task.setup, Tally(), list[Failed](), bytearray()
    with planted(setup.mutant):
        for seed in range(task.first, task.end):
            report = run(setup.plan(seed))
            tally.add(tally_of(report))
            digests += digest_of(report)
            if report.failure is not None:
                failure, replay = report.failure, setup.replay_command(seed)
                failed.append(Failed(seed=seed, rule=failure.rule, detail=failure.detail, replay=replay))
                if not task.keep_going:
                    break
    return Chunk(first=task.first, tally=tally, failed=failed, digests=bytes(digests))


class Campaign:
    """Seeds from `first` to before `end`. Stops at the first failure, the one with the lowest seed, unless told to keep
    going; what lay above it is not counted."""

    def __init__(
        self,
        setup: Setup,
        seeds: range,
        *,
        jobs: int = 1,
        keep_going: bool = False,
        listener: Listener = unheard,
    ) -> None:
        self.setup = setup
        self.seeds = seeds
        self.jobs = jobs
        self.keep_going = keep_going
        self.listener = listener
        self._failed = False

    def run(self) -> Summary:
        started, chunks, so_far, interrupted = time.monotonic(), list[Chunk](), Tally(), False
        try:
            for chunk in work(play, self._tasks(), self.jobs):
                chunks.append(chunk)
                self._failed = self._failed or bool(chunk.failed)
                so_far.add(chunk.tally)
                self.listener(so_far, time.monotonic() - started)
        except KeyboardInterrupt:
            interrupted = True
        return self._summary(chunks, time.monotonic() - started, interrupted)

    def _tasks(self) -> Iterator[Task]:
        size = max(1, min(MAX_CHUNK, len(self.seeds) // (4 * self.jobs)))
        for first in range(self.seeds.start, self.seeds.stop, size):
            if self._failed and not self.keep_going:
                return
            end = min(first + size, self.seeds.stop)
            yield Task(setup=self.setup, first=first, end=end, keep_going=self.keep_going)

    def _summary(self, chunks: list[Chunk], seconds: float, interrupted: bool) -> Summary:
        tally, failed, digest = Tally(), list[Failed](), blake2b(digest_size=DIGEST_BYTES)
        for chunk in sorted(chunks, key=lambda chunk: chunk.first):
            tally.add(chunk.tally)
            failed += chunk.failed
            digest.update(chunk.digests)
            if failed and not self.keep_going:
                break
        return Summary(
            setup=self.setup,
            first_seed=self.seeds.start,
            tally=tally,
            failed=failed,
            digest=None if interrupted else digest.hexdigest(),
            real_seconds=seconds,
            interrupted=interrupted,
        )


def chase(name: str, *, jobs: int = 1, limit_seeds: int = LIMIT_SEEDS) -> Catch:
    mutant = MUTANTS[name]
    seeds = range(mutant.since, mutant.since + limit_seeds)
    summary = Campaign(Setup(mutant=name), seeds, jobs=jobs).run()
    if summary.interrupted:
        raise KeyboardInterrupt
    if not summary.failed:
        return Catch(mutant=name, breaks=mutant.breaks, tried=summary.tally.runs)
    first = summary.failed[0]
    return Catch(
        mutant=name,
        breaks=mutant.breaks,
        tried=summary.tally.runs,
        seed=first.seed,
        rule=first.rule,
        replay=first.replay,
    )
