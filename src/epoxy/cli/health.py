"""`epoxy status` and `epoxy doctor`: the state of a cluster in words."""

import time
from collections.abc import Mapping
from contextlib import suppress

import click

from epoxy.cli import credentials, output, target
from epoxy.cli.diagnosis import diagnose
from epoxy.cli.findings import Finding, NodeVisit, Severity
from epoxy.cli.groups import SETTINGS
from epoxy.client import Status
from epoxy.client.auth_calls import GrantInfo
from epoxy.model.api import PeerStatus, SessionReport
from epoxy.model.api_actors import HomelessPage
from epoxy.model.errors import AccessRefused, ClientError, EpoxyError, InvalidRequest
from epoxy.model.node_urls import same_url, split_urls
from epoxy.node.process.secret_files import is_open_to_others

VISIT_S = 3.0
"""For the status of one node: ten times the longest round trip of our table."""


@click.command(context_settings=SETTINGS, short_help="Show whether the cluster is available, and what may fail.")
@target.call_options
def status(call: target.NodeCall) -> None:
    """Print how the cluster looks from one node: the first of --url that answers.

    Exit status: 0 available, 1 not available or no node answers.

    \b
    Example:
      epoxy status --url http://127.0.0.1:7810
    """
    with call.client() as client:
        told = client.status()
    if call.as_json:
        output.emit_json(told.document)
    else:
        tell_status(told)
    raise click.exceptions.Exit(0 if is_available(told) else 1)


def is_available(told: Status) -> bool:
    return told.ready and told.tolerated_failures >= 0


def tell_status(told: Status) -> None:
    click.secho(headline(told), fg="green" if is_available(told) else "red", bold=True)
    among = f", one of {', '.join(told.addresses)}" if len(told.addresses) > 1 else ""
    output.row("this node", f"{told.datacenter}, replica {told.id}, pid {told.pid}{among}")
    output.row("configuration", f"epoch {told.epoch}{sizes(told)}")
    if told.joint:
        output.row("a change", "old and new members decide together now; `epoxy members list` shows more")
    if told.ready and told.txn_state not in ("", "open"):
        behind = f", {told.txn_behind} decisions behind" if told.txn_behind else ""
        output.row("transactions", f"wait: {told.txn_state}, term {told.txn_term}{behind}")
    if told.fast_path_share is not None:
        output.row("fast path", f"{told.fast_path_share:.1%} of the writes decided here took one round trip")
    if told.floor_ms is not None:
        output.row("floor", f"{told.floor_ms:.1f} ms: the round trip to the nearest quorum, for a fresh key")
    if told.uptime_s is not None:
        output.row("up for", duration(told.uptime_s))
    if told.auth:
        output.row("access", access_words(told))
    if told.certificates and told.clock_s is not None:
        output.row("certificate", certificate_words(told.certificates, told.clock_s))
    if len(told.secrets) > 1:
        spoken, *others = told.secrets
        output.row("secrets", f"speaks {spoken}, accepts {', '.join(others)}, too: one is being replaced")
    if told.start is not None:
        output.row("store", f"{told.start.state}, start {told.start.starts}, position {told.start.position:,}")
    tell_others(told)


def tell_others(told: Status) -> None:
    """The nodes of this datacenter, and the other datacenters."""
    if len(told.nodes) > 1:
        click.echo()
        tell_nodes(told.nodes, told.session)
    if told.peers:
        click.echo()
        output.table(("datacenter", "replica", "round trip", "state"), [peer_row(peer) for peer in told.peers])


def tell_nodes(nodes: list[SessionReport], own: int = 0) -> None:
    """The nodes of one datacenter; `own`: the session of the one that is asked."""
    heads = ("node", "session", "shards", "version", "state")
    output.table(heads, [node_row(node, own) for node in nodes])


def node_row(node: SessionReport, own: int) -> tuple[str, ...]:
    state = "serving" if node.lease_ms >= 0 else f"SILENT for {-node.lease_ms / 1000:.1f} s beyond its lease"
    words = [state, *(["gateway"] if node.gateway else []), *(["this node"] if node.session == own else [])]
    return node.url, str(node.session), str(node.shards), node.version, ", ".join(words)


def certificate_words(ends: Mapping[str, float], now_s: float) -> str:
    """Of the one that ends first: the node's own, or its authority."""
    setting, end = min(ends.items(), key=lambda entry: entry[1])
    left = f"has expired {duration(now_s - end)} ago" if end <= now_s else f"expires in {duration(end - now_s)}"
    return f"tls.{setting} {left}"


def access_words(told: Status) -> str:
    grants = f"{output.plural(told.grants, 'grant')}, version {told.access_version}" if told.access_version else ""
    if told.auth == "tokens":
        return f"by tokens; {grants or 'no grants yet: `epoxy auth init` on a node makes the first'}"
    where = f", for other machines at {', '.join(told.open_listeners)}" if told.open_listeners else ", on this machine"
    return f"OPEN{where}: every client may do everything" + (f"; {grants}, not asked for" if grants else "")


def headline(told: Status) -> str:
    if told.reason and told.state not in ("starting", "stopping"):
        return f"Not serving: {told.reason}."
    if not told.ready:
        return f"Not ready: {told.datacenter} is starting or stopping."
    match told.tolerated_failures:
        case missing if missing < 0:
            return f"Not available: {output.plural(-missing, 'datacenter')} too few can be reached to decide anything."
        case 0:
            return "Available, but not one more datacenter may fail."
        case spare:
            return f"Available. {output.plural(spare, 'more datacenter')} may fail."


def sizes(told: Status) -> str:
    if told.replicas is None:
        return ""
    quorums = f"a fresh key needs {told.fast_quorum} of them, a contended one {told.slow_quorum}"
    return f", {output.plural(told.replicas, 'replica')}; {quorums}"


def peer_row(peer: PeerStatus) -> tuple[str, ...]:
    trip = f"{peer.rtt_ms:.1f} ms" if peer.rtt_ms is not None else "unknown"
    state = "reachable" if peer.reachable else "OUT OF REACH"
    if peer.status != "active":
        state = f"{state}, {peer.status}"
    return peer.datacenter, str(peer.id), trip, f"{state}: {peer.trouble}" if peer.trouble else state


def duration(seconds: float) -> str:
    """In its two largest units."""
    units = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
    left, parts = int(seconds), []
    for name, size in units:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts[:2]) or "less than a second"


@click.command(context_settings=SETTINGS, short_help="Ask every node, and report what is broken or dangerous.")
@target.url_option
@target.json_option
def doctor(urls: list[str], as_json: bool) -> None:
    """Ask the nodes of --url and all their peers for their status, compare the answers, and report what is broken, what
    is configured dangerously, and what to do.

    Exit status: 0 nothing is broken (there may be warnings), 1 something is broken.

    \b
    Example:
      epoxy doctor
    """
    with output.spinner("asking every node"):
        visits = visit_all(urls)
        findings = diagnose(visits, granted(visits), exposed_token_files(), homeless(visits))
    if as_json:
        output.emit_json({"healthy": not broken(findings), "findings": findings})
    else:
        for finding in findings:
            tell_finding(finding)
    raise click.exceptions.Exit(1 if broken(findings) else 0)


def granted(visits: list[NodeVisit]) -> list[GrantInfo] | None:
    """As the first node that tells them knows them. None: none does, because this client may not see them, or the nodes
    have other addresses for operators."""
    for visit in visits:
        if visit.status is not None:
            with (
                suppress(EpoxyError),
                target.connect(visit.url, timeout=VISIT_S, connect_timeout=VISIT_S) as client,
            ):
                return client.auth.grants()
    return None


def homeless(visits: list[NodeVisit]) -> HomelessPage | None:
    """Actors whose home is gone, as a node knows that is ready; None: none tells."""
    for visit in visits:
        if visit.status is not None and visit.status.ready:
            with (
                suppress(EpoxyError),
                target.connect(visit.url, timeout=VISIT_S, connect_timeout=VISIT_S) as client,
            ):
                return client.actors.homeless()
    return None


def exposed_token_files() -> list[str]:
    file = credentials.token_file()
    return [str(file)] if file is not None and is_open_to_others(file) else []


def broken(findings: list[Finding]) -> bool:
    return any(finding.severity is Severity.BROKEN for finding in findings)


def visit_all(urls: list[str]) -> list[NodeVisit]:
    """The named nodes, then the other nodes of their datacenters, and those of the peers they report."""
    visits = {url: visit(url) for url in urls}
    statuses = [seen.status for seen in visits.values() if seen.status is not None]
    known = {status.id for status in statuses}
    places = [(url, status.datacenter) for status in statuses for url in others_of(status, statuses)]
    for peer in [peer for status in statuses for peer in status.peers if peer.id not in known]:
        places += [(url, peer.datacenter) for url in split_urls(peer.url or "")]
    for url, datacenter in places:
        if url not in visits:
            visits[url] = visit(url, datacenter)
    return list(visits.values())


def others_of(status: Status, visited: list[Status]) -> list[str]:
    """The addresses of other nodes of its datacenter, without those that were visited, perhaps at another address."""
    there = [each.url for each in visited if each.id == status.id and each.url]
    return [url for url in status.addresses if not any(same_url(url, own) for own in there)] if there else []


def visit(url: str, datacenter: str = "") -> NodeVisit:
    try:
        with target.connect(url, timeout=VISIT_S, connect_timeout=VISIT_S) as client:
            begun = time.time()
            status = client.status()
            here = (begun + time.time()) / 2
            ahead = status.clock_s - here if status.clock_s is not None else None
            return NodeVisit(url=url, status=status, clock_ahead_s=ahead)
    except InvalidRequest as error:
        is_for_peers = str(error).endswith(f"({WRONG_LISTENER})")
        return NodeVisit(url=url, status=None, reason=str(error), datacenter=datacenter, is_for_peers=is_for_peers)
    except ClientError as error:
        reason = str(error).removeprefix(f"{url}: ")
        refused = isinstance(error, AccessRefused)
        return NodeVisit(url=url, status=None, reason=reason, datacenter=datacenter, refused=refused)


WRONG_LISTENER = "wrong_listener"

COLOURS = {Severity.FINE: "green", Severity.WARNING: "yellow", Severity.BROKEN: "red"}


def tell_finding(finding: Finding) -> None:
    click.secho(f"{finding.severity.value:<8}", fg=COLOURS[finding.severity], bold=True, nl=False)
    click.echo(finding.words)
    if finding.advice:
        click.echo(f"{'':<8}{finding.advice}")
