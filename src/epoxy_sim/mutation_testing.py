"""Does anybody notice? Every planted fault is run until a checker catches it."""

from epoxy.model.quorum import QuorumPolicy
from epoxy_sim import protocols
from epoxy_sim.campaign import Campaign
from epoxy_sim.keys.campaign import Setup
from epoxy_sim.keys.exhaustive import Exploration, SmallWorld, explore
from epoxy_sim.keys.mutants import MUTANTS, KeysMutant, planted
from epoxy_sim.members import exhaustive
from epoxy_sim.members.plans.churn import MEMBERSHIP

LIMIT_SEEDS = 5_000
"""A minute. A fault that needs longer than that is one that the simulator does not find."""

WORLDS = (
    SmallWorld(n=3, proposers=(1, 2, 3), recoveries=2),
    SmallWorld(n=4, proposers=(1, 2), recoveries=2),
    SmallWorld(n=5, proposers=(1, 2, 3), recoveries=1),
)
"""What simulation has missed is looked for here, in every reachable state: a few seconds each."""

FAST_PAXOS = QuorumPolicy.FAST_PAXOS
CHANGES = (
    exhaustive.MembersWorld(old=(1, 2), new=(3,), proposers=(1, 3), recoveries=2),
    exhaustive.MembersWorld(old=(1, 2, 3), new=(1, 2, 3, 4), proposers=(1, 4), recoveries=1),
    exhaustive.MembersWorld(old=(1, 2, 3), new=(1, 2, 4), proposers=(1, 4), recoveries=1, policy=FAST_PAXOS),
    exhaustive.MembersWorld(old=(1, 2, 3), new=(1, 3, 4), proposers=(3, 1), late=(1,), stragglers=(3,), recoveries=2),
)
"""And here, if it is a fault in changing members."""


class KeysCatch(protocols.FaultCatch, frozen=True, kw_only=True):
    workload: str


def chase(name: str, *, jobs: int = 1, limit_seeds: int = LIMIT_SEEDS) -> KeysCatch:
    """By simulation, and where chance has no chance by visiting small worlds."""
    mutant = MUTANTS[name]
    if mutant.exhaustive:
        return explore_all(mutant, 0)
    summary = Campaign(Setup(workload=mutant.workload, mutant=name), 0, limit_seeds, jobs=jobs).run()
    if summary.failed:
        first = summary.failed[0]
        return caught(mutant, summary.tally.runs, seed=first.seed, rule=first.rule, replay=first.replay)
    if summary.interrupted:
        raise KeyboardInterrupt
    return explore_all(mutant, summary.tally.runs)


def caught(
    mutant: KeysMutant, tried: int, *, rule: str | None, replay: str | None, seed: int | None = None
) -> KeysCatch:
    return KeysCatch(
        mutant=mutant.name,
        breaks=mutant.breaks,
        workload=mutant.workload,
        tried=tried,
        seed=seed,
        rule=rule,
        replay=replay,
    )


def explore_all(mutant: KeysMutant, tried: int) -> KeysCatch:
    for world in CHANGES if mutant.workload == MEMBERSHIP else WORLDS:
        with planted(mutant.name):
            violation = visit(world).violation
        if violation is not None:
            return caught(mutant, tried, rule=violation.what, replay=explore_command(world, mutant.name))
    return caught(mutant, tried, rule=None, replay=None)


def visit(world: SmallWorld | exhaustive.MembersWorld) -> Exploration:
    return explore(world) if isinstance(world, SmallWorld) else exhaustive.explore(world)


def explore_command(world: SmallWorld | exhaustive.MembersWorld, mutant: str) -> str:
    if isinstance(world, exhaustive.MembersWorld):
        return f"epoxy sim exhaustive-members --world {CHANGES.index(world) + 1} --mutant {mutant}"
    size = f"--n {world.n} --proposers {len(world.proposers)} --recoveries {world.recoveries}"
    return f"epoxy sim exhaustive {size} --mutant {mutant}"
