"""`epoxy sim`: deterministic simulation, with checkers that can fail."""

import sys
from typing import Any

import click

from epoxy.cli import elect_sim, ordered_sim, output, placement_sim, show
from epoxy.cli import parameters as options
from epoxy.cli.groups import SETTINGS, Group
from epoxy.cli.mutants import mutants
from epoxy.cli.progress import Watch, watched
from epoxy.cli.soak import soak
from epoxy.model.quorum import QuorumPolicy
from epoxy.sim import exhaustive_members
from epoxy.sim.campaign import AS_DESCRIBED, Campaign, Setup, Summary, digest_of
from epoxy.sim.changing import MEMBERSHIP
from epoxy.sim.exhaustive import World, explore
from epoxy.sim.hunt import CHANGES
from epoxy.sim.mutants import planted
from epoxy.sim.plan import Plan
from epoxy.sim.search import Shrunk
from epoxy.sim.shrink import shrink
from epoxy.sim.simulation import Report, run
from epoxy.sim.words import letters

HELD, VIOLATED, INTERRUPTED = 0, 1, 130


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
      epoxy sim membership --seeds 0..500        members come and go
      epoxy sim per-key --mutant two-fast-votes  plant a fault and watch it being caught
      epoxy sim per-key --replay 4711            one seed, with its full trace
      epoxy sim exhaustive --n 3 --proposers 2   every reachable state of a small world
    """


def campaign_command(
    name: str, seeds: str, *, workload: str, mutant: str | None, short: str, text: str, sized: bool = True
) -> None:
    """One protocol on the command line. `mutant` is planted whatever the user asks for. Not `sized`: each seed draws
    how many replicas there are."""

    def command(**asked: Any) -> None:
        if mutant is not None:
            options.check_plantable()
        setup = Setup(
            workload=workload, n=asked.pop("n", None), policy=asked.pop("policy"), mutant=asked.pop("mutant", mutant)
        )
        sys.exit(simulate(setup, **asked))

    decorators = [
        click.command(name, short_help=short, help=text, context_settings=SETTINGS),
        options.seeds_option(seeds),
        *([options.n_option] if sized else []),
        options.policy_option,
        options.minutes_option,
        click.option("--replay", type=click.IntRange(min=0), metavar="SEED", help="One seed, with its full trace."),
        options.jobs_option,
        click.option("--keep-going", is_flag=True, help="Do not stop at the first failure."),
        options.shrink_option,
        options.json_option,
    ]
    if mutant is None:
        decorators.insert(3, options.mutant_option)
    decorated: Any = command
    for decorate in reversed(decorators):
        decorated = decorate(decorated)
    sim.add_command(decorated)


campaign_command(
    "per-key",
    "0..1000",
    workload="per-key",
    mutant=None,
    short="Immutable keys: races for fresh names.",
    text="""Immutable keys: races for fresh names, mixed keys, reads of all three kinds.

    \b
    Examples:
      epoxy sim per-key --seeds 0..2000
      epoxy sim per-key --n 3 --policy optimal --mutant two-fast-votes
      epoxy sim per-key --replay 4711 --n 3
    """,
)
campaign_command(
    "mutable",
    "0..1000",
    workload="mutable",
    mutant=None,
    short="Mutable keys: overwrites, counters, deletes.",
    text="""Mutable keys: overwrites, compare-and-set counters, deletes, and reservations among them.

    \b
    Examples:
      epoxy sim mutable --seeds 0..2000
      epoxy sim mutable --mutant no-behind
    """,
)
campaign_command(
    MEMBERSHIP,
    "0..500",
    workload=MEMBERSHIP,
    mutant=None,
    sized=False,
    short="Members come and go, under load and faults.",
    text="""Members come and go: growing, shrinking, replacing, two changes at once, a change that is given up; with
    writers on the same keys all the while, and crashes of everybody, the coordinator too.

    \b
    Examples:
      epoxy sim membership --seeds 0..5000
      epoxy sim membership --mutant early-promotion
    """,
)
campaign_command(
    AS_DESCRIBED,
    "0..2000",
    workload="per-key",
    mutant=AS_DESCRIBED,
    short="The protocol as first described: it fails, and this shows how.",
    text="""The protocol as it was first described, which loses acknowledged writes. Exits 1 and shows how.

    \b
    Example:
      epoxy sim as-described
    """,
)


def simulate(
    setup: Setup,
    *,
    seeds: range,
    minutes: float | None,
    replay: int | None,
    jobs: int,
    keep_going: bool,
    shrinking: bool | None,
    as_json: bool,
) -> int:
    if replay is not None:
        return replay_one(setup, replay, shrinking=bool(shrinking), as_json=as_json)
    campaign = Campaign(setup, seeds.start, seeds.stop, jobs=jobs, minutes=minutes, keep_going=keep_going)
    summary = watched(show.title(setup), campaign)
    shrunk = None
    if summary.failed and shrinking is not False and not summary.interrupted:
        shrunk = shrink_plan(setup, setup.plan(summary.failed[0].seed), summary.failed[0].rule)
    tell_campaign(summary, shrunk, as_json=as_json)
    if summary.failed:
        return VIOLATED
    return INTERRUPTED if summary.interrupted else HELD


def shrink_plan(setup: Setup, plan: Plan, rule: str) -> Shrunk[Report]:
    def told(runs: int, best: Plan) -> None:
        watch.tell(runs, f"{runs:,} runs, {best.n} replicas, {best.size} steps and faults left")

    with Watch("shrinking", None) as watch, planted(setup.mutant):
        return shrink(plan, rule, listener=told)


def tell_campaign(summary: Summary[Setup], shrunk: Shrunk[Report] | None, *, as_json: bool) -> None:
    if as_json:
        found = (
            {"runs": shrunk.runs, "complete": shrunk.complete, **show.report_json(shrunk.report)} if shrunk else None
        )
        output.emit_json({**show.summary_json(summary), "shrunk": found})
        return
    show.show_summary(summary)
    if summary.failed:
        first = summary.failed[0]
        show.show_failure(first)
        if shrunk is not None:
            show.show_shrunk(shrunk)
        output.block("Replay with its full trace", [first.replay])


def replay_one(setup: Setup, seed: int, *, shrinking: bool, as_json: bool) -> int:
    plan = setup.plan(seed)
    with planted(setup.mutant):
        report = run(plan, tracing=True)
    shrunk = shrink_plan(setup, plan, report.failure.rule) if shrinking and report.failure else None
    if as_json:
        told = {
            **show.setup_json(setup),
            "seed": seed,
            "held": report.failure is None,
            "digest": digest_of(report).hex(),
        }
        found = (
            {"runs": shrunk.runs, "complete": shrunk.complete, **show.report_json(shrunk.report)} if shrunk else None
        )
        output.emit_json({**told, **show.report_json(report), "shrunk": found})
    else:
        show.show_replay(setup, seed, report)
        if shrunk is not None:
            show.show_shrunk(shrunk)
    return HELD if report.failure is None else VIOLATED


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
    world = World(n=n, proposers=tuple(range(1, proposers + 1)), recoveries=recoveries, policy=policy)
    with output.spinner("visiting every reachable state"), planted(mutant):
        exploration = explore(world)
    words = f"exhaustive, n = {n}, {proposers} proposers, {recoveries} recoveries, {policy.value} quorums"
    if as_json:
        asked = {"n": n, "proposers": proposers, "recoveries": recoveries, "policy": policy, "mutant": mutant}
        output.emit_json({"protocol": "exhaustive", **asked, "held": exploration.complete, "exploration": exploration})
    else:
        show.show_exploration(exploration, f"{words}, with {mutant} planted" if mutant else words)
    if exploration.violation is None and not exploration.complete:
        raise click.ClickException(f"this world is too large: gave up after {exploration.states:,} states")
    sys.exit(HELD if exploration.violation is None else VIOLATED)


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
    with output.spinner("visiting every reachable state"), planted(mutant):
        exploration = exhaustive_members.explore(world)
    words = f"exhaustive, from {letters(world.old)} to {letters(world.new)}, {world.policy.value} quorums"
    if as_json:
        output.emit_json({"world": world, "mutant": mutant, "held": exploration.complete, "exploration": exploration})
    else:
        show.show_exploration(exploration, f"{words}, with {mutant} planted" if mutant else words)
    sys.exit(HELD if exploration.complete else VIOLATED)


sim.add_command(soak)
sim.add_command(mutants)
sim.add_command(elect_sim.elect)
sim.add_command(elect_sim.as_described)
sim.add_command(elect_sim.elect_mutants)
sim.add_command(ordered_sim.ordered)
sim.add_command(ordered_sim.ordered_mutants)
sim.add_command(placement_sim.placement)
sim.add_command(placement_sim.placement_mutants)
