"""`epoxy plan`: what a choice of regions makes of writes and reads, computed here, without a cluster."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from epoxy.cli import output
from epoxy.codec import round_trips
from epoxy.model.api_plan import Addition, FailureEffect, PlannedRegion, PlanReport
from epoxy.model.errors import InvalidRequest, InvalidValue
from epoxy.model.planning import plan as planned
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.round_trips import MAX_REGIONS, RoundTrips
from epoxy.transport.wan import aws

SHOWN_CHOICES = (3, 5, 7)
"""Of the demo's, without any word of what is wanted. The fourth has all regions of the table."""

BAR = 40
"""Characters of the longest bar."""

EIGHTHS = " ▏▎▍▌▋▊▉"
FULL, LEADERS = "█", "░"
PLAIN, PLAIN_LEADERS = "#", "."


@click.command()
@click.argument("regions", nargs=-1, metavar="[REGION]...")
@click.option(
    "--rtt", "file", type=click.Path(path_type=Path), metavar="FILE", help="Your own round trips, JSON or CSV."
)
@click.option(
    "--policy",
    type=click.Choice([policy.value for policy in QuorumPolicy]),
    default=QuorumPolicy.OPTIMAL.value,
    show_default=True,
    help="Quorum sizes, as in cluster.quorum_policy.",
)
@click.option("--down", multiple=True, metavar="REGION", help="One of them that has failed; may be repeated.")
@click.option(
    "--add",
    type=click.IntRange(0, MAX_REGIONS),
    metavar="N",
    help="Look for the best N regions to add; without a REGION, for the best N.  [default: to the next odd number]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan(
    regions: tuple[str, ...], file: Path | None, policy: str, down: tuple[str, ...], add: int | None, as_json: bool
) -> None:
    """What writes and reads would cost in a choice of regions, before there is a cluster.

    Floors are round trips: the commit floor of a region is the one to its nearest quorum, below which no fresh key
    commits there. Beside it stands what a system with a leader costs, what failures do, and which regions to add.
    Distances are those between nine AWS regions, or your own. Without a REGION: three choices of 3, 5 and 7.

    \b
    Try:
      epoxy plan us-east-1 eu-west-1 ap-northeast-1
      epoxy plan us-east-1 eu-west-1 --add 1            the best third region
      epoxy plan us-east-1 eu-west-1 ap-northeast-1 --down eu-west-1
      epoxy plan --add 5                                the best five of the table
      epoxy plan --rtt ours.csv                         all regions of your own table
      epoxy plan --rtt ours.csv oslo lima perth         some of them

    \b
    A file of round trips, in milliseconds; one direction is enough:
      CSV    from,to,rtt_ms        or   ,oslo,lima,perth
             oslo,lima,190.5            oslo,0,190.5,310
             oslo,perth,310             lima,,0,280
             lima,perth,280
      JSON   {"oslo": {"lima": 190.5, "perth": 310}, "lima": {"perth": 280}}
             {"regions": ["oslo", "lima"], "rtt_ms": [[0, 190.5], [190.5, 0]]}
    """
    regions = tuple(name for word in regions for name in word.split(",") if name)
    trips = aws.TABLE if file is None else read(file)
    sizes = QuorumPolicy(policy)
    try:
        if regions or down or add is not None or file is not None:
            chosen = regions or (() if add else trips.regions if file is not None else ())
            reports = [planned(trips, chosen, policy=sizes, down=down, add=add)]
        else:
            reports = [planned(trips, aws.CHOICES[number], policy=sizes) for number in SHOWN_CHOICES]
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        output.emit_json(reports[0] if len(reports) == 1 else {"plans": reports})
    elif len(reports) == 1:
        tell(reports[0], is_found=not regions and bool(add))
    else:
        compare(reports)


def read(file: Path) -> RoundTrips:
    """Raises UsageError, naming the file."""
    try:
        with file.open("rb") as opened:
            return round_trips.decode(opened.read(round_trips.MAX_ROUND_TRIPS_BYTES + 1))
    except OSError as error:
        raise click.UsageError(f"{file}: {(error.strerror or str(error)).lower()}") from error
    except InvalidValue as error:
        raise click.UsageError(f"{file}: {error}") from error


def tell(report: PlanReport, *, is_found: bool) -> None:
    """`is_found`: the choice is the best of those compared, and the others are told as such."""
    click.secho(headline(report), bold=True, fg=None if report.available else "red")
    click.echo(sizes_words(report))
    click.echo()
    leader = report.leaders[0].leader if report.leaders else None
    output.table(
        ("region", "commit floor", "slow path", "linearizable read", f"leader in {leader or '-'}"),
        [*(region_row(row) for row in report.regions), *mean_rows(report)],
    )
    if leader is not None and report.replicas > 1:
        output.block(f"Commit floor beside a leader in {leader}, ms", list(chart(report)))
    if rows := [row for row in report.regions if row.commit_ms is not None and report.replicas > 1]:
        click.secho("\nIf more of the others fail, at the worst", bold=True)
        output.table(("region", "one more", "two more"), [(r.region, *map(effect, r.more_failures)) for r in rows])
    if len(report.leaders) > 1:
        click.secho("\nA leader in each region, writes from all of them", bold=True)
        output.table(
            ("leader", "mean", "worst"), [(each.leader, ms(each.mean_ms), ms(each.worst_ms)) for each in report.leaders]
        )
    if report.additions:
        count = len(report.additions[0].regions)
        what = "Choices that were compared" if is_found else f"To add: {output.plural(count, 'region')}"
        click.secho(f"\n{what}, the best first by mean floor", bold=True)
        output.table(("regions", "mean floor", "worst", "may fail"), [addition_row(each) for each in report.additions])


def headline(report: PlanReport) -> str:
    down = [row.region for row in report.regions if row.down]
    what = output.plural(report.replicas, "region") + (f", {' and '.join(down)} down" if down else "")
    if not report.available:
        return f"{what}: unavailable. {report.slow_quorum} must be up for anything to be decided."
    more = "more " if down else ""
    if not report.tolerated_failures:
        return f"{what}: none {more}may fail."
    return f"{what}: {report.tolerated_failures} {more}may fail, and writes go on."


def sizes_words(report: PlanReport) -> str:
    fast, slow = report.fast_quorum, report.slow_quorum
    words = f"A fresh key commits with {fast} of {report.replicas} ({report.policy}), a contended one with {slow}"
    spare = report.tolerated_fast_failures
    if not report.available:
        return f"{words}."
    if all(row.path != "fast" for row in report.regions):
        return f"{words}; too few are up for one round trip, so each write takes two."
    return f"{words}; one round trip also with {spare} more down." if spare else f"{words}."


def region_row(row: PlannedRegion) -> tuple[str, ...]:
    if row.down:
        return row.region, "down", "", "", ""
    if row.commit_ms is None:
        return row.region, "unavailable", "", "", ""
    floor = ms(row.commit_ms) + (" (slow path)" if row.path == "slow" else "")
    return row.region, floor, ms(row.slow_path_ms), ms(row.read_ms), ms(row.leader_ms)


def mean_rows(report: PlanReport) -> Iterator[tuple[str, ...]]:
    if report.mean_ms is not None and report.worst_ms is not None and report.leaders:
        best = report.leaders[0]
        yield "mean", ms(report.mean_ms), "", "", ms(best.mean_ms)
        yield "worst", ms(report.worst_ms), "", "", ms(best.worst_ms)


def addition_row(addition: Addition) -> tuple[str, ...]:
    return (
        " ".join(addition.regions),
        ms(addition.mean_ms),
        ms(addition.worst_ms),
        str(addition.tolerated_failures),
    )


def effect(found: FailureEffect) -> str:
    if found.commit_ms is None:
        return "unavailable"
    slow = ", slow path" if found.path == "slow" else ""
    return f"{ms(found.commit_ms)}{slow} ({' '.join(found.down)})"


def chart(report: PlanReport) -> Iterator[str]:
    """A bar for the commit floor of each region, and below it one for the best leader, to one scale."""
    rows = [row for row in report.regions if row.commit_ms is not None and row.leader_ms is not None]
    longest = max((max(row.commit_ms or 0.0, row.leader_ms or 0.0) for row in rows), default=0.0)
    width = max((len(row.region) for row in rows), default=0)
    ours, theirs = (FULL, LEADERS) if draws_blocks() else (PLAIN, PLAIN_LEADERS)
    for row in rows:
        for name, value, mark in ((row.region, row.commit_ms, ours), ("", row.leader_ms, theirs)):
            assert value is not None
            words = "leader " if mark == theirs else ""
            yield f"{name:<{width}}  {bar(value, longest, mark)} {words}{value:.1f}"


def bar(value: float, longest: float, mark: str) -> str:
    """To an eighth of a character, where there are such."""
    length = BAR * value / longest if longest else 0.0
    if mark != FULL:
        return mark * round(length)
    return mark * int(length) + EIGHTHS[int(length % 1 * 8)].strip()


def draws_blocks() -> bool:
    return sys.stdout.isatty() and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def compare(reports: Sequence[PlanReport]) -> None:
    for report in reports:
        click.secho(headline(report), bold=True)
        output.table(
            ("region", "commit floor", f"leader in {report.leaders[0].leader}"),
            [*((row.region, ms(row.commit_ms), ms(row.leader_ms)) for row in report.regions), *short_means(report)],
        )
        click.echo()
    known = ", ".join(reports[0].known)
    click.echo(f"`epoxy plan REGION...` tells more of a choice of your own, `epoxy plan -h` how.\nRegions: {known}")


def short_means(report: PlanReport) -> Iterator[tuple[str, ...]]:
    return ((what, ours, theirs) for what, ours, *_, theirs in mean_rows(report))


def ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f} ms"
