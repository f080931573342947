"""A protocol on the command line: many seeds, or one with its full trace, and its planted faults."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from textwrap import indent
from typing import Any, Generic
from typing import Protocol as Shape

import click
from msgspec import Struct

from epoxy.cli import output, show
from epoxy.cli import parameters as options
from epoxy.cli.groups import SETTINGS
from epoxy.cli.mutants import mutants_command
from epoxy.cli.progress import Watch, watched
from epoxy.sim.campaign import Campaign, Summary, Tally
from epoxy.sim.protocols import R, Setup, chase
from epoxy.sim.search import Listener, P, Shrunk

HELD, VIOLATED, INTERRUPTED = 0, 1, 130


class Shrink(Shape[P, R]):
    def __call__(self, plan: P, rule: str, *, listener: Listener[P] | None = None) -> Shrunk[R]: ...


class Stage(Struct, Generic[P, R], frozen=True, kw_only=True):
    """What is played, and how it is told: `describe` a plan, `condense` a trace, `left` of a plan that is being shrunk,
    `rows` that say what campaigns of this protocol are about."""

    setup: type[Setup[P, R]]
    shrink: Shrink[P, R]
    describe: Callable[[P], list[str]]
    condense: Callable[[list[str]], list[str]]
    left: Callable[[P], str]
    rows: Callable[[Tally, float], Iterator[tuple[str, str]]]


def campaign_command(
    stage: Stage[P, R], name: str, *, seeds: str, machines: str, short: str, text: str, mutant: str | None = None
) -> click.Command:
    """`mutant` is planted whatever the user asks for. `machines`: what there are N of."""

    def command(n: int | None, mutant: str | None = mutant, **asked: Any) -> None:
        if mutant is not None:
            options.check_plantable()
        sys.exit(simulate(stage, stage.setup(n=n, mutant=mutant), **asked))

    return options.command(
        command,
        click.command(name, context_settings=SETTINGS, short_help=short, help=text),
        options.seeds_option(seeds),
        *([mutant_option(stage)] if mutant is None else []),
        click.option(
            "--n", type=click.IntRange(1, 9), metavar="N", help=f"{machines}; drawn by each seed if not given."
        ),
        options.replay_option,
        options.jobs_option,
        options.keep_going_option,
        options.shrink_option,
        options.json_option,
    )


def mutant_option(stage: Stage[P, R]) -> Any:
    lists = f"epoxy sim {stage.setup.name}-mutants"
    kind = options.MutantName(stage.setup.mutants)
    return click.option("--mutant", type=kind, help=f"Plant a fault; `{lists}` lists them.")


def faults_command(stage: Stage[P, R], *, short: str, text: str) -> click.Command:
    setup = stage.setup
    survived = f"{setup.limit_seeds:,} seeds"
    return mutants_command(
        f"{setup.name}-mutants", setup.mutants, partial(chase, setup), survived=survived, short=short, text=text
    )


def simulate(
    stage: Stage[P, R],
    setup: Setup[P, R],
    *,
    seeds: range,
    replay: int | None,
    jobs: int,
    keep_going: bool,
    shrinking: bool | None,
    as_json: bool,
) -> int:
    if replay is not None:
        return replay_one(stage, setup, replay, as_json=as_json)
    summary = watched(setup.title, Campaign(setup, seeds.start, seeds.stop, jobs=jobs, keep_going=keep_going))
    shrunk = None
    if summary.failed and shrinking is not False and not summary.interrupted:
        shrunk = shrink_plan(stage, setup, setup.plan(summary.failed[0].seed), summary.failed[0].rule)
    if as_json:
        output.emit_json({**summary_json(summary), "shrunk": shrunk_json(stage, shrunk)})
    else:
        show_summary(stage, summary, shrunk)
    if summary.failed:
        return VIOLATED
    return INTERRUPTED if summary.interrupted else HELD


def shrink_plan(stage: Stage[P, R], setup: Setup[P, R], plan: P, rule: str) -> Shrunk[R]:
    def told(runs: int, best: P) -> None:
        watch.tell(runs, f"{runs:,} runs, {stage.left(best)} left")

    with Watch("shrinking", None) as watch, setup.planted():
        return stage.shrink(plan, rule, listener=told)


def replay_one(stage: Stage[P, R], setup: Setup[P, R], seed: int, *, as_json: bool) -> int:
    with setup.planted():
        report = setup.run(setup.plan(seed), tracing=True)
    held = report.failure is None
    if as_json:
        told = {"protocol": setup.protocol, "mutant": setup.mutant, "seed": seed, "held": held}
        output.emit_json({**told, "digest": setup.digest(report).hex(), **report_json(stage, report)})
    else:
        show_report(stage, report)
        click.echo()
        show.headline(f"{setup.title}, seed {seed}", held=held)
    return HELD if held else VIOLATED


def show_summary(stage: Stage[P, R], summary: Summary[Setup[P, R]], shrunk: Shrunk[R] | None) -> None:
    tally = summary.tally
    show.headline(f"{summary.setup.title}, {show.seeds_of(summary)}", held=summary.held)
    output.row("runs", f"{tally.runs:,} in {summary.real_seconds:,.1f} s")
    for label, words in stage.rows(tally, summary.real_seconds):
        output.row(label, words)
    output.row("faults", show.counts(tally.faults))
    if summary.digest is not None:
        output.row("digest", summary.digest)
    if summary.failed:
        show.show_failure(summary.failed[0])
        if shrunk is not None:
            output.block(f"A small plan that breaks the same rule ({show.effort(shrunk)})", [])
            show_report(stage, shrunk.report)
        output.block("Replay with its full trace", [summary.failed[0].replay])


def show_report(stage: Stage[P, R], report: R) -> None:
    output.block("The plan", stage.describe(report.plan))
    output.block("What happens", stage.condense(report.trace or []))
    if report.failure is not None:
        click.secho(indent(f"=> {report.failure.rule}: {report.failure.detail}", "  "), fg="red")


def summary_json(summary: Summary[Setup[P, R]]) -> dict[str, Any]:
    setup = summary.setup
    return {
        "protocol": setup.protocol,
        "n": setup.n,
        "mutant": setup.mutant,
        **show.outcome_json(summary),
    }


def shrunk_json(stage: Stage[P, R], shrunk: Shrunk[R] | None) -> dict[str, Any] | None:
    if shrunk is None:
        return None
    return {"runs": shrunk.runs, "complete": shrunk.complete, **report_json(stage, shrunk.report)}


def report_json(stage: Stage[P, R], report: R) -> dict[str, Any]:
    return {
        "failure": report.failure,
        "plan": report.plan,
        "plan_in_words": stage.describe(report.plan),
        "trace": report.trace,
    }
