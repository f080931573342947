"""`epoxy members`: who belongs to the cluster, and orders to change it, with a look at how far that is."""

import time
from collections.abc import Sequence
from typing import Any

import click

from epoxy.cli import output, target
from epoxy.cli.groups import SETTINGS, Group, Interrupted
from epoxy.cli.members_progress import Journey, MembersProgress, is_done
from epoxy.client import Client, Status
from epoxy.client.limits import TIMEOUT_S
from epoxy.client.members import MemberRow, Members, Newcomer
from epoxy.model.errors import ClientError, InvalidRequest, Unavailable

VISIT_S = 5.0
"""For a newcomer to say who it is: ten times the longest round trip."""

LOOK_S = 0.3
"""Between two looks at a change: people do not see more, and a change of small members takes a second."""

WAIT_S = 3600.0
"""Long enough for a person to notice that something is wrong; the change goes on anyway."""

UNFINISHED = 5
"""Exit code: written down, and not done in time. It goes on by itself."""


@click.group(cls=Group, context_settings=SETTINGS, short_help="Who belongs to the cluster; add and remove datacenters.")
def members() -> None:
    """Who belongs to the cluster, and orders to change it while clients write.

    \b
    Examples:
      epoxy members list
      epoxy members add 4 http://10.0.4.1:7800
      epoxy members remove 2
      epoxy members add 5 http://10.0.2.1:7800 --replace 2
    """


wait_option = click.option("--wait/--no-wait", default=True, show_default=True, help="Until the change is done.")
wait_for_option = click.option(
    "--timeout",
    "wait_s",
    type=click.FloatRange(0, min_open=True),
    default=WAIT_S,
    show_default=True,
    metavar="SECONDS",
    help="Wait no longer; the change goes on.",
)
force_option = click.option("--force", is_flag=True, help="Even if too few of those who stay can be reached now.")
id_argument = click.argument("member_id", metavar="ID", type=click.IntRange(1, 2**32 - 1))


@members.command("list", short_help="The members, and how far a change is.")
@target.url_option
@target.timeout_option
@target.json_option
def list_members(urls: list[str], timeout: float, as_json: bool) -> None:
    """The members, who of them answers, and how far a change is, if there is one.

    \b
    Example:
      epoxy members list --url http://127.0.0.1:7810
    """
    with target.talking_to(urls, timeout, as_json=as_json) as client:
        seen = client.members(progress=True)
    if as_json:
        output.emit_json(seen)
        return
    click.echo(headline(seen))
    output.table(("replica", "datacenter", "status", "address", "says"), [cells(seen, row) for row in seen.replicas])


def headline(seen: Members) -> str:
    words = f"Epoch {seen.epoch}, {output.plural(len(seen.replicas), 'replica')}."
    if seen.settled:
        return f"{words} No change is under way."
    wanted = ", ".join(map(str, seen.wanted))
    joint = " Old and new members decide together now." if seen.joint else ""
    waiting = f" It waits: {seen.waiting}." if seen.waiting else ""
    return f"{words} On the way to {wanted}.{joint}{waiting}"


def cells(seen: Members, row: MemberRow) -> tuple[str, ...]:
    return str(row.id), row.datacenter, row.status, row.url, says(seen, row)


def says(seen: Members, row: MemberRow) -> str:
    told = row.progress
    if told is None or not told.heard:
        return "DOES NOT ANSWER"
    if told.epoch != seen.epoch:
        return f"is in epoch {told.epoch}"
    if row.status == "learning":
        return f"{told.copied:,} keys copied, all of {len(told.sources)} members"
    if seen.joint:
        return "synced" if told.synced else "not synced yet"
    return "fine"


@members.command(short_help="Add a datacenter that runs and waits for it.")
@id_argument
@click.argument("address", metavar="URL")
@click.option("--replace", "gone", type=int, multiple=True, metavar="ID", help="Remove this one in the same change.")
@click.option("--check/--no-check", default=True, show_default=True, help="Ask the newcomer first who it is.")
@force_option
@wait_option
@wait_for_option
@target.url_option
@target.json_option
def add(member_id: int, address: str, gone: tuple[int, ...], check: bool, force: bool, **given: Any) -> None:
    """Make the node at URL a member, under ID. Its epoxy.toml has that id and `join = true` in [cluster], and it runs.
    URL is the address under which the other members find it.

    It copies what the others hold, then it takes part in decisions. Clients notice nothing. Interrupting this command
    does not interrupt the change.

    \b
    Exit status:
      0  done (with --no-wait: written down)
      1  nobody answers, or nothing could be decided
      2  not possible, and why
      5  not done in time, and it goes on; or somebody wished otherwise
    \b
    Examples:
      epoxy members add 4 http://10.0.4.1:7800
      epoxy members add 5 http://10.0.2.1:7800 --replace 2
    """
    datacenter = introduced(member_id, address) if check else ""
    newcomer = Newcomer(id=member_id, url=address, datacenter=datacenter)
    order([newcomer], gone, force=force, **given)


@members.command(short_help="Remove a datacenter, dead or alive.")
@click.argument("member_ids", metavar="ID...", nargs=-1, required=True, type=click.IntRange(1, 2**32 - 1))
@force_option
@wait_option
@wait_for_option
@target.url_option
@target.json_option
def remove(member_ids: tuple[int, ...], force: bool, **given: Any) -> None:
    """Remove members. They refuse clients from then on, say why, and can be stopped. One that is dead is removed like
    any other, as long as enough of those who stay are there.

    Exit status: as for `add`.

    \b
    Example:
      epoxy members remove 4 5
    """
    order([], member_ids, force=force, **given)


def introduced(member_id: int, address: str) -> str:
    """The newcomer's datacenter. Whoever answers there must be the one that is meant."""
    try:
        with Client(address, timeout=VISIT_S, connect_timeout=VISIT_S) as client:
            status = client.status()
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from error
    except ClientError as error:
        reason = str(error).removeprefix(f"{address}: ")
        raise click.ClickException(
            f"the newcomer at {address} does not answer: {reason}. Start it first; --no-check asks nothing"
        ) from error
    check_newcomer(member_id, address, status)
    return status.datacenter


def check_newcomer(member_id: int, address: str, status: Status) -> None:
    if status.id != member_id:
        raise click.UsageError(f"the node at {address} is replica {status.id}, not {member_id}")
    if status.state not in ("new", "removed", "joining", "learning"):
        raise click.UsageError(f"replica {member_id} is no newcomer: it is {status.state}, in epoch {status.epoch}")


def order(
    add: Sequence[Newcomer],
    remove: Sequence[int],
    *,
    force: bool,
    wait: bool,
    wait_s: float,
    urls: list[str],
    as_json: bool,
) -> None:
    with target.talking_to(urls, TIMEOUT_S, as_json=as_json, writes=True) as client:
        ordered = client.change_members(add=add, remove=remove, force=force)
        if not as_json:
            click.echo(told(ordered.wanted, queued=ordered.queued), err=True)
        if not wait:
            if as_json:
                output.emit_json(ordered)
            return
        try:
            last = follow(client, ordered.wanted, wait_s, quiet=as_json)
        except KeyboardInterrupt:
            raise Interrupted("interrupted; the change goes on, and `epoxy members list` shows how far it is") from None
    if as_json:
        output.emit_json(last)
    if last is None or not is_done(last, ordered.wanted):
        click.echo(f"epoxy: {unfinished(last, ordered.wanted)}", err=True)
        raise click.exceptions.Exit(UNFINISHED)
    if not as_json:
        click.echo(f"Done: epoch {last.epoch}, members {', '.join(map(str, last.wanted))}.")


def unfinished(last: Members | None, wanted: tuple[int, ...]) -> str:
    if last is not None and last.wanted != wanted:
        return f"not done: since then somebody has wished for {', '.join(map(str, last.wanted))}"
    return "not done in time; it goes on, and `epoxy members list` shows how far it is"


def told(wanted: Sequence[int], *, queued: bool) -> str:
    first = " Another change is under way and is finished or taken back first." if queued else ""
    return f"Written down: {', '.join(map(str, wanted))} shall be the members.{first}"


def follow(client: Client, wanted: tuple[int, ...], wait_s: float, *, quiet: bool) -> Members | None:
    """Until it is done, somebody wants something else, or the time is over."""
    deadline, journey, seen = time.monotonic() + wait_s, Journey(), None
    with MembersProgress(quiet=quiet) as watch:
        while time.monotonic() < deadline:
            try:
                seen = client.members(progress=True)
            except Unavailable:
                time.sleep(LOOK_S)
                continue
            watch.tell(journey.look(seen, time.monotonic()))
            if is_done(seen, wanted) or seen.wanted != wanted:
                break
            time.sleep(LOOK_S)
    return seen
