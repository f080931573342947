"""What `epoxy doctor` concludes from the answers of the nodes. Pure: answers in, findings out."""

import shlex
from collections.abc import Iterator, Sequence

from epoxy.cli.diagnosis_access import exposed_files, grants, modes, openness, refusals, versions
from epoxy.cli.diagnosis_actors import homes, unseen_actors, workers
from epoxy.cli.diagnosis_certificates import authorities, certificates, flaws, placeholders, secrets
from epoxy.cli.diagnosis_disks import changelogs, disks, failures, kept, rot, scrubs, space, violations
from epoxy.cli.diagnosis_files import NodeFiles, files_findings
from epoxy.cli.diagnosis_links import ABSENT, CAUSES_HERE, START, clocks, cure, distances, encryption, links
from epoxy.cli.diagnosis_members import COMING, absences, arrivals, changes, copies, transactions, unready
from epoxy.cli.diagnosis_nodes import connected, is_served, nodes, shards_of, speakers
from epoxy.cli.diagnosis_versions import own_release, releases
from epoxy.cli.finding_kinds import FindingKind
from epoxy.cli.findings import Finding, NodeVisit, Severity, addressed, broken, fine, name, unknown, warning
from epoxy.cli.node_visits import ClusterAnswers
from epoxy.cli.output import plural
from epoxy.client.results import Status
from epoxy.model.node_urls import first_twice, is_one_of, spelling, split_urls

LOW_FAST_SHARE = 0.8
"""Writes without contention are always fast. If more than every fifth was slow, writers contend for the same keys, or
few replicas beyond a slow quorum answer."""

OUTSIDE = ("new", "joining", "learning", "removed", "displaced", "unconfirmed", "confirming", "refused")
"""States of nodes that do not vote: their view of the cluster does not count."""

WAITING = ("unconfirmed", "confirming")
"""States of members that vote once they have reached others."""

ORDER = (Severity.BROKEN, Severity.WARNING, Severity.UNKNOWN, Severity.FINE)

NOTHING = ClusterAnswers()


def diagnose(
    visits: Sequence[NodeVisit],
    answers: ClusterAnswers = NOTHING,
    own_files: Sequence[str] = (),
    files: NodeFiles | None = None,
) -> list[Finding]:
    """The worst first. `own_files`: tokens of this client that others can read. `files`: of the node on this machine,
    if they were looked at."""
    strange = strangers(visits)
    visits = [visit for visit in visits if visit not in strange]
    found = [*other_clusters(strange, visits), *of_visits(visits, answers)]
    found += [*exposed_files(statuses_of(visits), own_files), *files_findings(files)]
    url = next((visit.url for visit in visits if visit.status is not None and visit.status.ready), None)
    return [addressed(finding, url) for finding in sorted(found, key=lambda each: ORDER.index(each.severity))]


def statuses_of(visits: Sequence[NodeVisit]) -> list[Status]:
    return [visit.status for visit in visits if visit.status is not None]


def of_visits(visits: Sequence[NodeVisit], answers: ClusterAnswers) -> Iterator[Finding]:
    present = statuses_of(visits)
    statuses = [status for status in present if status.state not in OUTSIDE]
    expected = {peer.id for status in statuses for peer in status.peers if peer.status in COMING}
    yield from links(connected(speakers(conversing(present))))
    yield from attendance(visits, expected)
    yield from [*misplaced(visits), *twins(present), *clusters(present), *nodes(present)]
    for look_at_all in (
        *(copies, violations, failures, rot, scrubs, disks, space, changelogs),
        *(certificates, flaws, authorities, secrets, placeholders),
    ):
        yield from look_at_all(present)
    yield from [*clocks(visits), *refusals(visits)]
    yield from [*homes(answers.homeless), *workers(answers.pools, present), *unseen_actors(answers.unseen)]
    if present:
        yield from [*openness(present), *modes(present), *versions(statuses), *releases(present), *own_release(present)]
        yield from grants(present, answers.grants, answers.unseen.get("grants", ""))
    if statuses:
        yield from [*agreement(statuses), *paths(statuses), *absences(visits, speakers(statuses))]
        served = [status for status in connected(speakers(statuses)) if is_served(status)]
        yield from availability(served, is_whole=len(present) == len(visits) and len(served) == len(speakers(statuses)))
        for look in (changes, transactions, kept, size, distances):
            yield from look(speakers(statuses))
        yield from [*arrivals(statuses, {status.id for status in present}), *encryption(visits)]


def strangers(visits: Sequence[NodeVisit]) -> list[NodeVisit]:
    """Nodes that know none of the addresses that the first node, and those it knows, know: another cluster's. What they
    say of theirs would be taken for this one's."""
    told = [(visit, addresses_of(visit.status)) for visit in visits if visit.status is not None]
    rest = [each for each in told if each[1]]
    if not rest:
        return []
    known = set(rest.pop(0)[1])
    while near := [each for each in rest if each[1] & known]:
        known.update(*[addresses for _, addresses in near])
        rest = [each for each in rest if each not in near]
    return [visit for visit, _ in rest]


def addresses_of(status: Status) -> set[tuple[str, str, int | None]]:
    """Of all nodes it knows, itself included."""
    named = [status.url, *status.addresses, *(url for peer in status.peers for url in split_urls(peer.url or ""))]
    return {spelling(url) for url in named if url}


def other_clusters(strange: Sequence[NodeVisit], ours: Sequence[NodeVisit]) -> Iterator[Finding]:
    if strange:
        first = next((visit.url for visit in ours if visit.status is not None), "")
        who = ", ".join(f"{name(visit.status)} at {visit.url}" for visit in strange if visit.status is not None)
        words = "is a node" if len(strange) == 1 else "are nodes"
        yield broken(
            FindingKind.OTHER_CLUSTER,
            f"{who} {words} of another cluster: none of the nodes that {first} knows is known there",
            "Nothing else was looked at there. Name nodes of one cluster to --url; the other one by itself:",
            f"epoxy doctor --url {shlex.quote(strange[0].url)}",
        )


def attendance(visits: Sequence[NodeVisit], expected: set[int]) -> Iterator[Finding]:
    """Nodes that do not answer or are not ready: a warning, if another node of the datacenter is. `availability` judges
    whether the cluster works without them, and `arrivals` the newcomers that are expected."""
    statuses = statuses_of(visits)
    newest = max((status.epoch for status in statuses), default=0)
    served = [",".join(status.addresses) for status in statuses if status.ready]
    for visit in visits:
        if visit.refused or visit.is_for_peers:
            continue
        if visit.status is None:
            has_sibling = any(is_one_of(visit.url, addresses) for addresses in served)
            yield silent(visit, statuses, shards_of(visit.url, statuses), has_sibling=has_sibling)
        elif not visit.status.ready and not (visit.status.state == "new" and visit.status.id in expected):
            yield unready(visit.status, newest)
    if unasked := [visit.place for visit in visits if visit.is_for_peers]:
        words = "not asked, because their urls are addresses for other nodes alone (node.peers)"
        finding = unknown if statuses else broken
        yield finding(
            FindingKind.NODE_NOT_ASKED,
            f"{', '.join(unasked)}: {words}",
            "Name all nodes to --url, by their node.http or node.admin.",
        )
    if serving := sum(status.ready and status.tolerated_failures >= 0 and is_served(status) for status in statuses):
        yield fine(FindingKind.NODES_READY, f"{serving} of {len(visits)} nodes answer and are ready")


def silent(visit: NodeVisit, statuses: Sequence[Status], shards: int, *, has_sibling: bool) -> Finding:
    reaching = sorted(
        {
            status.datacenter
            for status in statuses
            if any(peer.id == visit.expected and peer.reachable for peer in status.peers)
        }
    )
    words = f"{visit.place} does not answer: {visit.reason}"
    words += f"; {', '.join(reaching)} {'reaches' if len(reaching) == 1 else 'reach'} that member" if reaching else ""
    words += f"; it owns {plural(shards, 'shard')}" if shards else ""
    advice = cure(visit.reason, CAUSES_HERE, ABSENT)
    commands = (START,) if advice == ABSENT else ()
    return (warning if has_sibling and not shards else broken)(FindingKind.NODE_SILENT, words, advice, *commands)


def misplaced(visits: Sequence[NodeVisit]) -> Iterator[Finding]:
    for visit in visits:
        if visit.status is not None and visit.expected not in (None, visit.status.id):
            yield broken(
                FindingKind.WRONG_NODE,
                f"at {visit.url}, the address of {visit.datacenter or 'replica'} ({visit.expected}), answers "
                f"{name(visit.status)}",
                f"Start replica {visit.expected} there, or tell the members where it is: `epoxy members move "
                f"{visit.expected}`, with its address.",
                "epoxy members list",
            )


def twins(statuses: Sequence[Status]) -> Iterator[Finding]:
    for replica in sorted({status.id for status in statuses}):
        same = [status for status in statuses if status.id == replica]
        if len(same) > 1 and not are_one_datacenter(same):
            where = ", ".join(f"pid {status.pid} at {status.url or 'an unknown address'}" for status in same)
            yield broken(
                FindingKind.TWIN_IDS,
                f"two nodes report that they are replica {replica} ({where})",
                "Stop the one that was started last: SIGTERM to its pid, on its machine.",
            )


def are_one_datacenter(statuses: Sequence[Status]) -> bool:
    """Nodes that share a store have one id, and each an address of its own among those that the members know."""
    listed = all(is_one_of(status.url, ",".join(status.addresses)) for status in statuses)
    return listed and first_twice(status.url for status in statuses) is None


def clusters(statuses: Sequence[Status]) -> Iterator[Finding]:
    if len({status.cluster for status in statuses}) > 1:
        said = ", ".join(f"{name(status)}: {status.cluster or 'not restored'}" for status in statuses)
        yield broken(
            FindingKind.OTHER_CLUSTER,
            f"the nodes belong to different clusters ({said})",
            "Run `epoxy restore`, of one file, on each first member; one that joins needs cluster.id in its file, and "
            "an empty directory. Nodes of the old cluster do not belong here.",
        )


def availability(statuses: Sequence[Status], *, is_whole: bool) -> Iterator[Finding]:
    """`is_whole`: all nodes have answered."""
    for status in statuses:
        away = ", ".join(f"{peer.datacenter} at {peer.url}" for peer in status.peers if not peer.reachable)
        if status.tolerated_failures < 0:
            yield broken(
                FindingKind.NO_QUORUM,
                f"{name(status)} reaches no quorum: {plural(-status.tolerated_failures, 'datacenter')} too few",
                f"Start datacenters again or repair its links: {away or 'it names none'}.",
            )
        elif status.tolerated_failures == 0 and status.replicas not in (1, 2):
            yield warning(
                FindingKind.NO_SPARE,
                f"from {name(status)}, not one more datacenter may fail",
                f"Start the others again before anything else{f': {away}' if away else ''}.",
            )
    spare = min([status.tolerated_failures for status in statuses], default=0)
    if spare > 0:
        where = "everywhere" if is_whole else f"at the {plural(len(statuses), 'datacenter')} that answered"
        yield fine(FindingKind.AVAILABLE, f"available {where}; {plural(spare, 'more datacenter')} may fail")


def conversing(statuses: Sequence[Status]) -> list[Status]:
    """The nodes that should reach each other: the members, and nodes that wait for just that."""
    newest = max((status.epoch for status in statuses), default=0)
    return [
        status
        for status in statuses
        if status.state not in OUTSIDE or (status.state in WAITING and status.epoch == newest)
    ]


def agreement(statuses: Sequence[Status]) -> Iterator[Finding]:
    epochs = {status.epoch for status in statuses}
    if len(epochs) > 1:
        said = ", ".join(f"{name(status)}: {status.epoch}" for status in statuses)
        yield broken(
            FindingKind.EPOCHS_DIFFER,
            f"the nodes are in different epochs ({said})",
            "It learns of the change from the others as soon as it reaches them: repair its links, and ask again.",
            "epoxy members list",
        )
    policies = {status.quorum_policy for status in statuses}
    if len(policies) > 1:
        said = ", ".join(f"{name(status)}: {status.quorum_policy}" for status in statuses)
        yield broken(
            FindingKind.POLICIES_DIFFER,
            f"the nodes have different quorum policies ({said})",
            "cluster.quorum_policy must be the same in every file.",
        )


def size(statuses: Sequence[Status]) -> Iterator[Finding]:
    """By the first status: `agreement` reports differences."""
    status = statuses[0]
    more = "Add datacenters, each with a node that runs with join = true: `epoxy members add`, with its id and address."
    match status.replicas:
        case None:
            return
        case 1:
            words = "one replica: when it is down nothing works"
            yield warning(FindingKind.FEW_REPLICAS, words, f"Three tolerate the loss of one. {more}")
        case 2:
            words = "two replicas: when either is down nothing can be written"
            yield warning(FindingKind.FEW_REPLICAS, words, f"Three tolerate the loss of one. {more}")
        case n if n % 2 == 0:
            yield warning(
                FindingKind.EVEN_REPLICAS,
                f"{n} replicas tolerate no more failures than {n - 1}",
                f"{n + 1} would tolerate one more. {more}",
            )
    if status.quorum_policy == "fast-paxos" and status.replicas > 2:
        yield warning(
            FindingKind.FAST_PAXOS,
            f"quorum_policy is fast-paxos: a fresh key waits for {status.fast_quorum} of {status.replicas} replicas",
            "The default, optimal, is as safe and needs fewer.",
        )


def paths(statuses: Sequence[Status]) -> Iterator[Finding]:
    for status in statuses:
        if status.fast_rounds_wait_for:
            silent = ", ".join(map(str, status.fast_rounds_wait_for))
            yield warning(
                FindingKind.ROUNDS_WAIT,
                f"writes at {name(status)} take two round trips: it was killed, and waits for replica {silent}",
                "Start that one, with this release; replace it if it is gone.",
            )
        elif status.fast_path_share is not None and status.fast_path_share < LOW_FAST_SHARE:
            yield warning(
                FindingKind.SLOW_PATH,
                f"only {status.fast_path_share:.0%} of the writes at {name(status)} took one round trip",
                "Several datacenters write the same keys, or too few replicas answer. Let each write its own keys.",
            )
