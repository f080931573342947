"""Mutation testing of single keys and changing members: by simulation, and by visiting every state of small worlds."""

from msgspec.structs import asdict, replace

from epoxy.model.quorum import QuorumPolicy
from epoxy_sim import mutation_testing
from epoxy_sim.keys.exhaustive import Exploration, SmallWorld, explore
from epoxy_sim.members import exhaustive
from epoxy_sim.members.campaign import Setup
from epoxy_sim.members.exhaustive import MembersWorld
from epoxy_sim.members.mutants import MEMBERSHIP, MUTANTS
from epoxy_sim.patching import planted

WORLDS = (
    SmallWorld(n=3, proposers=(1, 2, 3), recoveries=2),
    SmallWorld(n=4, proposers=(1, 2), recoveries=2),
    SmallWorld(n=5, proposers=(1, 2, 3), recoveries=1),
)
"""A few seconds each, to find what simulation has missed."""

FAST_PAXOS = QuorumPolicy.FAST_PAXOS
CHANGES = (
    MembersWorld(old=(1, 2), new=(3,), proposers=(1, 3), recoveries=2),
    MembersWorld(old=(1, 2, 3), new=(1, 2, 3, 4), proposers=(1, 4), recoveries=1),
    MembersWorld(old=(1, 2, 3), new=(1, 2, 4), proposers=(1, 4), recoveries=1, policy=FAST_PAXOS),
    MembersWorld(old=(1, 2, 3), new=(1, 3, 4), proposers=(3, 1), late=(1,), stragglers=(3,), recoveries=2),
)
"""The same for faults in changing members."""


class KeysCatch(mutation_testing.FaultCatch, frozen=True, kw_only=True):
    workload: str


def chase(name: str, *, jobs: int = 1, limit_seeds: int | None = None) -> KeysCatch:
    """By simulation, unless that finds it too rarely; then in small worlds."""
    mutant = MUTANTS[name]
    catch = KeysCatch(mutant=name, breaks=mutant.breaks, workload=mutant.workload, tried=0)
    if not mutant.exhaustive:
        setup = Setup(workload=mutant.workload, mutant=name)
        found = mutation_testing.chase(setup, jobs=jobs, limit_seeds=limit_seeds)
        catch = KeysCatch(**asdict(found), workload=mutant.workload)
    return catch if catch.rule is not None else explore_all(catch)


def explore_all(catch: KeysCatch) -> KeysCatch:
    for world in CHANGES if catch.workload == MEMBERSHIP else WORLDS:
        with planted(MUTANTS, catch.mutant):
            violation = visit(world).violation
        if violation is not None:
            return replace(catch, rule=violation.what, replay=explore_command(world, catch.mutant))
    return catch


def visit(world: SmallWorld | MembersWorld) -> Exploration:
    return explore(world) if isinstance(world, SmallWorld) else exhaustive.explore(world)


def explore_command(world: SmallWorld | MembersWorld, mutant: str) -> str:
    if isinstance(world, MembersWorld):
        return f"epoxy sim exhaustive-members --world {CHANGES.index(world) + 1} --mutant {mutant}"
    size = f"--n {world.n} --proposers {len(world.proposers)} --recoveries {world.recoveries}"
    return f"epoxy sim exhaustive {size} --mutant {mutant}"
