"""`epoxy status`: the state of a cluster in words, as one node sees it."""

from collections.abc import Mapping

import click

from epoxy.cli import output, target
from epoxy.cli.groups import SETTINGS
from epoxy.cli.output import duration
from epoxy.client import Status
from epoxy.model.api import PeerStatus, SessionReport


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
    if told.version:
        output.row("release", f"{told.version}, wire version {wire_words(told)}")
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
    """For whom it waits; the nodes of this datacenter, and the other datacenters."""
    if told.fast_rounds_wait_for:
        silent = ", ".join(map(str, told.fast_rounds_wait_for))
        output.row("writes", f"take two round trips: it was killed, and waits for replica {silent} since it is back")
    if len(told.nodes) > 1:
        click.echo()
        tell_nodes(told.nodes, told.session)
    if told.peers:
        click.echo()
        heads = ("datacenter", "replica", "version", "round trip", "state")
        output.table(heads, [peer_row(peer) for peer in told.peers])


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
    words = f"{state}: {peer.trouble}" if peer.trouble else state
    return peer.datacenter, str(peer.id), peer.version or "unknown", trip, words


def wire_words(told: Status) -> str:
    oldest, newest = told.wire_oldest, told.wire_newest
    return f"{newest}" if oldest == newest else f"{oldest} to {newest}"
