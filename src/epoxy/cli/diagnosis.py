"""What `epoxy doctor` concludes from the statuses of the nodes. Pure: statuses in, findings out."""

import enum
from collections.abc import Iterator
from ipaddress import ip_address

from msgspec import Struct

from epoxy.client.http1 import parse_url
from epoxy.client.results import Status
from epoxy.model.api import PeerStatus

LOW_FAST_SHARE = 0.8
"""Writes without contention are always fast. If more than every fifth was slow, writers contend for the same keys, or
few replicas beyond a slow quorum answer."""

LONG_JOINT_S = 60.0
"""A joint epoch should take less than five seconds."""

MANY_KEPT = 100_000
"""Decisions: 100 MB of disk, and half a minute for the member that has to learn them."""

LONG_LEARNING_S = 900.0
"""Enough for more than 50 million keys at the 60,000 a second that were measured."""

OUTSIDE = ("new", "joining", "learning", "removed", "displaced", "unconfirmed", "confirming", "refused")
"""States of nodes that do not vote: their view of the cluster does not count."""

WAITING = ("unconfirmed", "confirming")
"""States of members that vote once they have reached others."""

COMING = ("joining", "learning")
"""States that members report of a newcomer that is being added."""

SLOW_SYNC_MS = 250.0
"""A quarter of the time after which a round gives up, and longer than any round trip between continents."""

CLOCKS = "Compare their clocks: signatures hold for 30 seconds. Run NTP on both."
SECRETS = (
    "The secret, cluster.members and cluster.quorum_policy must be the same in both files, and cluster.id if the "
    "cluster was restored: a member that joins needs it in its file, a first member gets it from `epoxy restore`."
)
CERTIFICATES = "Check its certificate: the authority that signed it, the name in it, and its end date."
SLOWNESS = "It is reached and does not answer in time: it is paused, overloaded, or its disk is slow."
STORES = "A machine whose disk was lost must come back under a new id, as a newcomer."
ROUTES = "Is it listening on that address? Check routes and firewalls between the two."

CAUSES = {
    "clock": CLOCKS,
    "not signed with": SECRETS,
    "certificate": CERTIFICATES,
    "ssl": CERTIFICATES,
    "no answer in time": SLOWNESS,
    "another store": STORES,
}
"""Advice by words in the reason that a node reports for not reaching another. Otherwise: `ROUTES`."""

CERTIFICATES_HERE = f"{CERTIFICATES} This command trusts the system's authorities, or those in SSL_CERT_FILE."
NOTHING_THROUGH = "It is paused, or no packet reaches it: check the process, then routes and firewalls."
SCHEMES = "Its url begins with https:// if it has [tls], and with http:// if not."
ABSENT = "Is it running, and is this its address? `epoxy serve` logs why a node does not start."

CAUSES_HERE = {
    "certificate": CERTIFICATES_HERE,
    "no answer in time": SLOWNESS,
    "no connection in time": NOTHING_THROUGH,
    "tls": SCHEMES,
    "connection was closed": SCHEMES,
}
"""Advice by words in the reason that our own client reports (`client.pool.reason_of`)."""

SAME_BUILDING_MS = 0.5
"""No two datacenters are nearer than 50 km of fibre."""


class Severity(enum.Enum):
    FINE = "ok"
    WARNING = "warning"
    BROKEN = "BROKEN"


class Finding(Struct, frozen=True, kw_only=True):
    severity: Severity
    words: str
    advice: str = ""


class NodeVisit(Struct, frozen=True, kw_only=True):
    """`status` None: it did not answer, for `reason`. `datacenter` is what its peers call it."""

    url: str
    status: Status | None
    reason: str = ""
    datacenter: str = ""

    @property
    def place(self) -> str:
        return f"{self.datacenter} at {self.url}" if self.datacenter else self.url


def fine(words: str) -> Finding:
    return Finding(severity=Severity.FINE, words=words)


def warning(words: str, advice: str = "") -> Finding:
    return Finding(severity=Severity.WARNING, words=words, advice=advice)


def broken(words: str, advice: str = "") -> Finding:
    return Finding(severity=Severity.BROKEN, words=words, advice=advice)


def diagnose(visits: list[NodeVisit]) -> list[Finding]:
    """The worst first."""
    present = [visit.status for visit in visits if visit.status is not None]
    statuses = [status for status in present if status.state not in OUTSIDE]
    expected = {peer.id for status in statuses for peer in status.peers if peer.status in COMING}
    found = [*links(conversing(present)), *attendance(visits, expected), *twins(present), *clusters(present)]
    if statuses:
        for look in (violations, availability, disks, agreement, changes, transactions, kept, size, paths, distances):
            found += look(statuses)
        found += [*arrivals(statuses, {status.id for status in present}), *encryption(visits)]
    order = (Severity.BROKEN, Severity.WARNING, Severity.FINE)
    return sorted(found, key=lambda finding: order.index(finding.severity))


def attendance(visits: list[NodeVisit], expected: set[int]) -> Iterator[Finding]:
    """Nodes that do not answer or are not ready. `availability` judges whether the cluster works without them, and
    `arrivals` the newcomers that are expected."""
    statuses = [visit.status for visit in visits if visit.status is not None]
    newest = max((status.epoch for status in statuses), default=0)
    for visit in visits:
        if visit.status is None:
            yield broken(f"{visit.place} does not answer: {visit.reason}", cure(visit.reason, CAUSES_HERE, ABSENT))
        elif not visit.status.ready and not (visit.status.state == "new" and visit.status.id in expected):
            yield unready(visit.status, newest)
    if serving := sum(status.ready and status.tolerated_failures >= 0 for status in statuses):
        yield fine(f"{serving} of {len(visits)} nodes answer and are ready")


def unready(status: Status, newest: int) -> Finding:
    """Newcomers and removed nodes do no harm to the cluster: warnings."""
    who = name(status)
    if status.state == "unconfirmed" and status.epoch < newest:
        advice = "Its disk was lost, or its data directory is another one. Stop it: it comes back under a new id."
        return broken(f"{who} has an empty store, and the cluster is in epoch {newest}", advice)
    match status.state:
        case "new":
            return warning(
                f"{who} waits to be added", f"`epoxy members add {status.id} URL`, at a member, makes it one."
            )
        case "joining" | "learning":
            return warning(
                f"{who} is {status.state}: it serves no clients yet", "`epoxy members list` shows its progress."
            )
        case "removed":
            return warning(f"{who} was removed and still runs", "The members ignore it. Stop it.")
        case "displaced":
            advice = "Stop it. A machine whose disk was lost comes back under a new id, as a newcomer."
            return broken(f"{who} runs with another disk than the one the cluster knows", advice)
        case "confirming":
            advice = "Start the others, and let it reach them. Until then it serves reads of what it holds."
            return broken(f"{who} votes once enough of the others have answered since it started", advice)
        case "refused":
            advice = f"Stop it: `epoxy members add NEW-ID URL --replace {status.id}`, with an empty disk, replaces it."
            return broken(f"{who} has a disk that is not what it was, and takes no part: {status.reason}", advice)
        case "unconfirmed":
            advice = (
                "If the cluster is new, start the other nodes, and let all reach each other. If its disk was lost, "
                "stop it: it must come back under a new id, as a newcomer."
            )
            return broken(f"{who} has a store that most of the others have no record of", advice)
        case _:
            return broken(f"{who} is not ready", "It is starting or stopping; its log says what it waits for.")


def twins(statuses: list[Status]) -> Iterator[Finding]:
    ids = [status.id for status in statuses]
    for twice in sorted({i for i in ids if ids.count(i) > 1}):
        yield broken(f"two nodes report that they are replica {twice}", "Two nodes with one id lose writes. Stop one.")


def clusters(statuses: list[Status]) -> Iterator[Finding]:
    if len({status.cluster for status in statuses}) > 1:
        said = ", ".join(f"{name(status)}: {status.cluster or 'not restored'}" for status in statuses)
        yield broken(
            f"the nodes belong to different clusters ({said})",
            "Nodes that were not restored from one file with one list of members refuse each other. Run "
            "`epoxy restore` on each; one of the old cluster, or with an empty directory, does not belong here.",
        )


def changes(statuses: list[Status]) -> Iterator[Finding]:
    """As the node with the newest epoch reports it."""
    newest = max(statuses, key=lambda status: status.epoch)
    silent = [peer.datacenter for peer in newest.peers if not peer.reachable]
    age_s = newest.epoch_age_s or 0.0
    if newest.joint:
        words = f"old and new members decide together (epoch {newest.epoch}, {age_s:.0f} s)"
        if silent:
            yield broken(f"{words}, and {', '.join(silent)} cannot be reached", "Start them again, or undo the change.")
        elif age_s > LONG_JOINT_S:
            yield broken(
                f"{words}: that should take seconds", "`epoxy members list` shows which members are not synced."
            )
        else:
            yield fine(words)


def arrivals(statuses: list[Status], present: set[int]) -> Iterator[Finding]:
    """Newcomers that are being added, as the node with the newest epoch sees them. `present`: nodes that answer us."""
    newest = max(statuses, key=lambda status: status.epoch)
    age_s = newest.epoch_age_s or 0.0
    for peer in newest.peers:
        who = f"{peer.datacenter} ({peer.id})"
        if peer.status not in COMING:
            continue
        if not peer.reachable and peer.id in present:
            advice = (
                "It needs the secret and cluster.members of the others, and they need its address; their logs say why."
            )
            told = f": {peer.trouble}" if peer.trouble else ""
            words = f"{who} is {peer.status} and answers, but the members do not reach it{told}"
            yield broken(words, cure_of(peer) if peer.trouble else advice)
        elif not peer.reachable:
            advice = f"Start it, or give it up: `epoxy members remove {peer.id}`."
            yield broken(f"{who} is {peer.status} and cannot be reached", advice)
        elif age_s > LONG_LEARNING_S:
            advice = "`epoxy members list` shows its progress and what the change waits for."
            yield warning(f"{who} has been {peer.status} for {age_s / 60:.0f} minutes", advice)


def transactions(statuses: list[Status]) -> Iterator[Finding]:
    """Transactions wait while an epoch is joint. Later, only a node that was away still has to catch up."""
    for status in statuses:
        if status.txn_state == "catching-up":
            yield warning(
                f"{name(status)} orders no transactions yet: it missed {status.txn_behind} decisions",
                "It was away, and is copying them; single keys are served meanwhile. Its log shows the progress.",
            )
            continue
        waits = status.txn_state not in ("", "open") and status.state == "active"
        if waits and not status.joint and (status.epoch_age_s or 0.0) > LONG_JOINT_S:
            yield warning(
                f"transactions wait at {name(status)} ({status.txn_state}, term {status.txn_term})",
                "It was away while members changed, and is catching up. If that lasts, its log says more.",
            )


def violations(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        if status.invariant_violations:
            count = f"{status.invariant_violations} broken invariant{'' if status.invariant_violations == 1 else 's'}"
            yield broken(
                f"{name(status)} has seen {count}: two values for one name, or as severe",
                "Nothing was overwritten. Keep all data directories and logs, and report it.",
            )


def disks(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        if status.longest_sync_ms is not None and status.longest_sync_ms > SLOW_SYNC_MS:
            yield warning(
                f"the disk of {name(status)} took {status.longest_sync_ms / 1000:.1f} s for a sync just now",
                "Every acknowledgement of that node waits for it. Look for other load on the disk, or replace it.",
            )


def kept(statuses: list[Status]) -> Iterator[Finding]:
    """As one node reports it: every node keeps what a member lacks."""
    most = max(statuses, key=lambda status: status.txn_kept)
    if most.txn_kept >= MANY_KEPT and most.txn_kept_for:
        who = ", ".join(f"replica {absent}" for absent in most.txn_kept_for)
        yield warning(
            f"{name(most)} keeps {most.txn_kept} decisions about transactions on its disk for {who}",
            f"Start it again. If it stays away, `epoxy members remove {most.txn_kept_for[0]}`: they are dropped, "
            "and it copies values instead when it is added again.",
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
    """The nodes that should reach each other: the members, and in a new cluster its unconfirmed nodes, which wait for
    just that."""
    newest = max((status.epoch for status in statuses), default=0)
    return [
        status
        for status in statuses
        if status.state not in OUTSIDE or (status.state in WAITING and status.epoch == newest)
    ]


def links(statuses: list[Status]) -> Iterator[Finding]:
    """A link that one side reports as dead while both nodes answer us is cut between them."""
    answering = {status.id for status in statuses}
    for status in statuses:
        for peer in status.peers:
            if not peer.reachable and peer.id in answering:
                told = f": {peer.trouble}" if peer.trouble else ""
                yield broken(
                    f"{name(status)} does not reach {peer.datacenter}, though both answer{told}", cure_of(peer)
                )


def cure_of(peer: PeerStatus) -> str:
    """By the reason that the node which does not reach it reports, if any."""
    if not peer.trouble:
        return "Check routes, firewalls, certificates and the cluster's secret between the two."
    return cure(peer.trouble, CAUSES, ROUTES)


def cure(reason: str, causes: dict[str, str], otherwise: str) -> str:
    said = reason.lower()
    return next((advice for words, advice in causes.items() if words in said), otherwise)


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


def distances(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        for peer in status.peers:
            apart = peer.rtt_ms
            if apart is not None and apart < SAME_BUILDING_MS and not is_local(peer.url) and status.id < peer.id:
                yield warning(
                    f"{status.datacenter} and {peer.datacenter} are {apart:.1f} ms apart",
                    "They may share a building, and fail together.",
                )


def encryption(visits: list[NodeVisit]) -> Iterator[Finding]:
    plain = [visit.url for visit in visits if visit.url.startswith("http:") and not is_local(visit.url)]
    if plain:
        yield warning(
            f"no encryption: {', '.join(plain)}",
            "Keys and values can be read on the network. Set cert and key in [tls].",
        )


def name(status: Status) -> str:
    return f"{status.datacenter or 'replica'} ({status.id})"


def is_local(url: str | None) -> bool:
    host = parse_url(url).host if url is not None else "localhost"
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
