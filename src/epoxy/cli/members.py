"""`epoxy members`: list the members of the cluster and change them, with the progress of the change."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec

from epoxy.cli import output, target
from epoxy.cli.groups import SETTINGS, Group, Interrupted
from epoxy.cli.health import tell_nodes
from epoxy.cli.members_progress import ChangeProgress, MembersProgress, is_done
from epoxy.cli.node_visits import visit
from epoxy.client import Client
from epoxy.model.api import MemberRow, Members, MovedMember, Newcomer, NodeProbe, SessionReport
from epoxy.model.cluster import cluster_name
from epoxy.model.errors import Unavailable
from epoxy.model.node_urls import BadUrls, is_one_of, join_urls, split_urls

LOOK_S = 0.3
"""Between two looks at a change: a change of small members takes a second."""

WAIT_S = 3600.0
"""Long enough for an operator to notice that something is wrong. The change goes on in any case."""

UNFINISHED = 5
"""Exit code: the change is written down but was not done in time. It goes on by itself."""


@click.group(cls=Group, context_settings=SETTINGS, short_help="List, add, remove and move datacenters.")
def members() -> None:
    """List the members of the cluster, and change them while clients write.

    \b
    Examples:
      epoxy members list
      epoxy members add 4 http://10.0.4.1:7800
      epoxy members remove 2
      epoxy members add 5 http://10.0.2.1:7800 --replace 2
      epoxy members move 3 http://10.0.3.9:7800
      epoxy members move 3 http://10.0.3.1:7800,http://10.0.3.2:7800
    """


def joined(given: Sequence[str]) -> str:
    """The addresses of one member, each an argument of its own or with commas between them, as one text."""
    try:
        return join_urls([url.strip() for each in given for url in each.split(",")])
    except BadUrls as bad:
        raise click.BadParameter(str(bad)) from None


wait_option = click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the change is done.")
wait_for_option = click.option(
    "--timeout",
    "wait_s",
    type=click.FloatRange(0, min_open=True),
    default=WAIT_S,
    show_default=True,
    metavar="SECONDS",
    help="Wait no longer than this; the change goes on.",
)
force_option = click.option(
    "--force", is_flag=True, help="Even if too few of the remaining members can be reached now."
)
addresses_argument = click.argument(
    "address", metavar="URL...", nargs=-1, required=True, callback=lambda _context, _parameter, given: joined(given)
)
id_argument = click.argument("member_id", metavar="ID", type=click.IntRange(1, 2**32 - 1))


@members.command("list", short_help="List the members, and the progress of a change.")
@target.call_options
def list_members(call: target.NodeCall) -> None:
    """List the members, which of them answer, and the progress of a change, if there is one.

    \b
    Example:
      epoxy members list --url http://127.0.0.1:7810
    """
    with call.client() as client:
        seen = client.members(progress=True)
    nodes = {row.datacenter: told for row in seen.replicas if (told := nodes_of(row))}
    if call.as_json:
        output.emit_json({**msgspec.to_builtins(seen), **({"nodes": nodes} if nodes else {})})
        return
    click.echo(headline(seen))
    heads = ("replica", "datacenter", "status", "version", "address", "state")
    output.table(heads, [cells(seen, row) for row in seen.replicas])
    if words := mixed([row.version for row in seen.replicas]):
        click.echo(f"\n{words}")
    for datacenter, told in nodes.items():
        click.echo(f"\n{datacenter} has {output.plural(len(told), 'node')}:")
        tell_nodes(told)


def nodes_of(row: MemberRow) -> list[SessionReport]:
    """Of a member with several addresses that the others hear, by the first of its nodes that answers."""
    addresses = split_urls(row.url)
    is_asked = len(addresses) > 1 and row.progress is not None and row.progress.heard
    visits = (visit(url) for url in addresses) if is_asked else ()
    return next((seen.status.nodes for seen in visits if seen.status is not None), [])


def cells(seen: Members, row: MemberRow) -> tuple[str, ...]:
    addresses = ", ".join(split_urls(row.url))
    return str(row.id), row.datacenter, row.status, row.version or "unknown", addresses, condition(seen, row)


def mixed(versions: Iterable[str]) -> str:
    """A word on releases that differ; empty: they do not."""
    known = sorted({version for version in versions if version})
    if len(known) < 2:
        return ""
    return f"The members run releases {' and '.join(known)}: an upgrade is under way, or was left half done."


def headline(seen: Members) -> str:
    words = f"Epoch {seen.epoch}, {output.plural(len(seen.replicas), 'replica')}."
    if seen.settled:
        return f"{words} No change is under way."
    wanted = ", ".join(map(str, seen.wanted))
    joint = " Old and new members decide together now." if seen.joint else ""
    waiting = f" It waits: {seen.waiting}." if seen.waiting else ""
    return f"{words} Changing to {wanted}.{joint}{waiting}"


def condition(seen: Members, row: MemberRow) -> str:
    progress = row.progress
    if progress is None or not progress.heard:
        return "DOES NOT ANSWER"
    if progress.epoch != seen.epoch:
        return f"in epoch {progress.epoch}"
    if row.status == "learning":
        return f"{progress.copied:,} keys copied, all keys of {output.plural(len(progress.sources), 'member')}"
    if seen.joint:
        return "synced" if progress.synced else "not synced yet"
    return "fine"


@members.command(short_help="Add a datacenter whose node runs already.")
@id_argument
@addresses_argument
@click.option("--replace", "gone", type=int, multiple=True, metavar="ID", help="Remove this member in the same change.")
@click.option(
    "--check/--no-check", default=True, show_default=True, help="First have a member ask the node at URL for its id."
)
@force_option
@wait_option
@wait_for_option
@target.url_option
@target.json_option
def add(member_id: int, address: str, gone: tuple[int, ...], check: bool, force: bool, **given: Any) -> None:
    """Make the node at URL a member, under ID. The node must be running, with that id and `join = true` in its
    epoxy.toml. URL is the address at which the other members reach it; a datacenter of several nodes has one for each.

    It copies what the others hold, then it votes. Clients are served meanwhile. Interrupting this command does not
    interrupt the change.

    \b
    Exit status:
      0  done (with --no-wait: written down)
      1  no node answers, or nothing could be decided
      2  refused: the change is not possible
      5  not done in time, and it goes on; or another change was asked for since
    \b
    Examples:
      epoxy members add 4 http://10.0.4.1:7800
      epoxy members add 5 http://10.0.2.1:7800 --replace 2
      epoxy members add 6 http://10.0.6.1:7800,http://10.0.6.2:7800
    """
    datacenter = ""
    if check:
        probe = introduced(member_id, address, target.NodeCall(urls=given["urls"], as_json=given["as_json"]))
        datacenter = probe.datacenter
    newcomer = Newcomer(id=member_id, url=address, datacenter=datacenter)
    order([newcomer], gone, [], force=force, **given)


@members.command(short_help="Remove a datacenter, dead or alive.")
@click.argument("member_ids", metavar="ID...", nargs=-1, required=True, type=click.IntRange(1, 2**32 - 1))
@force_option
@wait_option
@wait_for_option
@target.url_option
@target.json_option
def remove(member_ids: tuple[int, ...], force: bool, **given: Any) -> None:
    """Remove members. From then on they refuse clients with the reason, and can be stopped. A dead member is removed
    like any other, as long as a quorum of the remaining members can be reached.

    Exit status: as for `add`.

    \b
    Example:
      epoxy members remove 4 5
    """
    order([], member_ids, [], force=force, **given)


@members.command(short_help="Tell the others the new address of a datacenter.")
@id_argument
@addresses_argument
@force_option
@wait_option
@wait_for_option
@target.url_option
@target.json_option
def move(member_id: int, address: str, force: bool, **given: Any) -> None:
    """Have the other members reach member ID at URL from now on. It keeps its disk and its id. Name all nodes of a
    datacenter that has several, also to add or to leave out one of them.

    Ask a running member, before the moved node is started at its new address or after it refused to start there. In the
    file of the moved node, node.advertise_url is the new URL. From now on until it runs there it counts as
    unreachable.

    Exit status: as for `add`.

    \b
    Example:
      epoxy members move 3 http://10.0.3.9:7800 --url http://10.0.0.1:7800
    """
    order([], [], [MovedMember(id=member_id, url=address)], force=force, **given)


def introduced(member_id: int, address: str, call: target.NodeCall) -> NodeProbe:
    """The newcomer, after checking that the node at `address` is the newcomer, and one of this cluster. A member asks
    it: the members have to reach it, at its listener for peers, where this command may have no way to."""
    with call.client() as client:
        cluster = client.status().cluster
        try:
            probe = client.probe_node(member_id, address)
        except Unavailable as error:
            raise click.ClickException(
                f"the newcomer at {address} does not answer: {error}. Start it first; --no-check skips this check"
            ) from error
    check_newcomer(member_id, address, probe)
    check_cluster(probe, cluster)
    return probe


def check_newcomer(member_id: int, address: str, probe: NodeProbe) -> None:
    if probe.url and not is_one_of(probe.url, address):
        raise click.UsageError(
            f"by its own file replica {member_id} is at {probe.url}: add it there, or write "
            f'advertise_url = "{split_urls(address)[0]}" into [node] of its file and start it again'
        )
    if probe.state not in ("new", "removed", "joining", "learning"):
        raise click.UsageError(
            f"replica {member_id} is no newcomer: its state is {probe.state}, in epoch {probe.members.epoch}"
        )


def check_cluster(newcomer: NodeProbe, cluster: str) -> None:
    """Members refuse a node of another cluster, so the change would wait for it for ever."""
    if newcomer.cluster != cluster:
        setting = f'with cluster.id = "{cluster}"' if cluster else "without cluster.id"
        raise click.UsageError(
            f"replica {newcomer.id} belongs to {cluster_name(newcomer.cluster)}, and the members to "
            f"{cluster_name(cluster)}: start it {setting} in its file, and with an empty directory"
        )


def order(
    add: Sequence[Newcomer],
    remove: Sequence[int],
    moved: Sequence[MovedMember],
    *,
    force: bool,
    wait: bool,
    wait_s: float,
    urls: list[str],
    as_json: bool,
) -> None:
    with target.NodeCall(urls=urls, as_json=as_json).client(writes=True) as client:
        ordered = client.change_members(add=add, remove=remove, move=moved, force=force)
        if not as_json:
            click.echo(told(ordered.wanted, moved, queued=ordered.queued), err=True)
        if not wait:
            if as_json:
                output.emit_json(ordered)
            return
        try:
            last = follow(client, ordered.wanted, moved, wait_s, quiet=as_json)
        except KeyboardInterrupt:
            raise Interrupted("interrupted; the change goes on, and `epoxy members list` shows its progress") from None
    if as_json:
        output.emit_json(last)
    if last is None or not is_done(last, ordered.wanted, moved):
        click.echo(f"epoxy: {unfinished(last, ordered.wanted)}", err=True)
        raise click.exceptions.Exit(UNFINISHED)
    if not as_json:
        click.echo(f"Done: epoch {last.epoch}, members {', '.join(map(str, last.wanted))}.")


def unfinished(last: Members | None, wanted: tuple[int, ...]) -> str:
    if last is not None and last.wanted != wanted:
        return f"not done: another change was asked for since, to {', '.join(map(str, last.wanted))}"
    return "not done in time; it goes on, and `epoxy members list` shows its progress"


def told(wanted: Sequence[int], moved: Sequence[MovedMember], *, queued: bool) -> str:
    first = " Another change is under way, and is finished or undone first." if queued else ""
    places = "".join(f" {each.id} will be at {' and '.join(split_urls(each.url))}." for each in moved)
    return f"Written down: the members will be {', '.join(map(str, wanted))}.{places}{first}"


def follow(
    client: Client, wanted: tuple[int, ...], moved: Sequence[MovedMember], wait_s: float, *, quiet: bool
) -> Members | None:
    """Until the change is done, another one was asked for, or the time is over."""
    deadline, progress, seen = time.monotonic() + wait_s, ChangeProgress(), None
    with MembersProgress(quiet=quiet) as line:
        while time.monotonic() < deadline:
            try:
                seen = client.members(progress=True)
            except Unavailable:
                time.sleep(LOOK_S)
                continue
            line.tell(progress.look(seen, time.monotonic()))
            if is_done(seen, wanted, moved) or seen.wanted != wanted:
                break
            time.sleep(LOOK_S)
    return seen
