"""`epoxy sim placement` and `placement-mutants`: actors and envoys in virtual time."""

import sys
from textwrap import indent
from typing import Any

import click

from epoxy.cli import output, show
from epoxy.cli import parameters as options
from epoxy.cli.groups import SETTINGS, refuse
from epoxy.cli.progress import Watch, watched
from epoxy.sim.campaign import Campaign, Summary
from epoxy.sim.placement.campaign import Catch, Setup, chase, digest_of
from epoxy.sim.placement.mutants import MUTANTS
from epoxy.sim.placement.plan import Plan
from epoxy.sim.placement.shrink import shrink
from epoxy.sim.placement.simulation import Report, run
from epoxy.sim.placement.words import condense, describe
from epoxy.sim.search import Shrunk

HELD, VIOLATED, INTERRUPTED = 0, 1, 130
LISTED = ("mutant", "what it breaks")
CAUGHT = (*LISTED, "caught by", "where", "after runs")


class MutantName(click.ParamType[str]):
    name = "NAME"

    def convert(self, value: Any, *_: object) -> str:
        if value not in MUTANTS:
            refuse(value, "mutant", list(MUTANTS))
        options.check_plantable()
        return str(value)


@click.command("placement", context_settings=SETTINGS, short_help="Actors: one for a name, on one envoy.")
@options.seeds_option("0..500")
@click.option("--mutant", type=MutantName(), help="Plant a fault; `epoxy sim placement-mutants` lists them.")
@click.option("--n", type=click.IntRange(1, 9), metavar="N", help="Datacenters; drawn by each seed if not given.")
@click.option("--replay", type=click.IntRange(min=0), metavar="SEED", help="One seed, with its full trace.")
@options.jobs_option
@click.option("--keep-going", is_flag=True, help="Do not stop at the first failure.")
@options.shrink_option
@options.json_option
def placement(
    seeds: range,
    mutant: str | None,
    n: int | None,
    replay: int | None,
    jobs: int,
    keep_going: bool,
    shrinking: bool | None,
    as_json: bool,
) -> None:
    """Every datacenter asks for the same names at once, while nodes crash, networks part and envoys are killed, cut off
    and drained. One actor for a name, run by one envoy at a time, found by everybody when all is calm.

    \b
    Examples:
      epoxy sim placement --seeds 0..2000
      epoxy sim placement --mutant no-fence
      epoxy sim placement --replay 4711
    """
    setup = Setup(n=n, mutant=mutant)
    if replay is not None:
        sys.exit(replay_one(setup, replay, as_json=as_json))
    summary = watched(setup.title, Campaign(setup, seeds.start, seeds.stop, jobs=jobs, keep_going=keep_going))
    shrunk = None
    if summary.failed and shrinking is not False and not summary.interrupted:
        shrunk = shrink_plan(setup, setup.plan(summary.failed[0].seed), summary.failed[0].rule)
    if as_json:
        output.emit_json(summary_json(summary, shrunk))
    else:
        show_summary(summary, shrunk)
    sys.exit(VIOLATED if summary.failed else INTERRUPTED if summary.interrupted else HELD)


@click.command("placement-mutants", context_settings=SETTINGS, short_help="The planted faults of placement.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--check", is_flag=True, help="Run each until a checker catches it; exit 1 if one survives.")
@click.option("--markdown", is_flag=True, help="Print the table as it stands in docs/testing.md.")
@options.jobs_option
@options.json_option
def placement_mutants(names: tuple[str, ...], check: bool, markdown: bool, jobs: int, as_json: bool) -> None:
    """The planted faults of placement: each breaks one rule by name, and every one must be caught.

    \b
    Examples:
      epoxy sim placement-mutants
      epoxy sim placement-mutants --check no-fence same-id
    """
    for name in names:
        if name not in MUTANTS:
            refuse(name, "mutant", list(MUTANTS))
    if check:
        options.check_plantable()
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


def shrink_plan(setup: Setup, plan: Plan, rule: str) -> Shrunk[Report]:
    def told(runs: int, best: Plan) -> None:
        watch.tell(runs, f"{runs:,} runs, {best.size} steps and faults left")

    with Watch("shrinking", None) as watch, setup.planted():
        return shrink(plan, rule, listener=told)


def replay_one(setup: Setup, seed: int, *, as_json: bool) -> int:
    with setup.planted():
        report = run(setup.plan(seed), tracing=True)
    if as_json:
        output.emit_json({"seed": seed, "digest": digest_of(report).hex(), **report_json(report)})
    else:
        show_report(report)
        click.echo()
        show.headline(f"{setup.title}, seed {seed}", held=report.failure is None)
    return HELD if report.failure is None else VIOLATED


def show_summary(summary: Summary[Setup], shrunk: Shrunk[Report] | None) -> None:
    tally = summary.tally
    show.headline(
        f"{summary.setup.title}, seeds {summary.first_seed}..{summary.first_seed + tally.runs}", held=summary.held
    )
    output.row("runs", f"{tally.runs:,} in {summary.real_seconds:,.1f} s")
    rate = show.hours_per_minute(tally, summary.real_seconds)
    output.row("virtual time", f"{tally.virtual_hours:,.2f} h: {rate:,.2f} virtual hours for each real minute")
    output.row("messages", f"{tally.messages:,}")
    output.row("answers", show.counts(tally.paths))
    output.row("faults", show.counts(tally.faults))
    if summary.digest is not None:
        output.row("digest", summary.digest)
    if summary.failed:
        show.show_failure(summary.failed[0])
        if shrunk is not None:
            output.block(f"A small plan that breaks the same rule ({shrunk.runs:,} runs tried)", [])
            show_report(shrunk.report)
        output.block("Replay with its full trace", [summary.failed[0].replay])


def show_report(report: Report) -> None:
    output.block("The plan", describe(report.plan))
    output.block("What happens", condense(report.trace or []))
    if report.failure is not None:
        click.secho(indent(f"=> {report.failure.rule}: {report.failure.detail}", "  "), fg="red")


def summary_json(summary: Summary[Setup], shrunk: Shrunk[Report] | None) -> dict[str, Any]:
    return {
        "protocol": "placement",
        "n": summary.setup.n,
        "mutant": summary.setup.mutant,
        "first_seed": summary.first_seed,
        "held": summary.held,
        "interrupted": summary.interrupted,
        "digest": summary.digest,
        "failed": summary.failed,
        **show.tally_json(summary.tally, summary.real_seconds),
        "shrunk": None if shrunk is None else {"runs": shrunk.runs, **report_json(shrunk.report)},
    }


def report_json(report: Report) -> dict[str, Any]:
    return {
        "failure": report.failure,
        "plan": report.plan,
        "plan_in_words": describe(report.plan),
        "trace": report.trace,
    }
