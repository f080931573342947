"""`epoxy scrub`: read and check all rows of one node now, and watch it."""

import time
from datetime import datetime

import click

from epoxy.cli import output, target
from epoxy.cli.groups import SETTINGS
from epoxy.cli.progress import ProgressBar
from epoxy.client import Client
from epoxy.model.api_scrub import ScrubReport

LOOK_S = 0.3
"""Between two looks at the progress."""

REPAIR_S = 5.0
"""How long to wait for repairs after the last row was read: a read of a quorum takes one round trip."""

RUNNING = ("running", "paused")

UNREPAIRED = 1
"""Exit code: rotten rows are left."""


@click.command(context_settings=SETTINGS, short_help="Read and check all rows of a node, and repair what rotted.")
@click.option("--watch", is_flag=True, help="Begin none; watch the round under way, or show the last one.")
@target.call_options
def scrub(call: target.NodeCall, watch: bool) -> None:
    """Read all rows of one node, the first of --url, and check that they are what was written. A node does so by itself
    once a week (store.scrub_days), at most store.scrub_mib_s fast, and slower while clients are busy; this begins a
    round now. Ctrl-C ends only the watching.

    A committed value that rotted is read from a quorum of the other nodes and written anew. A node whose promises or
    votes rotted ends for good: replace it.

    Exit status: 0 no rotten rows are left, 1 some are, or the node does not answer.

    \b
    Examples:
      epoxy scrub --url http://10.0.1.1:7800
      epoxy scrub --watch --json
    """
    alone = target.NodeCall(urls=call.urls[:1], timeout=call.timeout, as_json=call.as_json)
    with alone.client() as client:
        seen = client.scrub()
        if not watch and seen.state in RUNNING:
            raise click.ClickException("a round is under way already; `epoxy scrub --watch` watches it")
        seen = follow(client, seen if watch else client.begin_scrub())
        if not watch:
            seen = settled(client, seen)
    if call.as_json:
        output.emit_json(seen)
    else:
        tell(seen)
    raise click.exceptions.Exit(UNREPAIRED if seen.unrepaired else 0)


def follow(client: Client, seen: ScrubReport) -> ScrubReport:
    """Until the round is over."""
    with ProgressBar("scrub", seen.rows_expected) as bar:
        while seen.state in RUNNING:
            waits = ", waits for clients" if seen.state == "paused" else ""
            bar.tell(seen.rows, f"{seen.rows:,} rows, {size(seen.bytes)}{waits}")
            time.sleep(LOOK_S)
            seen = client.scrub()
    return seen


def settled(client: Client, seen: ScrubReport) -> ScrubReport:
    """Give the repairs of the last rows a moment."""
    until = time.monotonic() + REPAIR_S
    while seen.unrepaired and time.monotonic() < until:
        time.sleep(LOOK_S)
        seen = client.scrub()
    return seen


def tell(seen: ScrubReport) -> None:
    if seen.last_ended_at is None:
        click.secho("Never scrubbed to the end.", bold=True)
    elif not seen.unrepaired:
        click.secho("All rows are what was written.", fg="green", bold=True)
    else:
        click.secho(f"{output.plural(len(seen.unrepaired), 'rotten row')} not repaired yet.", fg="red", bold=True)
    output.row("rows", f"{seen.rows:,}, {size(seen.bytes)}")
    if seen.last_ended_at is not None:
        output.row("ended", datetime.fromtimestamp(seen.last_ended_at).astimezone().isoformat(" ", "seconds"))
    every = f"every {output.plural(seen.every_days, 'day')}" if seen.every_days else "only when asked for"
    output.row("rounds", every)
    output.row("rotten", f"{seen.rotten_found:,} found since the node started, {seen.repaired:,} repaired")
    for row in seen.unrepaired:
        output.row("not repaired", row)


def size(count: int) -> str:
    return f"{count / (1 << 20):,.1f} MiB"
