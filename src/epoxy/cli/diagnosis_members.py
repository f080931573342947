"""Findings about members: one that is away, a change of them, and transactions, which wait for it."""

from collections.abc import Iterator, Sequence

from epoxy.cli.diagnosis_links import cure_of
from epoxy.cli.finding_kinds import FindingKind
from epoxy.cli.findings import Finding, NodeVisit, broken, fine, name, replacement, warning
from epoxy.cli.output import duration
from epoxy.client.results import Status
from epoxy.model.api import PeerStatus

LONG_JOINT_S = 60.0
"""A joint epoch should take less than five seconds."""

LONG_LEARNING_S = 900.0
"""Enough for more than 50 million keys at the 60,000 a second that were measured."""

LONG_AWAY_S = 600.0
"""A machine that is started anew is back sooner: what is away for longer needs a decision."""

COMING = ("joining", "learning")
"""States that members report of a newcomer that is being added."""

NEW_ID = "A machine whose disk was lost comes back as a newcomer: a new id, an empty disk, join = true in its file."


def unready(status: Status, newest: int) -> Finding:
    """Newcomers and removed nodes do no harm to the cluster: warnings."""
    who, again = name(status), replacement(status.id, status.url, [status])
    if status.state == "unconfirmed" and status.epoch < newest:
        words = f"{who} has an empty store, and the cluster is in epoch {newest}"
        advice = f"Its disk was lost, or its data directory is another one. Stop it. {NEW_ID}"
        return broken(FindingKind.STORE_EMPTY, words, advice, again)
    match status.state:
        case "new":
            words, add = f"{who} waits to be added", f"epoxy members add {status.id} {status.url or 'URL'}"
            return warning(FindingKind.NODE_WAITS, words, "", add)
        case "joining" | "learning":
            words = f"{who} is {status.state}: it serves no clients yet"
            return warning(FindingKind.NODE_WAITS, words, "Its progress:", "epoxy members list")
        case "removed":
            words = f"{who} was removed and still runs"
            return warning(FindingKind.NODE_REMOVED, words, f"Stop it: SIGTERM to pid {status.pid} on its machine.")
        case "displaced":
            words = f"{who} runs with another disk than the one the cluster knows"
            return broken(FindingKind.STORE_DISPLACED, words, f"Stop it. {NEW_ID}", again)
        case "confirming":
            words = f"{who} does not vote yet: {status.reason}"
            advice = "Start the others, and let it reach them. Until then it serves reads of what it holds."
            return broken(FindingKind.STORE_CONFIRMING, words, advice)
        case "refused":
            words = f"{who} has a disk that is not what it was, and takes no part: {status.reason}"
            advice = (
                f"Stop it, and replace it, with an empty disk: unless it is a copy, and replica {status.id} runs "
                "elsewhere."
            )
            return broken(FindingKind.STORE_REFUSED, words, advice, again)
        case "unconfirmed":
            words = f"{who} has a store that most of the others have no record of"
            advice = (
                "If the cluster is new, start the other nodes, and let all reach each other. If its disk was lost, "
                f"stop it. {NEW_ID}"
            )
            return broken(FindingKind.STORE_UNCONFIRMED, words, advice)
        case _:
            advice = "It is starting or stopping; its log says what it waits for."
            return broken(FindingKind.NODE_NOT_READY, f"{who} is not ready", advice)


def copies(statuses: list[Status]) -> Iterator[Finding]:
    """Processes beside a member that is ready, with its id: they are at no address that is known here."""
    for member in (status for status in statuses if status.ready):
        told = [(status, peer) for status in statuses for peer in status.peers if peer.id == member.id and peer.refused]
        if told:
            who = ", ".join(name(status) for status, _ in told)
            why = ", ".join(sorted({peer.refused for _, peer in told}))
            yield warning(
                FindingKind.SECOND_PROCESS,
                f"a second process that says it is {name(member)} was refused by {who}: {why}",
                "A copy of its disk was started somewhere, or an empty one with its id. Stop that process; the logs of "
                "the nodes that refused it have its address.",
            )


def absences(visits: Sequence[NodeVisit], statuses: Sequence[Status]) -> Iterator[Finding]:
    """Members that no node reaches, and that do not answer this command: for long; or whose state only the others can
    tell. A peer counts the silence since it started, at the most."""
    present = {visit.status.id for visit in visits if visit.status is not None}
    for_peers = {visit.expected for visit in visits if visit.is_for_peers}
    for replica in sorted({peer.id for status in statuses for peer in status.peers} - present):
        told = [(status, peer) for status in statuses for peer in status.peers if peer.id == replica]
        if any(peer.reachable or peer.status in COMING for _, peer in told):
            continue
        silent_s = max([peer.silent_s or 0.0 for _, peer in told])
        if silent_s > LONG_AWAY_S or replica in for_peers:
            yield absence(told[0][1], silent_s, statuses, " and ".join(name(status) for status, _ in told))


def absence(peer: PeerStatus, silent_s: float, statuses: Sequence[Status], witnesses: str) -> Finding:
    kept = max([status.txn_kept for status in statuses if peer.id in status.txn_kept_for], default=0)
    spare = min([status.tolerated_failures for status in statuses])
    cost = [f"{max(spare, 0)} more may fail"]
    cost += [f"{kept:,} decisions about transactions are kept for it"] if kept else []
    return warning(
        FindingKind.MEMBER_AWAY,
        f"{peer.datacenter} ({peer.id}) has been away for {duration(silent_s)} or more, as {witnesses} say: "
        f"{', and '.join(cost)}",
        "Start it again: it catches up by itself. If it will not come back, remove it, or replace it by a node with an "
        "empty disk, a new id and join = true in its file.",
        f"epoxy members remove {peer.id}",
        replacement(peer.id, peer.url, statuses),
    )


def changes(statuses: list[Status]) -> Iterator[Finding]:
    """As the node with the newest epoch reports it."""
    newest = max(statuses, key=lambda status: status.epoch)
    silent = [f"{peer.datacenter} at {peer.url}" for peer in newest.peers if not peer.reachable]
    age_s = newest.epoch_age_s or 0.0
    if newest.joint:
        words = f"old and new members decide together (epoch {newest.epoch}, {age_s:.0f} s)"
        if silent:
            words = f"{words}, and {', '.join(silent)} cannot be reached"
            yield broken(FindingKind.CHANGE_STUCK, words, "Start them again, or undo the change.", "epoxy members list")
        elif age_s > LONG_JOINT_S:
            advice = "The list shows which members are not synced."
            yield broken(FindingKind.CHANGE_STUCK, f"{words}: that should take seconds", advice, "epoxy members list")
        else:
            yield fine(FindingKind.CHANGE_UNDER_WAY, words)


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
            yield broken(FindingKind.NEWCOMER_AWAY, words, cure_of(peer) if peer.trouble else advice)
        elif not peer.reachable:
            words = f"{who} is {peer.status} and cannot be reached"
            yield broken(
                FindingKind.NEWCOMER_AWAY, words, "Start it, or give it up:", f"epoxy members remove {peer.id}"
            )
        elif age_s > LONG_LEARNING_S:
            advice = "The list shows its progress and what the change waits for."
            words = f"{who} has been {peer.status} for {age_s / 60:.0f} minutes"
            yield warning(FindingKind.NEWCOMER_SLOW, words, advice, "epoxy members list")


def transactions(statuses: list[Status]) -> Iterator[Finding]:
    """Transactions wait while an epoch is joint. Later, only a node that was away still has to catch up."""
    for status in statuses:
        if status.txn_state == "catching-up":
            yield warning(
                FindingKind.TXNS_BEHIND,
                f"{name(status)} orders no transactions yet: it missed {status.txn_behind} decisions",
                "It was away, and is copying them; single keys are served meanwhile. Its log shows the progress.",
            )
            continue
        waits = status.txn_state not in ("", "open") and status.state == "active"
        if waits and not status.joint and (status.epoch_age_s or 0.0) > LONG_JOINT_S:
            yield warning(
                FindingKind.TXNS_WAIT,
                f"transactions wait at {name(status)} ({status.txn_state}, term {status.txn_term})",
                "It was away while members changed, and is catching up. If that lasts, its log says more.",
            )
