"""A protocol on the command line: many seeds, or one with its full trace, and its planted faults."""

import sys
from collections.abc import Callable
from typing import Any

import click

from epoxy.cli import output
from epoxy.cli.groups import SETTINGS
from epoxy.cli.progress import ProgressBar
from epoxy.cli.sim import parameters as options
from epoxy.cli.sim import results
from epoxy.cli.sim.mutants import mutants_command
from epoxy_sim.campaign import Campaign, CampaignSetup, S, Summary, Tally
from epoxy_sim.mutation_testing import FaultCatch, chase
from epoxy_sim.search import Shrunk
from epoxy_sim.simulation import P
from epoxy_sim.worker_pool import WorkerDied

HELD, VIOLATED, INTERRUPTED = 0, 1, 130


def campaign_command(
    setup: type[CampaignSetup[P]],
    name: str,
    *parameters: Callable[[Any], Any],
    seeds: str,
    short: str,
    text: str,
    **given: Any,
) -> click.Command:
    """`parameters`: which fields of the setup the user may choose. `given`: fields that are so in every run of it."""

    def command(**asked: Any) -> None:
        chosen = {field: asked.pop(field) for field in setup.__struct_fields__ if field in asked}
        made = setup(**given, **chosen)
        if made.mutant is not None:
            options.check_plantable()
        sys.exit(simulate(made, **asked))

    return options.command(
        command,
        click.command(name, context_settings=SETTINGS, short_help=short, help=text),
        options.seeds_option(seeds),
        *parameters,
        options.replay_option,
        options.jobs_option,
        options.keep_going_option,
        options.shrink_option,
        options.json_option,
    )


def size_option(machines: str) -> Callable[[Any], Any]:
    words = f"{machines}; drawn by each seed if not given."
    return click.option("--n", type=click.IntRange(1, 9), metavar="N", help=words)


def mutant_option(setup: type[CampaignSetup[P]]) -> Callable[[Any], Any]:
    words = f"Plant a fault; `epoxy sim {setup.name}-mutants` lists them."
    return click.option("--mutant", type=options.MutantName(setup.mutants), help=words)


def faults_command(setup: type[CampaignSetup[P]], *, short: str, text: str) -> click.Command:
    def caught(name: str, *, jobs: int) -> FaultCatch:
        return chase(setup(mutant=name), jobs=jobs)

    return mutants_command(
        f"{setup.name}-mutants", setup.mutants, caught, survived=f"{setup.limit_seeds:,} seeds", short=short, text=text
    )


def simulate(
    setup: CampaignSetup[P],
    *,
    seeds: range,
    replay: int | None,
    jobs: int,
    keep_going: bool,
    shrinking: bool | None,
    as_json: bool,
    minutes: float | None = None,
) -> int:
    if replay is not None:
        return replay_one(setup, replay, shrinking=bool(shrinking), as_json=as_json)
    campaign = Campaign(setup, seeds.start, seeds.stop, jobs=jobs, minutes=minutes, keep_going=keep_going)
    summary = run_with_progress(setup.title, campaign)
    shrunk = None
    if summary.failed and shrinking is not False and not summary.interrupted:
        shrunk = shrink_plan(setup, setup.plan(summary.failed[0].seed), summary.failed[0].rule)
    if as_json:
        output.emit_json(results.summary_json(summary, shrunk))
    else:
        results.show_summary(summary, shrunk)
    if summary.failed:
        return VIOLATED
    return INTERRUPTED if summary.interrupted else HELD


def run_with_progress(title: str, campaign: Campaign[S]) -> Summary[S]:
    def told(tally: Tally, seconds: float) -> None:
        bar.tell(tally.runs, results.progress_words(tally, seconds))

    campaign.listener = told
    try:
        with ProgressBar(title, campaign.end - campaign.first if campaign.minutes is None else None) as bar:
            return campaign.run()
    except WorkerDied as died:
        raise click.ClickException(str(died)) from died


def shrink_plan(setup: CampaignSetup[P], plan: P, rule: str) -> Shrunk[P]:
    def told(runs: int, best: P) -> None:
        watch.tell(runs, f"{runs:,} runs, {best.size} steps and faults left")

    with ProgressBar("shrinking", None) as watch, setup.planted():
        return setup.shrink(plan, rule, listener=told)


def replay_one(setup: CampaignSetup[P], seed: int, *, shrinking: bool, as_json: bool) -> int:
    plan = setup.plan(seed)
    with setup.planted():
        report = setup.run(plan, tracing=True)
    shrunk = shrink_plan(setup, plan, report.failure.rule) if shrinking and report.failure else None
    if as_json:
        output.emit_json(results.replay_json(setup, seed, report, shrunk))
    else:
        results.show_replay(setup, seed, report, shrunk)
    return HELD if report.failure is None else VIOLATED
