"""`epoxy sim`: deterministic simulation, with checkers that can fail."""

import sys

import click

from epoxy.cli import output
from epoxy.cli.groups import SETTINGS, Group
from epoxy.cli.sim import datacenter, elect, keys, leases, placement, results, store, txn
from epoxy.cli.sim import parameters as options
from epoxy.cli.sim.campaigns import HELD, VIOLATED
from epoxy.cli.sim.mutants import mutants
from epoxy.cli.sim.soak import soak
from epoxy.model.quorum import QuorumPolicy
from epoxy_sim.keys.exhaustive import SmallWorld, explore
from epoxy_sim.keys.exhaustive_folds import FOLD_WORLDS
from epoxy_sim.members import exhaustive as exhaustive_members
from epoxy_sim.members.mutants import MUTANTS
from epoxy_sim.members.mutation_testing import CHANGES
from epoxy_sim.patching import planted
from epoxy_sim.trace_format import letters


@click.group(cls=Group, context_settings=SETTINGS)
def sim() -> None:
    """Deterministic simulation of a protocol, with checkers.

    The production code runs in virtual time over a network, disks and clocks that fail. Every run is a pure function of
    its seed. A failure is shrunk to a short trace and printed with the command that replays it.

    Exit status: 0 all promises held, 1 one was violated, 2 wrong usage, 130 interrupted.

    \b
    Examples:
      epoxy sim per-key --seeds 0..2000          two thousand seeds on all cores
      epoxy sim mutable --n 5 --minutes 10       five replicas, for ten minutes
      epoxy sim hot --seeds 0..500               many clients on one key or two
      epoxy sim membership --seeds 0..500        members come and go
      epoxy sim rot --seeds 0..500               rows of the disks rot
      epoxy sim leases --seeds 0..500            locks and values that end
      epoxy sim datacenter --seeds 0..500        nodes that share a database
      epoxy sim per-key --mutant two-fast-votes  plant a fault and watch it being caught
      epoxy sim per-key --replay 4711            one seed, with its full trace
      epoxy sim exhaustive --n 3 --proposers 2   every reachable state of a small world
    """


@sim.command(context_settings=SETTINGS, short_help="Every reachable state of a small world.")
@click.option("--n", type=click.IntRange(1, 5), default=3, show_default=True, metavar="N", help="Replicas.")
@click.option(
    "--proposers", type=click.IntRange(1, 3), default=3, show_default=True, metavar="K", help="Rival writers."
)
@click.option(
    "--recoveries", type=click.IntRange(0, 4), default=2, show_default=True, metavar="R", help="Classic ballots in all."
)
@click.option(
    "--policy",
    type=options.Policy(),
    metavar=options.Policy.name,
    default="optimal",
    show_default=True,
    help="Quorum sizes.",
)
@options.mutant_option
@options.json_option
def exhaustive(
    n: int, proposers: int, recoveries: int, policy: QuorumPolicy, mutant: str | None, as_json: bool
) -> None:
    """Every reachable state of a small world: one key, N replicas, K rival writers, R recoveries.

    \b
    Examples:
      epoxy sim exhaustive
      epoxy sim exhaustive --n 5 --proposers 2 --recoveries 1
      epoxy sim exhaustive --n 4 --mutant recover-highest-ballot
    """
    if proposers > n:
        raise click.UsageError(f"{proposers} proposers do not fit on {n} replicas: each writes at a replica of its own")
    world = SmallWorld(n=n, proposers=tuple(range(1, proposers + 1)), recoveries=recoveries, policy=policy)
    with output.spinner("visiting every reachable state"), planted(MUTANTS, mutant):
        exploration = explore(world)
    words = f"exhaustive, n = {n}, {proposers} proposers, {recoveries} recoveries, {policy.value} quorums"
    if as_json:
        asked = {"n": n, "proposers": proposers, "recoveries": recoveries, "policy": policy, "mutant": mutant}
        output.emit_json({"protocol": "exhaustive", **asked, "held": exploration.complete, "exploration": exploration})
    else:
        results.show_exploration(exploration, f"{words}, with {mutant} planted" if mutant else words)
    if exploration.violation is None and not exploration.complete:
        raise click.ClickException(f"this world is too large: gave up after {exploration.states:,} states")
    sys.exit(HELD if exploration.violation is None else VIOLATED)


@sim.command("exhaustive-folds", context_settings=SETTINGS, short_help="The same, with folds and Carries.")
@click.option(
    "--world",
    "number",
    type=click.IntRange(1, len(FOLD_WORLDS)),
    default=1,
    show_default=True,
    metavar="W",
    help=f"Which of the {len(FOLD_WORLDS)} worlds of docs/testing.md.",
)
@options.mutant_option
@options.json_option
def exhaustive_folds(number: int, mutant: str | None, as_json: bool) -> None:
    """Every reachable state of a small world whose homes fold several writes, and hand writes over to each other.

    \b
    Examples:
      epoxy sim exhaustive-folds
      epoxy sim exhaustive-folds --world 5
    """
    world = FOLD_WORLDS[number - 1]
    with output.spinner("visiting every reachable state"), planted(MUTANTS, mutant):
        exploration = explore(world)
    words = f"exhaustive, n = {world.n}, folds of {len(world.writes)} writes, {world.carries} Carries"
    if as_json:
        output.emit_json({"world": world, "mutant": mutant, "held": exploration.complete, "exploration": exploration})
    else:
        results.show_exploration(exploration, f"{words}, with {mutant} planted" if mutant else words)
    sys.exit(HELD if exploration.complete else VIOLATED)


@sim.command("exhaustive-members", context_settings=SETTINGS, short_help="The same, while members change.")
@click.option(
    "--world",
    "number",
    type=click.IntRange(1, len(CHANGES)),
    default=1,
    show_default=True,
    metavar="W",
    help=f"Which of the {len(CHANGES)} worlds.",
)
@options.mutant_option
@options.json_option
def exhaustive_members_command(number: int, mutant: str | None, as_json: bool) -> None:
    """Every reachable state of a small world whose members change: one key, two rival writers, a joint epoch.

    \b
    Examples:
      epoxy sim exhaustive-members
      epoxy sim exhaustive-members --world 4 --mutant sealed-classic-votes-count
    """
    world = CHANGES[number - 1]
    with output.spinner("visiting every reachable state"), planted(MUTANTS, mutant):
        exploration = exhaustive_members.explore(world)
    words = f"exhaustive, from {letters(world.old)} to {letters(world.new)}, {world.policy.value} quorums"
    if as_json:
        output.emit_json({"world": world, "mutant": mutant, "held": exploration.complete, "exploration": exploration})
    else:
        results.show_exploration(exploration, f"{words}, with {mutant} planted" if mutant else words)
    sys.exit(HELD if exploration.complete else VIOLATED)


for command in (
    *(keys.per_key, keys.mutable, keys.hot, keys.membership, keys.rot, keys.as_described, soak, mutants),
    *(elect.elect, elect.as_described, elect.elect_mutants),
    *(txn.ordered, txn.ordered_mutants, placement.placement, placement.placement_mutants),
    *(store.store, store.store_mutants, leases.leases, leases.leases_mutants),
    *(datacenter.datacenter, datacenter.datacenter_mutants),
):
    sim.add_command(command)
