"""What `epoxy doctor` concludes from the statuses of the nodes. Pure: statuses in, findings out."""

from collections.abc import Iterator

from epoxy.cli.diagnosis_access import exposed_files, grants, modes, openness, refusals, versions
from epoxy.cli.diagnosis_actors import homes
from epoxy.cli.diagnosis_certificates import certificates, secrets
from epoxy.cli.diagnosis_disks import changelogs, disks, failures, kept, rot, scrubs, space, violations
from epoxy.cli.diagnosis_links import ABSENT, CAUSES_HERE, clocks, cure, distances, encryption, links
from epoxy.cli.diagnosis_members import COMING, arrivals, changes, copies, transactions, unready
from epoxy.cli.diagnosis_nodes import nodes, speakers
from epoxy.cli.findings import Finding, NodeVisit, Severity, broken, fine, name, warning
from epoxy.client.auth_calls import GrantInfo
from epoxy.client.results import Status
from epoxy.model.api_actors import HomelessPage
from epoxy.model.node_urls import first_twice, is_one_of

LOW_FAST_SHARE = 0.8
"""Writes without contention are always fast. If more than every fifth was slow, writers contend for the same keys, or
few replicas beyond a slow quorum answer."""

OUTSIDE = ("new", "joining", "learning", "removed", "displaced", "unconfirmed", "confirming", "refused")
"""States of nodes that do not vote: their view of the cluster does not count."""

WAITING = ("unconfirmed", "confirming")
"""States of members that vote once they have reached others."""


def diagnose(
    visits: list[NodeVisit],
    granted: list[GrantInfo] | None = None,
    own_files: list[str] | None = None,
    homeless: HomelessPage | None = None,
) -> list[Finding]:
    """The worst first. `granted`: all grants; None: this client may not see them, and so with `homeless`, actors whose
    home is gone. `own_files`: of this client, that others can read."""
    present = [visit.status for visit in visits if visit.status is not None]
    statuses = [status for status in present if status.state not in OUTSIDE]
    expected = {peer.id for status in statuses for peer in status.peers if peer.status in COMING}
    found = [*links(speakers(conversing(present))), *attendance(visits, expected), *twins(present), *clusters(present)]
    found += nodes(present)
    for look_at_all in (copies, violations, failures, rot, scrubs, disks, space, changelogs, certificates, secrets):
        found += look_at_all(present)
    found += [*clocks(visits), *refusals(visits), *exposed_files(present, own_files or []), *homes(homeless)]
    if present:
        found += [*openness(present), *modes(present), *versions(statuses), *grants(present, granted)]
    if statuses:
        found += [*agreement(statuses), *paths(statuses)]
        for look in (availability, changes, transactions, kept, size, distances):
            found += look(speakers(statuses))
        found += [*arrivals(statuses, {status.id for status in present}), *encryption(visits)]
    order = (Severity.BROKEN, Severity.WARNING, Severity.FINE)
    return sorted(found, key=lambda finding: order.index(finding.severity))


def attendance(visits: list[NodeVisit], expected: set[int]) -> Iterator[Finding]:
    """Nodes that do not answer or are not ready: a warning, if another node of the datacenter is. `availability` judges
    whether the cluster works without them, and `arrivals` the newcomers that are expected."""
    statuses = [visit.status for visit in visits if visit.status is not None]
    newest = max((status.epoch for status in statuses), default=0)
    served = [",".join(status.addresses) for status in statuses if status.ready]
    for visit in visits:
        if visit.refused or visit.is_for_peers:
            continue
        if visit.status is None:
            finding = warning if any(is_one_of(visit.url, addresses) for addresses in served) else broken
            yield finding(f"{visit.place} does not answer: {visit.reason}", cure(visit.reason, CAUSES_HERE, ABSENT))
        elif not visit.status.ready and not (visit.status.state == "new" and visit.status.id in expected):
            yield unready(visit.status, newest)
    if unasked := [visit.place for visit in visits if visit.is_for_peers]:
        words = "not asked, because their urls are addresses for other nodes alone (node.peers)"
        finding = warning if statuses else broken
        yield finding(f"{', '.join(unasked)}: {words}", "name all nodes to --url, by their node.http or node.admin")
    if serving := sum(status.ready and status.tolerated_failures >= 0 for status in statuses):
        yield fine(f"{serving} of {len(visits)} nodes answer and are ready")


def twins(statuses: list[Status]) -> Iterator[Finding]:
    for replica in sorted({status.id for status in statuses}):
        same = [status for status in statuses if status.id == replica]
        if len(same) > 1 and not are_one_datacenter(same):
            words = f"two nodes report that they are replica {replica}"
            yield broken(words, "Two nodes with one id lose writes. Stop one.")


def are_one_datacenter(statuses: list[Status]) -> bool:
    """Nodes that share a store have one id, and each an address of its own among those that the members know."""
    listed = all(is_one_of(status.url, ",".join(status.addresses)) for status in statuses)
    return listed and first_twice(status.url for status in statuses) is None


def clusters(statuses: list[Status]) -> Iterator[Finding]:
    if len({status.cluster for status in statuses}) > 1:
        said = ", ".join(f"{name(status)}: {status.cluster or 'not restored'}" for status in statuses)
        yield broken(
            f"the nodes belong to different clusters ({said})",
            "Nodes that were not restored from one file with one list of members refuse each other. Run "
            "`epoxy restore` on each first member; one that joins needs cluster.id in its file, and an empty "
            "directory. Nodes of the old cluster do not belong here.",
        )


def availability(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        if status.tolerated_failures < 0:
            yield broken(
                f"{name(status)} reaches no quorum: nothing can be written there",
                "Names reserved earlier can still be read. Start datacenters again or repair its links.",
            )
        elif status.tolerated_failures == 0 and status.replicas not in (1, 2):
            yield warning(
                f"from {name(status)}, not one more datacenter may fail", "Start the others again before anything else."
            )
    spare = min(status.tolerated_failures for status in statuses)
    if spare > 0:
        yield fine(f"available everywhere; {spare} more datacenter{'' if spare == 1 else 's'} may fail")


def conversing(statuses: list[Status]) -> list[Status]:
    """The nodes that should reach each other: the members, and nodes that wait for just that."""
    newest = max((status.epoch for status in statuses), default=0)
    return [
        status
        for status in statuses
        if status.state not in OUTSIDE or (status.state in WAITING and status.epoch == newest)
    ]


def agreement(statuses: list[Status]) -> Iterator[Finding]:
    epochs = {status.epoch for status in statuses}
    if len(epochs) > 1:
        said = ", ".join(f"{name(status)}: {status.epoch}" for status in statuses)
        yield broken(
            f"the nodes are in different epochs ({said})", "Nodes with an older epoch have missed a change of members."
        )
    policies = {status.quorum_policy for status in statuses}
    if len(policies) > 1:
        yield broken("the nodes have different quorum policies", "cluster.quorum_policy must be the same everywhere.")


def size(statuses: list[Status]) -> Iterator[Finding]:
    """By the first status: `agreement` reports differences."""
    status = statuses[0]
    match status.replicas:
        case None:
            return
        case 1:
            yield warning("one replica: when it is down nothing works", "Three tolerate the loss of one.")
        case 2:
            yield warning("two replicas: when either is down nothing can be written", "Three tolerate the loss of one.")
        case n if n % 2 == 0:
            yield warning(f"{n} replicas tolerate no more failures than {n - 1}", f"{n + 1} would tolerate one more.")
    if status.quorum_policy == "fast-paxos" and status.replicas > 2:
        yield warning(
            f"quorum_policy is fast-paxos: a fresh key waits for {status.fast_quorum} of {status.replicas} replicas",
            "The default, optimal, is as safe and needs fewer.",
        )


def paths(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        if status.fast_path_share is not None and status.fast_path_share < LOW_FAST_SHARE:
            yield warning(
                f"only {status.fast_path_share:.0%} of the writes at {name(status)} took one round trip",
                "Several datacenters write the same keys, or too few replicas answer. Let each write its own keys.",
            )
