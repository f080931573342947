"""`epoxy sim elect`, `elect-as-described` and `elect-mutants`: elections in virtual time."""

import sys
from textwrap import indent
from typing import Any

import click

from epoxy.cli import output, show
from epoxy.cli import parameters as options
from epoxy.cli.groups import SETTINGS, refuse
from epoxy.cli.progress import Watch, watched
from epoxy.sim.campaign import Campaign, Failed, Summary
from epoxy.sim.elect.campaign import Catch, Setup, chase, digest_of
from epoxy.sim.elect.mutants import AS_DESCRIBED, MUTANTS, planted
from epoxy.sim.elect.plan import Plan
from epoxy.sim.elect.shrink import shrink
from epoxy.sim.elect.simulation import Report, run
from epoxy.sim.elect.words import condense, describe
from epoxy.sim.search import Shrunk

HELD, VIOLATED, INTERRUPTED = 0, 1, 130
LISTED = ("mutant", "what it breaks")
CAUGHT = (*LISTED, "caught by", "where", "after runs")


class MutantName(click.ParamType[str]):
    name = "NAME"

    def convert(self, value: Any, *_: object) -> str:
        if value not in MUTANTS:
            refuse(value, "mutant", list(MUTANTS))
        return str(value)


def common(command: Any) -> Any:
    for decorate in (
        options.json_option,
        options.shrink_option,
        click.option("--keep-going", is_flag=True, help="Do not stop at the first failure."),
        options.jobs_option,
        click.option("--replay", type=click.IntRange(min=0), metavar="SEED", help="One seed, with its full trace."),
        click.option("--n", type=click.IntRange(1, 9), metavar="N", help="Nodes; drawn by each seed if not given."),
    ):
        command = decorate(command)
    return command


@click.command("elect", context_settings=SETTINGS, short_help="Elections: one primary, leases, fencing.")
@options.seeds_option("0..1000")
@click.option("--mutant", type=MutantName(), help="Plant a fault; `epoxy sim elect-mutants` lists them.")
@common
def elect(mutant: str | None, n: int | None, **asked: Any) -> None:
    """Elections over servers that replicate by themselves: kills, restarts with and without a disk, pauses, partitions,
    clocks that drift, planned handovers.

    \b
    Examples:
      epoxy sim elect --seeds 0..5000
      epoxy sim elect --n 3 --mutant 5-no-lease
      epoxy sim elect --replay 4711
    """
    sys.exit(simulate(Setup(n=n, mutant=mutant), **asked))


@click.command(AS_DESCRIBED, context_settings=SETTINGS, short_help="Elections as first described: they break.")
@options.seeds_option("0..1000")
@common
def as_described(n: int | None, **asked: Any) -> None:
    """Elections as the original text has them. Exits 1 and shows how they break.

    \b
    Example:
      epoxy sim elect-as-described --n 3
    """
    sys.exit(simulate(Setup(n=n, mutant=AS_DESCRIBED), **asked))


@click.command("elect-mutants", context_settings=SETTINGS, short_help="The planted faults of elections.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--check", is_flag=True, help="Run each until a checker catches it; exit 1 if one survives.")
@click.option("--markdown", is_flag=True, help="Print the table as it stands in docs/testing.md.")
@options.jobs_option
@options.json_option
def elect_mutants(names: tuple[str, ...], check: bool, markdown: bool, jobs: int, as_json: bool) -> None:
    """The planted faults of elections: each breaks one rule by name, and every one must be caught.

    \b
    Examples:
      epoxy sim elect-mutants
      epoxy sim elect-mutants --check 5-no-lease 6-offsets-alone
    """
    for name in names:
        if name not in MUTANTS:
            refuse(name, "mutant", list(MUTANTS))
    chosen = list(names or MUTANTS)
    catches = chase_all(chosen, jobs) if check else []
    listed = [{"mutant": name, "breaks": MUTANTS[name].breaks} for name in chosen]
    if as_json:
        output.emit_json(catches if check else listed)
    else:
        rows = [caught_row(catch) for catch in catches] if check else [tuple(each.values()) for each in listed]
        print_table(CAUGHT if check else LISTED, rows, markdown=markdown)
    sys.exit(VIOLATED if any(catch.rule is None for catch in catches) else HELD)


def chase_all(names: list[str], jobs: int) -> list[Catch]:
    catches: list[Catch] = []
    with Watch("mutants", len(names)) as watch:
        for name in names:
            catches.append(chase(name, jobs=jobs))
            watch.tell(len(catches), f"{name}: {catches[-1].rule or 'SURVIVED'}")
    return catches


def caught_row(catch: Catch) -> tuple[str, ...]:
    where = f"seed {catch.seed}" if catch.seed is not None else "nowhere"
    return catch.mutant, catch.breaks, catch.rule or "SURVIVED", where, f"{catch.tried:,}"


def print_table(heads: tuple[str, ...], rows: list[tuple[str, ...]], *, markdown: bool) -> None:
    if not markdown:
        output.table(heads, rows)
        return
    for cells in (heads, ("---",) * len(heads), *rows):
        click.echo(f"| {' | '.join(cells)} |")


def simulate(
    setup: Setup,
    *,
    seeds: range,
    replay: int | None,
    jobs: int,
    keep_going: bool,
    shrinking: bool | None,
    as_json: bool,
) -> int:
    if replay is not None:
        return replay_one(setup, replay, as_json=as_json)
    summary = watched(setup.title, Campaign(setup, seeds.start, seeds.stop, jobs=jobs, keep_going=keep_going))
    shrunk = None
    if summary.failed and shrinking is not False and not summary.interrupted:
        shrunk = shrink_plan(setup, setup.plan(summary.failed[0].seed), summary.failed[0].rule)
    if as_json:
        output.emit_json({**summary_json(summary), "shrunk": shrunk_json(shrunk)})
    else:
        show_summary(summary, shrunk)
    if summary.failed:
        return VIOLATED
    return INTERRUPTED if summary.interrupted else HELD


def shrink_plan(setup: Setup, plan: Plan, rule: str) -> Shrunk[Report]:
    def told(runs: int, best: Plan) -> None:
        watch.tell(runs, f"{runs:,} runs, {best.n} nodes, {best.size} faults left")

    with Watch("shrinking", None) as watch, planted(setup.mutant):
        return shrink(plan, rule, listener=told)


def replay_one(setup: Setup, seed: int, *, as_json: bool) -> int:
    with planted(setup.mutant):
        report = run(setup.plan(seed), tracing=True)
    if as_json:
        told = {"protocol": setup.protocol, "mutant": setup.mutant, "seed": seed, "held": report.failure is None}
        output.emit_json({**told, "digest": digest_of(report).hex(), **report_json(report)})
    else:
        show_report(report)
        click.echo()
        show.headline(f"{setup.title}, seed {seed}", held=report.failure is None)
    return HELD if report.failure is None else VIOLATED


def show_summary(summary: Summary[Setup], shrunk: Shrunk[Report] | None) -> None:
    tally = summary.tally
    seeds = f"seeds {summary.first_seed}..{summary.first_seed + tally.runs}"
    if summary.interrupted:
        seeds = f"interrupted, {tally.runs:,} runs from seed {summary.first_seed}"
    show.headline(f"{summary.setup.title}, {seeds}", held=not summary.failed)
    rate = show.hours_per_minute(tally, summary.real_seconds)
    output.row("runs", f"{tally.runs:,} in {summary.real_seconds:,.1f} s")
    output.row("virtual time", f"{tally.virtual_hours:,.2f} h: {rate:,.2f} virtual hours for each real minute")
    output.row("messages", f"{tally.messages:,}")
    output.row("writes", f"{tally.operations:,} tried, {tally.paths.get('acknowledged', 0):,} acknowledged")
    output.row(
        "primaries", f"{tally.verdicts.get('elections', 0):,} elected, {tally.verdicts.get('openings', 0):,} opened"
    )
    output.row("faults", show.counts(tally.faults))
    if summary.digest is not None:
        output.row("digest", summary.digest)
    if summary.failed:
        show_failure(summary.failed[0], shrunk)


def show_failure(failed: Failed, shrunk: Shrunk[Report] | None) -> None:
    show.show_failure(failed)
    if shrunk is not None:
        how = "" if shrunk.complete else ", as far as the limit of the search allowed"
        output.block(f"A small plan that breaks the same rule ({shrunk.runs:,} runs tried{how})", [])
        show_report(shrunk.report)
    output.block("Replay with its full trace", [failed.replay])


def show_report(report: Report) -> None:
    output.block("The plan", describe(report.plan))
    output.block("What happens", condense(report.trace or []))
    if report.failure is not None:
        click.secho(indent(f"=> {report.failure.rule}: {report.failure.detail}", "  "), fg="red")


def summary_json(summary: Summary[Setup]) -> dict[str, Any]:
    setup = summary.setup
    return {
        "protocol": setup.protocol,
        "n": setup.n,
        "mutant": setup.mutant,
        "first_seed": summary.first_seed,
        "held": not summary.failed,
        "interrupted": summary.interrupted,
        "digest": summary.digest,
        "failed": summary.failed,
        **show.tally_json(summary.tally, summary.real_seconds),
    }


def shrunk_json(shrunk: Shrunk[Report] | None) -> dict[str, Any] | None:
    if shrunk is None:
        return None
    return {"runs": shrunk.runs, "complete": shrunk.complete, **report_json(shrunk.report)}


def report_json(report: Report) -> dict[str, Any]:
    return {
        "failure": report.failure,
        "plan": report.plan,
        "plan_in_words": describe(report.plan),
        "trace": report.trace,
    }
