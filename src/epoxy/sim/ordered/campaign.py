"""What a campaign plays when it plays transactions, and the hunt for planted faults."""

from contextlib import AbstractContextManager
from hashlib import blake2b

import msgspec
from msgspec import Struct

from epoxy.sim.campaign import DIGEST_BYTES, Campaign, Played, Tally
from epoxy.sim.elect.campaign import Catch
from epoxy.sim.ordered.generate import generate
from epoxy.sim.ordered.mutants import MUTANTS, planted
from epoxy.sim.ordered.plan import AnyPlan
from epoxy.sim.ordered.simulation import Report, run

LIMIT_SEEDS = 3_000
"""Three minutes on one core. A fault that needs longer is one that the simulator does not find."""


class Setup(Struct, frozen=True, kw_only=True):
    n: int | None = None
    mutant: str | None = None

    @property
    def title(self) -> str:
        words = ["ordered"]
        if self.mutant is not None:
            words.append(f"with {self.mutant} planted")
        if self.n is not None:
            words.append(f"n = {self.n}")
        return ", ".join(words)

    def plan(self, seed: int) -> AnyPlan:
        return generate(seed, n=self.n)

    def planted(self) -> AbstractContextManager[None]:
        return planted(self.mutant)

    def play(self, seed: int) -> Played:
        report = run(self.plan(seed))
        return Played(tally=tally_of(report), digest=digest_of(report), failure=report.failure)

    def replay_command(self, seed: int) -> str:
        words = ["epoxy", "sim", "ordered", "--replay", str(seed)]
        if self.n is not None:
            words += ["--n", str(self.n)]
        if self.mutant is not None:
            words += ["--mutant", self.mutant]
        return " ".join(words)


def tally_of(report: Report) -> Tally:
    return Tally(
        runs=1,
        failures=int(report.failure is not None),
        virtual_us=report.virtual_us,
        events=report.events,
        messages=report.messages,
        operations=report.operations,
        paths=report.paths,
        faults=report.faults,
        verdicts=report.verdicts,
    )


def digest_of(report: Report) -> bytes:
    facts = (
        report.failure,
        report.virtual_us,
        report.events,
        report.messages,
        sorted(report.paths.items()),
        sorted(report.faults.items()),
        sorted(report.verdicts.items()),
    )
    return blake2b(msgspec.json.encode(facts), digest_size=DIGEST_BYTES).digest()


def chase(name: str, *, jobs: int = 1, limit_seeds: int = LIMIT_SEEDS) -> Catch:
    mutant = MUTANTS[name]
    summary = Campaign(Setup(mutant=name), mutant.since, mutant.since + limit_seeds, jobs=jobs).run()
    if summary.interrupted:
        raise KeyboardInterrupt
    first = summary.failed[0] if summary.failed else None
    return Catch(
        mutant=name,
        breaks=mutant.breaks,
        tried=summary.tally.runs,
        seed=first.seed if first is not None else None,
        rule=first.rule if first is not None else None,
        replay=first.replay if first is not None else None,
    )
