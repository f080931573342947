"""Findings about datacenters of several nodes: who owns what, by the table in their database."""

import shlex
from collections.abc import Iterator, Sequence

from epoxy.cli.diagnosis_links import START, speaks
from epoxy.cli.finding_kinds import FindingKind
from epoxy.cli.findings import Finding, broken, fine, warning
from epoxy.cli.output import plural
from epoxy.client.results import Status
from epoxy.model.api import SessionReport
from epoxy.model.node_urls import is_one_of, same_url
from epoxy.model.shards import ALL_SHARDS

UNEVEN_SHARDS = 16
"""By which the largest share may be above twice the smallest: a sixteenth of all, with which no node of up to eight is
without work. Shares differ by one in the end; they move one shard after the other."""


LATE_MS = 750.0
"""Since a node has heard its database last: it asks four times a second, so three answers are missing."""

LOW_LEASE = 0.5
"""Of a lease: a node renews it five times before it is over, so two or three renewals have failed."""

UNLIKE_LEASES = 2.0
"""How many times as long as the shortest lease of a datacenter the longest may be. Nodes judge each other by their own:
one may hand shards to another that counts as silent there."""


def nodes(statuses: Sequence[Status]) -> Iterator[Finding]:
    for replica in sorted({status.id for status in statuses if status.nodes}):
        there = [status for status in statuses if status.id == replica and status.nodes]
        current = connected(there)
        yield from (cut_off(status) for status in there if status not in current)
        yield from (late(status) for status in current if not is_served(status))
        yield from unlike_leases(there)
        if current:
            yield from of_datacenter(newest_view(current))


def connected(statuses: Sequence[Status]) -> list[Status]:
    """Without nodes whose lease in their database is over: `cut_off` says so, and what they see is as old."""
    return [status for status in statuses if own_lease_ms(status) >= 0]


def shards_of(url: str, statuses: Sequence[Status]) -> int:
    """Of the node at this address, by the tables of others."""
    return max([node.shards for status in statuses for node in status.nodes if same_url(node.url, url)], default=0)


def own_lease_ms(status: Status) -> float:
    return next((node.lease_ms for node in status.nodes if node.session == status.session), 0.0)


def unheard_ms(status: Status) -> float:
    """Since the node has heard its database: with each answer of that its lease begins anew."""
    return status.store_lease_ms - own_lease_ms(status) if status.store_lease_ms is not None and status.nodes else 0.0


def is_served(status: Status) -> bool:
    """Whether its database has answered lately, or it has none."""
    return unheard_ms(status) <= min(LATE_MS, (status.store_lease_ms or LATE_MS) * LOW_LEASE)


def cut_off(status: Status) -> Finding:
    """It has not renewed its own lease: what it says of the others is as old."""
    return broken(
        FindingKind.DATABASE_AWAY,
        f"{here_of(status)} at {status.url} does not reach its database: its lease is over since "
        f"{-own_lease_ms(status) / 1000:.1f} s",
        DATABASE,
        PSQL,
    )


def late(status: Status) -> Finding:
    return warning(
        FindingKind.DATABASE_LATE,
        f"{here_of(status)} at {status.url} has not heard its database for {unheard_ms(status) / 1000:.1f} s; its "
        f"lease ends in {own_lease_ms(status) / 1000:.1f} s",
        f"It may have gone just now: ask again. {DATABASE}",
        PSQL,
    )


DATABASE = (
    "Does the database run, is store.url its address, and has it connections left? The node's log says what it "
    "answers. On the node's machine:"
)
PSQL = "psql STORE-URL -c 'SELECT pg_is_in_recovery()'"


def here_of(status: Status) -> str:
    return status.datacenter or f"replica {status.id}"


def unlike_leases(statuses: Sequence[Status]) -> Iterator[Finding]:
    leases = {status.url: status.store_lease_ms for status in statuses if status.store_lease_ms is not None}
    if len(leases) > 1 and max(leases.values()) >= UNLIKE_LEASES * min(leases.values()):
        said = ", ".join(f"{lease_ms / 1000:g} s at {url}" for url, lease_ms in leases.items())
        yield warning(
            FindingKind.LEASES_DIFFER,
            f"the nodes of {here_of(statuses[0])} have leases of different lengths ({said})",
            "Write the same store.lease_ms into the file of each (5000 is the default), and restart one after the "
            "other.",
        )


def speakers(statuses: Sequence[Status]) -> list[Status]:
    """Without nodes whose gateway is among them: what they see of other datacenters they have from it."""
    spoken_for = {status.id for status in statuses if speaks(status)}
    return [status for status in statuses if speaks(status) or status.id not in spoken_for]


def newest_view(statuses: Sequence[Status]) -> Status:
    """The gateway's: it sees what other datacenters see of this one; without one, of the node that sees most owners."""
    return max(statuses, key=lambda status: (speaks(status), owned(status.nodes)))


def owned(nodes: list[SessionReport]) -> int:
    return sum(node.shards for node in nodes if node.lease_ms >= 0)


def of_datacenter(status: Status) -> Iterator[Finding]:
    here = here_of(status)
    troubles = [*silence(here, status.nodes), *endings(here, status), *orphans(here, status.nodes)]
    troubles += [*mixture(here, status.nodes), *idle(here, status.nodes), *spread(here, status.nodes)]
    troubles += unlisted(here, status)
    yield from troubles
    if not troubles and is_served(status) and max(len(status.nodes), len(status.addresses)) > 1:
        shares = ", ".join(f"{plural(node.shards, 'shard')} at {node.url}{role(node)}" for node in status.nodes)
        yield fine(FindingKind.DATACENTER_FINE, f"{here} has {plural(len(status.nodes), 'node')}: {shares}")


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
                FindingKind.NODE_OF_DATACENTER_SILENT,
                f"{words}, and owns {plural(node.shards, 'shard')}: their keys wait",
                "The others take them as soon as they see it, within a second. If it stays: do the nodes reach the "
                "database? Their logs say so. Start the silent node again, or stop it for good.",
                START,
            )
        else:
            advice = "It owns nothing. Start it again, or stop it for good; its session is forgotten then."
            yield warning(FindingKind.NODE_OF_DATACENTER_SILENT, words, advice, START)


def endings(here: str, status: Status) -> Iterator[Finding]:
    """Leases of other nodes that have not been renewed in time, by the table of a node that hears the database."""
    whole_ms = status.store_lease_ms
    for node in status.nodes:
        if whole_ms is None or node.session == status.session or not is_served(status):
            continue
        if 0 <= node.lease_ms < LOW_LEASE * whole_ms - unheard_ms(status):
            yield warning(
                FindingKind.LEASE_ENDING,
                f"the lease of the node of {here} at {node.url} ends in {node.lease_ms / 1000:.1f} s of "
                f"{whole_ms / 1000:g} s, and is not renewed",
                "It is paused, overloaded, or has lost the database just now: ask again. Its log says which.",
                f"epoxy status --url {shlex.quote(node.url)}",
            )


def orphans(here: str, nodes: list[SessionReport]) -> Iterator[Finding]:
    missing = len(ALL_SHARDS) - sum(node.shards for node in nodes)
    advice = (
        "A node takes them within seconds, if one runs and reaches the database. The logs of its nodes say why not."
    )
    if not any(node.gateway for node in nodes):
        yield broken(FindingKind.NO_GATEWAY, f"{here} has no gateway: it speaks with no other datacenter", advice)
        missing -= 1
    if missing > 0:
        orphaned = "has no owner: keys of it wait" if missing == 1 else "have no owner: their keys wait"
        yield broken(FindingKind.SHARDS_ORPHANED, f"{plural(missing, 'shard')} of {here} {orphaned}", advice)


def mixture(here: str, nodes: list[SessionReport]) -> Iterator[Finding]:
    versions = sorted({node.version for node in nodes})
    if len(versions) > 1:
        said = ", ".join(f"{node.version or 'unknown'} at {node.url}" for node in nodes)
        yield warning(
            FindingKind.VERSIONS_DIFFER,
            f"the nodes of {here} have different versions ({said})",
            "As during an upgrade, one node after the other. Finish it: stop the older ones with SIGTERM, and start "
            "them with the newer version.",
        )


def idle(here: str, nodes: list[SessionReport]) -> Iterator[Finding]:
    """Nodes that renew their leases and own nothing, beside others that do."""
    there = [node for node in nodes if node.lease_ms >= 0]
    for node in there:
        if not node.shards and len(there) > 1:
            yield warning(
                FindingKind.NODE_WITHOUT_SHARDS,
                f"the node of {here} at {node.url} owns no shards",
                "A node that was just started gets its share within a minute: ask again. If it stays, the other nodes "
                "do not reach it there: is that its node.advertise_url, and has it their secret?",
                f"epoxy status --url {shlex.quote(node.url)}",
            )


def spread(here: str, nodes: list[SessionReport]) -> Iterator[Finding]:
    """Of the nodes that renew their leases, and own some: `idle` names the others."""
    shares = {node.url: node.shards for node in nodes if node.lease_ms >= 0 and node.shards}
    if len(shares) > 1 and max(shares.values()) > 2 * min(shares.values()) + UNEVEN_SHARDS:
        said = ", ".join(f"{count} at {url}" for url, count in shares.items())
        yield warning(
            FindingKind.SHARDS_UNEVEN,
            f"the shards of {here} are spread unevenly ({said})",
            "A node that was just started gets its share one shard after the other, in less than a minute: ask again. "
            "If it stays, the nodes do not reach each other at these addresses (node.advertise_url): see their logs.",
        )


def unlisted(here: str, status: Status) -> Iterator[Finding]:
    """Nodes that the other datacenters do not look for. Processes of one node are at addresses of their own."""
    listed = ",".join(status.addresses)
    unknown = [node.url for node in status.nodes if not is_one_of(node.url, listed)]
    if unknown and len(unknown) < len(status.nodes):
        wanted = ",".join([*status.addresses, *unknown])
        yield warning(
            FindingKind.ADDRESS_UNLISTED,
            f"{here} has a node at {', '.join(unknown)}, which is none of the member's addresses",
            "Name all of them:",
            f"epoxy members move {status.id} {shlex.quote(wanted)}",
        )
