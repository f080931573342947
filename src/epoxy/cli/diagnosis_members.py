"""Findings about a change of members, and about transactions, which wait for it."""

from collections.abc import Iterator

from epoxy.cli.diagnosis_links import cure_of
from epoxy.cli.findings import Finding, broken, fine, name, warning
from epoxy.client.results import Status

LONG_JOINT_S = 60.0
"""A joint epoch should take less than five seconds."""

LONG_LEARNING_S = 900.0
"""Enough for more than 50 million keys at the 60,000 a second that were measured."""

COMING = ("joining", "learning")
"""States that members report of a newcomer that is being added."""


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
            return broken(f"{who} does not vote yet: {status.reason}", advice)
        case "refused":
            advice = (
                f"Stop it. `epoxy members add NEW-ID URL --replace {status.id}`, with an empty disk, replaces it, "
                f"unless it is a copy, and replica {status.id} runs elsewhere."
            )
            return broken(f"{who} has a disk that is not what it was, and takes no part: {status.reason}", advice)
        case "unconfirmed":
            advice = (
                "If the cluster is new, start the other nodes, and let all reach each other. If its disk was lost, "
                "stop it: it must come back under a new id, as a newcomer."
            )
            return broken(f"{who} has a store that most of the others have no record of", advice)
        case _:
            return broken(f"{who} is not ready", "It is starting or stopping; its log says what it waits for.")


def copies(statuses: list[Status]) -> Iterator[Finding]:
    """Processes beside a member that is ready, with its id: they are at no address that is known here."""
    for member in (status for status in statuses if status.ready):
        told = [(status, peer) for status in statuses for peer in status.peers if peer.id == member.id and peer.refused]
        if told:
            who = ", ".join(name(status) for status, _ in told)
            why = ", ".join(sorted({peer.refused for _, peer in told}))
            yield warning(
                f"a second process that says it is {name(member)} was refused by {who}: {why}",
                "A copy of its disk was started somewhere, or an empty one with its id. Stop that process.",
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
