"""Results in words for people and in JSON for programs. The numbers are the same."""

from textwrap import indent
from typing import Any

import click
import msgspec

from epoxy.cli import output
from epoxy_sim.campaign import CampaignSetup, FailedRun, Summary, Tally
from epoxy_sim.keys.exhaustive import Exploration
from epoxy_sim.search import Shrunk
from epoxy_sim.simulation import P, Report
from epoxy_sim.trace_format import until_blamed


def headline(words: str, *, held: bool) -> None:
    click.secho(f"{words}: {'held' if held else 'VIOLATED'}", fg="green" if held else "red", bold=True)


def progress_words(tally: Tally, seconds: float) -> str:
    rate = tally.runs / seconds if seconds else 0.0
    failures = "no failure" if not tally.failures else f"{tally.failures:,} failed"
    hours = tally.hours_per_minute(seconds)
    return f"{tally.runs:,} runs, {rate:,.0f} a second, {failures}, {hours:,.1f} virtual hours a minute"


def show_tally(setup: CampaignSetup[P], tally: Tally, seconds: float) -> None:
    output.row("runs", f"{tally.runs:,} in {seconds:,.1f} s")
    for label, words in setup.rows(tally, seconds):
        output.row(label, words)


def tally_json(tally: Tally, seconds: float) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(tally),
        "fast_share": tally.fast_share,
        "virtual_hours": tally.virtual_hours,
        "virtual_hours_per_real_minute": tally.hours_per_minute(seconds),
        "real_seconds": seconds,
    }


def show_summary(summary: Summary[CampaignSetup[P]], shrunk: Shrunk[P] | None) -> None:
    seeds = f"seeds {summary.first_seed}..{summary.first_seed + summary.tally.runs}"
    if summary.interrupted:
        seeds = f"interrupted, {summary.tally.runs:,} runs from seed {summary.first_seed}"
    headline(f"{summary.setup.title}, {seeds}", held=summary.held)
    show_tally(summary.setup, summary.tally, summary.real_seconds)
    if summary.digest is not None:
        output.row("digest", summary.digest)
    if len(summary.failed) > 1:
        output.row("failed seeds", ", ".join(str(failed.seed) for failed in summary.failed))
    if summary.failed:
        show_failure(summary.failed[0])
        show_shrunk(summary.setup, shrunk)
        output.block("Replay with its full trace", [summary.failed[0].replay])


def summary_json(summary: Summary[CampaignSetup[P]], shrunk: Shrunk[P] | None) -> dict[str, Any]:
    return {
        "protocol": summary.setup.protocol,
        **summary.setup.asked(),
        "first_seed": summary.first_seed,
        "held": summary.held,
        "interrupted": summary.interrupted,
        "digest": summary.digest,
        "failed": summary.failed,
        **tally_json(summary.tally, summary.real_seconds),
        "shrunk": shrunk_json(summary.setup, shrunk),
    }


def show_failure(failed: FailedRun) -> None:
    click.secho(f"\nSeed {failed.seed} breaks the rule: {failed.rule}", fg="red", bold=True)
    click.echo(indent(failed.detail, "  "))


def show_replay(setup: CampaignSetup[P], seed: int, report: Report[P], shrunk: Shrunk[P] | None) -> None:
    output.block("The plan", list(setup.describe(report.plan)))
    show_trace(setup, report)
    click.echo()
    headline(f"{setup.title}, seed {seed}", held=report.failure is None)
    show_shrunk(setup, shrunk)


def replay_json(setup: CampaignSetup[P], seed: int, report: Report[P], shrunk: Shrunk[P] | None) -> dict[str, Any]:
    return {
        "protocol": setup.protocol,
        **setup.asked(),
        "seed": seed,
        "held": report.failure is None,
        "digest": setup.digest(report).hex(),
        **report_json(setup, report),
        "shrunk": shrunk_json(setup, shrunk),
    }


def show_shrunk(setup: CampaignSetup[P], shrunk: Shrunk[P] | None) -> None:
    if shrunk is None:
        return
    how = "" if shrunk.complete else ", as far as the limit of the search allowed"
    title = f"A smallest plan that breaks the same rule ({shrunk.runs:,} runs tried{how})"
    output.block(title, list(setup.describe(shrunk.report.plan)))
    show_trace(setup, shrunk.report)


def shrunk_json(setup: CampaignSetup[P], shrunk: Shrunk[P] | None) -> dict[str, Any] | None:
    if shrunk is None:
        return None
    return {"runs": shrunk.runs, "complete": shrunk.complete, **report_json(setup, shrunk.report)}


def show_trace(setup: CampaignSetup[P], report: Report[P]) -> None:
    trace, failure = report.trace or [], report.failure
    if failure is None:
        output.block("What happens", setup.condense(trace))
        return
    output.block("What happens", setup.condense(until_blamed(trace, failure)))
    click.secho(indent(f"=> {failure.rule}: {failure.detail}", "  "), fg="red")


def report_json(setup: CampaignSetup[P], report: Report[P]) -> dict[str, Any]:
    return {
        "failure": report.failure,
        "plan": report.plan,
        "plan_in_words": list(setup.describe(report.plan)),
        "trace": report.trace,
        **setup.more(report),
    }


def show_exploration(exploration: Exploration, words: str) -> None:
    headline(words, held=exploration.violation is None)
    output.row("states", f"{exploration.states:,}{'' if exploration.complete else ' until then'}")
    output.row("transitions", f"{exploration.transitions:,}")
    output.row("depth", f"{exploration.depth} steps to the farthest state")
    output.row("time", f"{exploration.seconds:,.1f} s")
    if exploration.violation is not None:
        output.block("A shortest way there", str(exploration.violation).splitlines())
