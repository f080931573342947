"""`epoxy sim ordered` and `ordered-mutants`: transactions in virtual time, and without time."""

import sys
from textwrap import indent
from typing import Any

import click

from epoxy.cli import output, show
from epoxy.cli import parameters as options
from epoxy.cli.elect_sim import CAUGHT, HELD, INTERRUPTED, LISTED, VIOLATED, caught_row, print_table
from epoxy.cli.groups import SETTINGS, refuse
from epoxy.cli.progress import Watch, watched
from epoxy.sim.campaign import Campaign, Summary
from epoxy.sim.describe import condense
from epoxy.sim.ordered.campaign import Setup, chase, digest_of
from epoxy.sim.ordered.mutants import MUTANTS, planted
from epoxy.sim.ordered.plan import AnyPlan
from epoxy.sim.ordered.shrink import shrink
from epoxy.sim.ordered.simulation import Report, run
from epoxy.sim.ordered.words import describe
from epoxy.sim.search import Shrunk


class MutantName(click.ParamType[str]):
    name = "NAME"

    def convert(self, value: Any, *_: object) -> str:
        if value not in MUTANTS:
            refuse(value, "mutant", list(MUTANTS))
        return str(value)


@click.command("ordered", context_settings=SETTINGS, short_help="Transactions over several keys: EPaxos*.")
@options.seeds_option("0..1000")
@click.option("--mutant", type=MutantName(), help="Plant a fault; `epoxy sim ordered-mutants` lists them.")
@click.option("--n", type=click.IntRange(1, 9), metavar="N", help="Replicas; drawn by each seed if not given.")
@click.option("--replay", type=click.IntRange(min=0), metavar="SEED", help="One seed, with its full trace.")
@click.option("--keep-going", is_flag=True, help="Do not stop at the first failure.")
@options.jobs_option
@options.shrink_option
@options.json_option
def ordered(mutant: str | None, n: int | None, replay: int | None, as_json: bool, **asked: Any) -> None:
    """Transactions of the ordered engine: transfers between accounts and anything else, coordinators that crash at
    every step, partitions, slow disks. Agreement, visibility, one order of execution, strict serializability, and a
    total that never changes.

    \b
    Examples:
      epoxy sim ordered --seeds 0..5000
      epoxy sim ordered --n 5 --mutant single-ballot
      epoxy sim ordered --replay 4711
    """
    if mutant is not None:
        options.check_plantable()
    setup = Setup(n=n, mutant=mutant)
    sys.exit(replay_one(setup, replay, as_json) if replay is not None else simulate(setup, as_json=as_json, **asked))


@click.command("ordered-mutants", context_settings=SETTINGS, short_help="The planted faults of the ordered engine.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--check", is_flag=True, help="Run each until a checker catches it; exit 1 if one survives.")
@click.option("--markdown", is_flag=True, help="Print the table as it stands in docs/testing.md.")
@options.jobs_option
@options.json_option
def ordered_mutants(names: tuple[str, ...], check: bool, markdown: bool, jobs: int, as_json: bool) -> None:
    """The planted faults of the ordered engine: each breaks one rule by name, and every one must be caught.

    \b
    Examples:
      epoxy sim ordered-mutants
      epoxy sim ordered-mutants --check single-ballot skip-validate
    """
    for name in names:
        if name not in MUTANTS:
            refuse(name, "mutant", list(MUTANTS))
    if check:
        options.check_plantable()
    chosen = list(names or MUTANTS)
    catches = []
    with Watch("mutants", len(chosen)) as watch:
        for name in chosen if check else ():
            catches.append(chase(name, jobs=jobs))
            watch.tell(len(catches), f"{name}: {catches[-1].rule or 'SURVIVED'}")
    listed = [{"mutant": name, "breaks": MUTANTS[name].breaks} for name in chosen]
    if as_json:
        output.emit_json(catches if check else listed)
    else:
        rows = [caught_row(catch) for catch in catches] if check else [tuple(each.values()) for each in listed]
        print_table(CAUGHT if check else LISTED, rows, markdown=markdown)
    sys.exit(VIOLATED if any(catch.rule is None for catch in catches) else HELD)


def simulate(setup: Setup, *, seeds: range, jobs: int, keep_going: bool, shrinking: bool | None, as_json: bool) -> int:
    summary = watched(setup.title, Campaign(setup, seeds.start, seeds.stop, jobs=jobs, keep_going=keep_going))
    shrunk = None
    if summary.failed and shrinking is not False and not summary.interrupted:
        shrunk = shrink_plan(setup, setup.plan(summary.failed[0].seed), summary.failed[0].rule)
    if as_json:
        output.emit_json(summary_json(summary, shrunk))
    else:
        show_summary(summary, shrunk)
    if summary.failed:
        return VIOLATED
    return INTERRUPTED if summary.interrupted else HELD


def shrink_plan(setup: Setup, plan: AnyPlan, rule: str) -> Shrunk[Report]:
    def told(runs: int, best: AnyPlan) -> None:
        watch.tell(runs, f"{runs:,} runs, {best.size} parts left")

    with Watch("shrinking", None) as watch, planted(setup.mutant):
        return shrink(plan, rule, listener=told)


def replay_one(setup: Setup, seed: int, as_json: bool) -> int:
    with planted(setup.mutant):
        report = run(setup.plan(seed), tracing=True)
    held = report.failure is None
    if as_json:
        told = {"protocol": "ordered", "mutant": setup.mutant, "seed": seed, "held": held}
        output.emit_json({**told, "digest": digest_of(report).hex(), **report_json(report)})
    else:
        show_report(report)
        click.echo()
        show.headline(f"{setup.title}, seed {seed}", held=held)
    return HELD if held else VIOLATED


def show_summary(summary: Summary[Setup], shrunk: Shrunk[Report] | None) -> None:
    tally = summary.tally
    show.headline(
        f"{summary.setup.title}, seeds {summary.first_seed}..{summary.first_seed + tally.runs}", held=not summary.failed
    )
    output.row("runs", f"{tally.runs:,} in {summary.real_seconds:,.1f} s")
    output.row("messages", f"{tally.messages:,}")
    answered = tally.verdicts.get("answered", 0)
    output.row("transactions", f"{tally.operations:,} asked for, {answered:,} answered in virtual time")
    output.row(
        "instances", f"{tally.verdicts.get('decided', 0):,} decided, {tally.verdicts.get('nothing', 0):,} to be nothing"
    )
    if tally.fast_share is not None:
        output.row("fast", f"{tally.fast_share:.0%} of those decided by their coordinators")
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
    setup = summary.setup
    return {
        "protocol": "ordered",
        "n": setup.n,
        "mutant": setup.mutant,
        "first_seed": summary.first_seed,
        "held": not summary.failed,
        "interrupted": summary.interrupted,
        "digest": summary.digest,
        "failed": summary.failed,
        **show.tally_json(summary.tally, summary.real_seconds),
        "shrunk": None if shrunk is None else {"runs": shrunk.runs, **report_json(shrunk.report)},
    }


def report_json(report: Report) -> dict[str, Any]:
    return {"failure": report.failure, "plan_in_words": describe(report.plan), "trace": report.trace}
