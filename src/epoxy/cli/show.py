"""Results in words for people and in JSON for programs. The numbers are the same."""

from collections.abc import Mapping
from textwrap import indent
from typing import Any

import click
import msgspec

from epoxy.cli import output
from epoxy.sim.campaign import Failed, S, Setup, Summary, Tally
from epoxy.sim.describe import condense, describe, until_blamed
from epoxy.sim.exhaustive import Exploration
from epoxy.sim.plan import FaultKind
from epoxy.sim.search import R, Shrunk
from epoxy.sim.simulation import Report

SUFFERED = ("lost", "duplicated", "delayed")
"""What became of messages is counted beside the faults, and shown beside the messages."""

ENDINGS = [kind.value for kind in (FaultKind.RESTART, FaultKind.HEAL, FaultKind.RESUME, FaultKind.FAST_DISK)]
"""The ends of faults are in the plan as well. Nobody wants to read them twice."""


def headline(words: str, *, held: bool) -> None:
    click.secho(f"{words}: {'held' if held else 'VIOLATED'}", fg="green" if held else "red", bold=True)


def counts(named: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {times:,}" for name, times in sorted(named.items())) or "none"


def show_tally(tally: Tally, seconds: float) -> None:
    output.row("runs", f"{tally.runs:,} in {seconds:,.1f} s")
    output.row("virtual time", virtual_time(tally, seconds))
    suffered = {name: tally.faults[name] for name in SUFFERED if name in tally.faults}
    output.row("messages", f"{tally.messages:,} ({counts(suffered)})")
    output.row("operations", f"{tally.operations:,}")
    output.row("committed writes", f"{counts(tally.paths)}{fast_share(tally)}")
    output.row("faults", counts({kind: n for kind, n in tally.faults.items() if kind not in (*SUFFERED, *ENDINGS)}))
    output.row("keys judged", counts(tally.verdicts))


def virtual_time(tally: Tally, seconds: float) -> str:
    rate = hours_per_minute(tally, seconds)
    return f"{tally.virtual_hours:,.2f} h: {rate:,.2f} virtual hours for each real minute"


def hours_per_minute(tally: Tally, seconds: float) -> float:
    return tally.virtual_hours / (seconds / 60) if seconds else 0.0


def fast_share(tally: Tally) -> str:
    return f" (fast share {tally.fast_share:.1%})" if tally.fast_share is not None else ""


def tally_json(tally: Tally, seconds: float) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(tally),
        "fast_share": tally.fast_share,
        "virtual_hours": tally.virtual_hours,
        "virtual_hours_per_real_minute": hours_per_minute(tally, seconds),
        "real_seconds": seconds,
    }


def show_summary(summary: Summary[Setup]) -> None:
    headline(f"{title(summary.setup)}, {seeds_of(summary)}", held=summary.held)
    show_tally(summary.tally, summary.real_seconds)
    if summary.digest is not None:
        output.row("digest", summary.digest)
    if len(summary.failed) > 1:
        output.row("failed seeds", ", ".join(str(failed.seed) for failed in summary.failed))


def seeds_of(summary: Summary[S]) -> str:
    runs = summary.tally.runs
    if summary.interrupted:
        return f"interrupted, {runs:,} runs from seed {summary.first_seed}"
    return f"seeds {summary.first_seed}..{summary.first_seed + runs}"


def title(setup: Setup) -> str:
    words = [setup.protocol]
    if setup.mutant is not None and setup.mutant != setup.protocol:
        words.append(f"with {setup.mutant} planted")
    if setup.n is not None:
        words.append(f"n = {setup.n}")
    if setup.policy is not None:
        words.append(f"{setup.policy.value} quorums")
    return ", ".join(words)


def summary_json(summary: Summary[Setup]) -> dict[str, Any]:
    return {**setup_json(summary.setup), **outcome_json(summary)}


def outcome_json(summary: Summary[S]) -> dict[str, Any]:
    return {
        "first_seed": summary.first_seed,
        "held": summary.held,
        "interrupted": summary.interrupted,
        "digest": summary.digest,
        "failed": summary.failed,
        **tally_json(summary.tally, summary.real_seconds),
    }


def setup_json(setup: Setup) -> dict[str, Any]:
    return {"protocol": setup.protocol, "n": setup.n, "policy": setup.policy, "mutant": setup.mutant}


def show_failure(failed: Failed) -> None:
    click.secho(f"\nSeed {failed.seed} breaks the rule: {failed.rule}", fg="red", bold=True)
    click.echo(indent(failed.detail, "  "))


def show_replay(setup: Setup, seed: int, report: Report) -> None:
    output.block("The plan", describe(report.plan))
    show_trace(report)
    click.echo()
    headline(f"{title(setup)}, seed {seed}", held=report.failure is None)


def show_shrunk(shrunk: Shrunk[Report]) -> None:
    output.block(f"A smallest plan that breaks the same rule ({effort(shrunk)})", describe(shrunk.report.plan))
    show_trace(shrunk.report)


def effort(shrunk: Shrunk[R]) -> str:
    how = "" if shrunk.complete else ", as far as the limit of the search allowed"
    return f"{shrunk.runs:,} runs tried{how}"


def show_trace(report: Report) -> None:
    failure = report.failure
    if failure is None:
        output.block("What happens", condense(report.trace or []))
        return
    output.block("What happens", condense(until_blamed(report.trace or [], failure)))
    click.secho(indent(f"=> {failure.rule}: {failure.detail}", "  "), fg="red")


def report_json(report: Report) -> dict[str, Any]:
    return {
        "failure": report.failure,
        "plan": report.plan,
        "plan_in_words": describe(report.plan),
        "trace": report.trace,
        "history": report.history,
    }


def show_exploration(exploration: Exploration, words: str) -> None:
    headline(words, held=exploration.violation is None)
    output.row("states", f"{exploration.states:,}{'' if exploration.complete else ' until then'}")
    output.row("transitions", f"{exploration.transitions:,}")
    output.row("depth", f"{exploration.depth} steps to the farthest state")
    output.row("time", f"{exploration.seconds:,.1f} s")
    if exploration.violation is not None:
        output.block("A shortest way there", str(exploration.violation).splitlines())
