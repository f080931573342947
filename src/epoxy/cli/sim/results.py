"""Results in words for people and in JSON for programs. The numbers are the same."""

from collections.abc import Callable, Iterator, Mapping
from textwrap import indent
from typing import Any, Generic
from typing import Protocol as Shape

import click
import msgspec
from msgspec import Struct

from epoxy.cli import output
from epoxy_sim.campaign import FailedRun, Summary, Tally
from epoxy_sim.keys.describe import until_blamed
from epoxy_sim.keys.exhaustive import Exploration
from epoxy_sim.protocols import CampaignSetup, R
from epoxy_sim.search import Listener, P, Shrunk


class Shrink(Shape[P, R]):
    def __call__(self, plan: P, rule: str, *, listener: Listener[P] | None = None) -> Shrunk[R]: ...


def nothing_more(_: object) -> dict[str, object]:
    return {}


class Stage(Struct, Generic[P, R], frozen=True, kw_only=True):
    """What is played, and how it is told: `describe` a plan, `condense` a trace, what is `left` of a plan that is being
    shrunk, the `rows` of a campaign's summary, and `more` of a report in JSON."""

    setup: type[CampaignSetup[P, R]]
    shrink: Shrink[P, R]
    describe: Callable[[P], list[str]]
    condense: Callable[[list[str]], list[str]]
    left: Callable[[P], str]
    rows: Callable[[Tally, float], Iterator[tuple[str, str]]]
    more: Callable[[R], dict[str, object]] = nothing_more


def headline(words: str, *, held: bool) -> None:
    click.secho(f"{words}: {'held' if held else 'VIOLATED'}", fg="green" if held else "red", bold=True)


def counts(named: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {times:,}" for name, times in sorted(named.items())) or "none"


def virtual_time(tally: Tally, seconds: float) -> str:
    rate = hours_per_minute(tally, seconds)
    return f"{tally.virtual_hours:,.2f} h: {rate:,.2f} virtual hours for each real minute"


def hours_per_minute(tally: Tally, seconds: float) -> float:
    return tally.virtual_hours / (seconds / 60) if seconds else 0.0


def progress_words(tally: Tally, seconds: float) -> str:
    rate = tally.runs / seconds if seconds else 0.0
    hours = hours_per_minute(tally, seconds)
    failures = "no failure" if not tally.failures else f"{tally.failures:,} failed"
    return f"{tally.runs:,} runs, {rate:,.0f} a second, {failures}, {hours:,.1f} virtual hours a minute"


def show_tally(stage: Stage[P, R], tally: Tally, seconds: float) -> None:
    output.row("runs", f"{tally.runs:,} in {seconds:,.1f} s")
    for label, words in stage.rows(tally, seconds):
        output.row(label, words)


def tally_json(tally: Tally, seconds: float) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(tally),
        "fast_share": tally.fast_share,
        "virtual_hours": tally.virtual_hours,
        "virtual_hours_per_real_minute": hours_per_minute(tally, seconds),
        "real_seconds": seconds,
    }


def show_summary(stage: Stage[P, R], summary: Summary[CampaignSetup[P, R]], shrunk: Shrunk[R] | None) -> None:
    seeds = f"seeds {summary.first_seed}..{summary.first_seed + summary.tally.runs}"
    if summary.interrupted:
        seeds = f"interrupted, {summary.tally.runs:,} runs from seed {summary.first_seed}"
    headline(f"{summary.setup.title}, {seeds}", held=summary.held)
    show_tally(stage, summary.tally, summary.real_seconds)
    if summary.digest is not None:
        output.row("digest", summary.digest)
    if len(summary.failed) > 1:
        output.row("failed seeds", ", ".join(str(failed.seed) for failed in summary.failed))
    if summary.failed:
        show_failure(summary.failed[0])
        show_shrunk(stage, shrunk)
        output.block("Replay with its full trace", [summary.failed[0].replay])


def summary_json(stage: Stage[P, R], summary: Summary[CampaignSetup[P, R]], shrunk: Shrunk[R] | None) -> dict[str, Any]:
    return {
        "protocol": summary.setup.protocol,
        **summary.setup.asked(),
        "first_seed": summary.first_seed,
        "held": summary.held,
        "interrupted": summary.interrupted,
        "digest": summary.digest,
        "failed": summary.failed,
        **tally_json(summary.tally, summary.real_seconds),
        "shrunk": shrunk_json(stage, shrunk),
    }


def show_failure(failed: FailedRun) -> None:
    click.secho(f"\nSeed {failed.seed} breaks the rule: {failed.rule}", fg="red", bold=True)
    click.echo(indent(failed.detail, "  "))


def show_replay(stage: Stage[P, R], setup: CampaignSetup[P, R], seed: int, report: R, shrunk: Shrunk[R] | None) -> None:
    output.block("The plan", stage.describe(report.plan))
    show_trace(stage, report)
    click.echo()
    headline(f"{setup.title}, seed {seed}", held=report.failure is None)
    show_shrunk(stage, shrunk)


def replay_json(
    stage: Stage[P, R], setup: CampaignSetup[P, R], seed: int, report: R, shrunk: Shrunk[R] | None
) -> dict[str, Any]:
    return {
        "protocol": setup.protocol,
        **setup.asked(),
        "seed": seed,
        "held": report.failure is None,
        "digest": setup.digest(report).hex(),
        **report_json(stage, report),
        "shrunk": shrunk_json(stage, shrunk),
    }


def show_shrunk(stage: Stage[P, R], shrunk: Shrunk[R] | None) -> None:
    if shrunk is None:
        return
    how = "" if shrunk.complete else ", as far as the limit of the search allowed"
    title = f"A smallest plan that breaks the same rule ({shrunk.runs:,} runs tried{how})"
    output.block(title, stage.describe(shrunk.report.plan))
    show_trace(stage, shrunk.report)


def shrunk_json(stage: Stage[P, R], shrunk: Shrunk[R] | None) -> dict[str, Any] | None:
    if shrunk is None:
        return None
    return {"runs": shrunk.runs, "complete": shrunk.complete, **report_json(stage, shrunk.report)}


def show_trace(stage: Stage[P, R], report: R) -> None:
    trace, failure = report.trace or [], report.failure
    if failure is None:
        output.block("What happens", stage.condense(trace))
        return
    output.block("What happens", stage.condense(until_blamed(trace, failure)))
    click.secho(indent(f"=> {failure.rule}: {failure.detail}", "  "), fg="red")


def report_json(stage: Stage[P, R], report: R) -> dict[str, Any]:
    return {
        "failure": report.failure,
        "plan": report.plan,
        "plan_in_words": stage.describe(report.plan),
        "trace": report.trace,
        **stage.more(report),
    }


def show_exploration(exploration: Exploration, words: str) -> None:
    headline(words, held=exploration.violation is None)
    output.row("states", f"{exploration.states:,}{'' if exploration.complete else ' until then'}")
    output.row("transitions", f"{exploration.transitions:,}")
    output.row("depth", f"{exploration.depth} steps to the farthest state")
    output.row("time", f"{exploration.seconds:,.1f} s")
    if exploration.violation is not None:
        output.block("A shortest way there", str(exploration.violation).splitlines())
