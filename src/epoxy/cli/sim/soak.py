"""`epoxy sim soak`: simulation until told to stop."""

import signal
import sys
from pathlib import Path

import click

from epoxy.cli import output
from epoxy.cli.groups import SETTINGS
from epoxy.cli.progress import ProgressBar
from epoxy.cli.sim import parameters as options
from epoxy.cli.sim import results
from epoxy_sim.soak import LANES, BadSummary, Soak, SoakSummary
from epoxy_sim.worker_pool import WorkerDied

SHOWN = 10
"""Failures on the screen; the summary file has more."""


@click.command(context_settings=SETTINGS, short_help="Everything in turn, until told to stop.")
@click.option("--minutes", type=options.MINUTES, metavar="M", help="Stop after M minutes.  [default: on Ctrl-C]")
@click.option(
    "--summary",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("soak-summary.json"),
    show_default=True,
    help="Where to keep what was found, and from where to go on.",
)
@options.jobs_option
@options.json_option
def soak(minutes: float | None, path: Path, jobs: int, as_json: bool) -> None:
    """All workloads, sizes and quorum policies in turn, always with new seeds, until told to stop.

    The summary file is written every few seconds; a later soak goes on from it. Exits 1 if any failure was found, in
    this soak or an earlier one of the same file.

    \b
    Examples:
      epoxy sim soak
      epoxy sim soak --minutes 60 --summary nightly.json
    """
    for told_to_stop in (signal.SIGINT, signal.SIGTERM):  # a shell starts background jobs with the first one ignored
        signal.signal(told_to_stop, signal.default_int_handler)
    try:
        summary = run(path, jobs, minutes)
    except (BadSummary, WorkerDied) as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        numbers = results.tally_json(summary.tally, summary.real_seconds)
        kept = {"summary": str(path), "next_seeds": summary.next_seeds, "failed": summary.failed}
        output.emit_json({"protocol": "soak", "held": summary.held, **numbers, **kept})
    else:
        tell(summary, path)
    sys.exit(0 if summary.held else 1)


def run(path: Path, jobs: int, minutes: float | None) -> SoakSummary:
    def told(so_far: SoakSummary) -> None:
        bar.tell(so_far.tally.runs, results.progress_words(so_far.tally, so_far.real_seconds))

    with ProgressBar("soak", None) as bar:
        return Soak(path, jobs=jobs, minutes=minutes, listener=told).run()


def tell(summary: SoakSummary, path: Path) -> None:
    results.headline("soak", held=summary.held)
    results.show_tally(LANES[0], summary.tally, summary.real_seconds)
    output.row("summary", f"{path}, {len(summary.next_seeds)} lanes begun")
    if summary.failed:
        lines = [f"{failed.rule}: {failed.replay}" for failed in summary.failed[:SHOWN]]
        more = summary.tally.failures - len(lines)
        output.block("Failures", [*lines, f"and {more:,} more"] if more else lines)
