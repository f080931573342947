"""What a campaign plays when it plays placement, and the hunt for planted faults."""

from contextlib import AbstractContextManager
from hashlib import blake2b

import msgspec
from msgspec import Struct

from epoxy.sim.campaign import DIGEST_BYTES, Campaign, Played, Tally
from epoxy.sim.placement.generate import generate
from epoxy.sim.placement.mutants import MUTANTS, planted
from epoxy.sim.placement.plan import Plan
from epoxy.sim.placement.simulation import Report, run

PROTOCOL = "placement"

LIMIT_SEEDS = 2_000
"""Two minutes on one core. A fault that needs longer is one that the simulator does not find."""


class Setup(Struct, frozen=True, kw_only=True):
    n: int | None = None
    mutant: str | None = None

    @property
    def title(self) -> str:
        words = [PROTOCOL]
        if self.mutant is not None:
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
        words = ["epoxy", "sim", PROTOCOL, "--replay", str(seed)]
        if self.n is not None:
            words += ["--n", str(self.n)]
        if self.mutant is not None:
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
        operations=sum(report.answers.values()),
        paths=report.answers,
        faults=report.faults,
    )


def digest_of(report: Report) -> bytes:
    facts = (
        report.failure,
        report.virtual_us,
        report.events,
        report.messages,
        sorted(report.answers.items()),
        sorted(report.faults.items()),
    )
    return blake2b(msgspec.json.encode(facts), digest_size=DIGEST_BYTES).digest()


def chase(name: str, *, jobs: int = 1, limit_seeds: int = LIMIT_SEEDS) -> Catch:
    since = MUTANTS[name].since
    summary = Campaign(Setup(mutant=name), since, since + limit_seeds, jobs=jobs).run()
    if summary.interrupted:
        raise KeyboardInterrupt
    first = summary.failed[0] if summary.failed else None
    return Catch(
        mutant=name,
        breaks=MUTANTS[name].breaks,
        tried=summary.tally.runs,
        seed=first.seed if first is not None else None,
        rule=first.rule if first is not None else None,
        replay=first.replay if first is not None else None,
    )
