"""What a campaign plays when it plays elections, and the hunt for planted faults."""

from contextlib import AbstractContextManager
from hashlib import blake2b

import msgspec
from msgspec import Struct

from epoxy.sim.campaign import DIGEST_BYTES, Campaign, Played, Tally
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

    def planted(self) -> AbstractContextManager[None]:
        return planted(self.mutant)

    def play(self, seed: int) -> Played:
        report = run(self.plan(seed))
        return Played(tally=tally_of(report), digest=digest_of(report), failure=report.failure)

    def replay_command(self, seed: int) -> str:
        words = ["epoxy", "sim", self.protocol, "--replay", str(seed)]
        if self.n is not None:
            words += ["--n", str(self.n)]
        if self.mutant is not None and self.mutant != AS_DESCRIBED:
            words += ["--mutant", self.mutant]
        return " ".join(words)


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


def chase(name: str, *, jobs: int = 1, limit_seeds: int = LIMIT_SEEDS) -> Catch:
    mutant = MUTANTS[name]
    summary = Campaign(Setup(mutant=name), mutant.since, mutant.since + limit_seeds, jobs=jobs).run()
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
