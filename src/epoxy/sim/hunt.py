"""Does anybody notice? Every planted fault is run until a checker catches it."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from epoxy.sim.campaign import Campaign, Setup
from epoxy.sim.mutants import MUTANTS, Mutant

LIMIT_SEEDS = 2_000
"""A fault that two thousand seeds do not show is one that the simulator does not find."""


class Catch(Struct, frozen=True, kw_only=True):
    """What became of one fault. No rule: it survived."""

    mutant: str
    breaks: str
    workload: str
    runs: int
    seed: int | None = None
    rule: str | None = None
    replay: str | None = None


def hunt(names: Iterable[str], *, jobs: int, limit_seeds: int = LIMIT_SEEDS) -> Iterator[Catch]:
    for name in names:
        yield chase(MUTANTS[name], jobs, limit_seeds)


def chase(mutant: Mutant, jobs: int, limit_seeds: int) -> Catch:
    setup = Setup(workload=mutant.workload, mutant=mutant.name)
    summary = Campaign(setup, 0, limit_seeds, jobs=jobs).run()
    if summary.interrupted:
        raise KeyboardInterrupt
    caught = summary.failed[0] if summary.failed else None
    return Catch(
        mutant=mutant.name,
        breaks=mutant.breaks,
        workload=mutant.workload,
        runs=summary.tally.runs,
        seed=caught.seed if caught else None,
        rule=caught.rule if caught else None,
        replay=caught.replay if caught else None,
    )
