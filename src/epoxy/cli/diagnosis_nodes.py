"""Findings about datacenters of several nodes: who owns what, by the table in their database."""

from collections.abc import Iterator

from epoxy.cli.findings import Finding, broken, fine, warning
from epoxy.cli.output import plural
from epoxy.client.results import Status
from epoxy.model.api import SessionReport
from epoxy.model.node_urls import is_one_of
from epoxy.model.shards import ALL_SHARDS

UNEVEN_SHARDS = 16
"""By which the largest share may be above twice the smallest: a sixteenth of all, with which no node of up to eight is
without work. Shares differ by one in the end; they move one shard after the other."""


def nodes(statuses: list[Status]) -> Iterator[Finding]:
    for replica in sorted({status.id for status in statuses if status.nodes}):
        there = [status for status in statuses if status.id == replica and status.nodes]
        connected = [status for status in there if own_lease_ms(status) >= 0]
        yield from (cut_off(status) for status in there if status not in connected)
        if connected:
            yield from of_datacenter(newest_view(connected))


def own_lease_ms(status: Status) -> float:
    return next((node.lease_ms for node in status.nodes if node.session == status.session), 0.0)


def cut_off(status: Status) -> Finding:
    """It has not renewed its own lease: what it says of the others is as old."""
    return broken(
        f"{status.datacenter or f'replica {status.id}'} at {status.url} does not reach its database: its lease is over "
        f"since {-own_lease_ms(status) / 1000:.1f} s",
        "Nothing is decided there until it does; clients are told that the outcome is unknown. Does the database run, "
        "is store.url its address, and has it connections left? The node's log says what it answers.",
    )


def speakers(statuses: list[Status]) -> list[Status]:
    """Without nodes whose gateway is among them: what they see of other datacenters they have from it."""
    spoken_for = {status.id for status in statuses if is_gateway(status)}
    return [status for status in statuses if is_gateway(status) or status.id not in spoken_for]


def newest_view(statuses: list[Status]) -> Status:
    """The gateway's: it sees what other datacenters see of this one; without one, of the node that sees most owners."""
    return max(statuses, key=lambda status: (is_gateway(status), owned(status.nodes)))


def owned(nodes: list[SessionReport]) -> int:
    return sum(node.shards for node in nodes if node.lease_ms >= 0)


def is_gateway(status: Status) -> bool:
    return any(node.gateway and node.session == status.session for node in status.nodes)


def of_datacenter(status: Status) -> Iterator[Finding]:
    here = status.datacenter or f"replica {status.id}"
    troubles = [*silence(here, status.nodes), *orphans(here, status.nodes), *mixture(here, status.nodes)]
    troubles += [*spread(here, status.nodes), *strangers(here, status)]
    yield from troubles
    if not troubles and max(len(status.nodes), len(status.addresses)) > 1:
        shares = ", ".join(f"{plural(node.shards, 'shard')} at {node.url}{role(node)}" for node in status.nodes)
        yield fine(f"{here} has {plural(len(status.nodes), 'node')}: {shares}")


def role(node: SessionReport) -> str:
    return " (gateway)" if node.gateway else ""


def silence(here: str, nodes: list[SessionReport]) -> Iterator[Finding]:
    for node in nodes:
        if node.lease_ms >= 0:
            continue
        words = f"the node of {here} at {node.url}{role(node)} has been silent for {-node.lease_ms / 1000:.1f} s "
        words += f"beyond its lease (session {node.session})"
        if node.shards:
            yield broken(
                f"{words}, and owns {plural(node.shards, 'shard')}: their keys wait",
                "The others take them as soon as they see it, within a second. If it stays: do the nodes reach the "
                "database? Their logs say so. Start the silent node again, or stop it for good.",
            )
        else:
            yield warning(words, "It owns nothing. Start it again, or stop it for good; its session is forgotten then.")


def orphans(here: str, nodes: list[SessionReport]) -> Iterator[Finding]:
    missing = len(ALL_SHARDS) - sum(node.shards for node in nodes)
    advice = (
        "A node takes them within seconds, if one runs and reaches the database. The logs of its nodes say why not."
    )
    if not any(node.gateway for node in nodes):
        yield broken(f"{here} has no gateway: it speaks with no other datacenter", advice)
        missing -= 1
    if missing > 0:
        orphaned = "has no owner: keys of it wait" if missing == 1 else "have no owner: their keys wait"
        yield broken(f"{plural(missing, 'shard')} of {here} {orphaned}", advice)


def mixture(here: str, nodes: list[SessionReport]) -> Iterator[Finding]:
    versions = sorted({node.version for node in nodes})
    if len(versions) > 1:
        said = ", ".join(f"{node.version or 'unknown'} at {node.url}" for node in nodes)
        yield warning(
            f"the nodes of {here} have different versions ({said})",
            "As during an upgrade, one node after the other. Finish it: stop the older ones with SIGTERM, and start "
            "them with the newer version.",
        )


def spread(here: str, nodes: list[SessionReport]) -> Iterator[Finding]:
    """Of the nodes that renew their leases."""
    shares = {node.url: node.shards for node in nodes if node.lease_ms >= 0}
    if len(shares) > 1 and max(shares.values()) > 2 * min(shares.values()) + UNEVEN_SHARDS:
        said = ", ".join(f"{count} at {url}" for url, count in shares.items())
        yield warning(
            f"the shards of {here} are spread unevenly ({said})",
            "A node that was just started gets its share one shard after the other, in less than a minute: ask again. "
            "If it stays, the nodes do not reach each other at these addresses (node.advertise_url): see their logs.",
        )


def strangers(here: str, status: Status) -> Iterator[Finding]:
    """Nodes that the other datacenters do not look for. Processes of one node are at addresses of their own."""
    listed = ",".join(status.addresses)
    unknown = [node.url for node in status.nodes if not is_one_of(node.url, listed)]
    if unknown and len(unknown) < len(status.nodes):
        wanted = ",".join([*status.addresses, *unknown])
        yield warning(
            f"{here} has a node at {', '.join(unknown)}, which is none of the member's addresses: if it becomes the "
            "gateway, other datacenters do not find it",
            f"`epoxy members move {status.id} {wanted}` names all of them.",
        )
