"""Findings about access: what is open, and which grants need a look."""

import time
from collections.abc import Iterator

from epoxy.cli.auth_show import is_over, moment
from epoxy.cli.findings import Finding, NodeVisit, broken, fine, name, warning
from epoxy.client.auth_calls import GrantInfo
from epoxy.client.results import Status
from epoxy.model.access import AccessRole

SOON_S = 7 * 86_400
"""Grants that end within a week are named, so that there is time to replace their tokens."""

UNCONFIRMED_S = 30.0
"""A node asks a quorum for the grants every two seconds."""

OPEN_TO = {
    "node.http": "read and write every key, create and ask actors, change members and take backups",
    "node.resp": "read and write every key",
    "node.admin": "change members and take backups",
}
"""What a client may do at each listener of a node that asks for no tokens. Peers are always asked for the secret, and
orders about tokens always need an operator's."""

PROTECT = (
    'Write auth = "tokens" into [access] of each file and restart one node after the other; `epoxy auth init --config '
    "epoxy.toml --save` on a node makes the first token, before or after."
)
INIT = "`epoxy auth init --config epoxy.toml --save`, on a node, makes one."
LOOK = "Ask with the token of an operator; of nodes that have a node.admin, at that address."
SHOW_TOKEN = (
    "Name a token with --token-file, EPOXY_TOKEN or EPOXY_TOKEN_FILE. If there is none: `epoxy auth init --config "
    "epoxy.toml --save`, on a node."
)


def refusals(visits: list[NodeVisit]) -> Iterator[Finding]:
    """Nodes that answer, and not to this client."""
    refused = [visit.place for visit in visits if visit.refused]
    if refused:
        yield broken(f"refused by {', '.join(refused)}: {first_reason(visits)}", SHOW_TOKEN)


def first_reason(visits: list[NodeVisit]) -> str:
    return next(visit.reason for visit in visits if visit.refused)


def openness(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        for listener in status.open_listeners:
            setting, _, address = listener.partition(" ")
            if setting in OPEN_TO:
                yield warning(
                    f"{name(status)} is open at {address} ({setting}): anyone who reaches it may {OPEN_TO[setting]}",
                    PROTECT,
                )
    if statuses and all(status.auth == "tokens" for status in statuses):
        yield fine("every node asks its clients for tokens")


def modes(statuses: list[Status]) -> Iterator[Finding]:
    said = {status.auth for status in statuses if status.auth}
    if len(said) > 1:
        told = ", ".join(f"{name(status)}: {status.auth}" for status in statuses)
        yield broken(
            f"not every node asks for tokens ({told})",
            "A cluster is as open as its most open node: one write there is a write everywhere. " + PROTECT,
        )


def versions(statuses: list[Status]) -> Iterator[Finding]:
    """A change takes seconds to reach every node; what stays apart does not reach a quorum."""
    found = {status.access_version for status in statuses}
    if len(found) > 1:
        told = ", ".join(f"{name(status)}: {status.access_version}" for status in statuses)
        yield warning(
            f"the nodes know different versions of the grants ({told})",
            "A change takes up to 5 seconds: ask again. A node that stays behind reaches no quorum, and goes on with "
            "what it knows: a token that was revoked is still accepted there.",
        )
    for status in statuses:
        if status.auth == "tokens" and status.access_age_s is not None and status.access_age_s > UNCONFIRMED_S:
            yield warning(
                f"{name(status)} has not heard for {status.access_age_s:.0f} s whether its grants are the newest",
                "It reaches no quorum: repair its links. A token that was revoked meanwhile is still accepted there.",
            )


def grants(statuses: list[Status], known: list[GrantInfo] | None, now_s: float | None = None) -> Iterator[Finding]:
    """`known` None: this client could not see them."""
    asked = any(status.auth == "tokens" for status in statuses)
    if known is None:
        if asked:
            yield warning("the grants were not looked at", LOOK)
        return
    now = time.time() if now_s is None else now_s
    in_force = [grant for grant in known if not is_over(grant, now)]
    if asked and not any(AccessRole.OPERATOR in grant.roles for grant in in_force):
        yield warning("no operator: members, backups and tokens can only be had with the cluster's secret", INIT)
    yield from ends(known, now)
    for grant in in_force:
        if {AccessRole.OPERATOR, AccessRole.WRITER} <= set(grant.roles) and not grant.prefixes:
            yield warning(
                f"the token of {grant.name} may do everything: it operates the cluster, and writes every key",
                "Give each task its own: `epoxy auth token create NAME --role writer --prefix P`, and then "
                f"`epoxy auth token revoke {grant.name}`.",
            )


def ends(known: list[GrantInfo], now: float) -> Iterator[Finding]:
    for grant in known:
        if is_over(grant, now):
            yield warning(
                f"{grant.name} expired on {moment(grant.expires_s)}, and is refused",
                f"`epoxy auth token revoke {grant.name}` removes it; then create it again if it is needed.",
            )
        elif 0 < grant.expires_s <= now + SOON_S:
            days = (grant.expires_s - now) / 86_400
            yield warning(
                f"{grant.name} expires in {days:.1f} days, on {moment(grant.expires_s)}",
                f"Make another: `epoxy auth token create {grant.name}-2 ...`, give it to the clients of {grant.name}, "
                f"and `epoxy auth token revoke {grant.name}`.",
            )


def exposed_files(statuses: list[Status], own: list[str]) -> Iterator[Finding]:
    """`own`: files of this client."""
    for status in statuses:
        for file in status.readable_secrets:
            yield warning(
                f"other users of the machine of {name(status)} can read {file}",
                f"On that machine: chmod 600 {file.partition(' ')[2]}. If others may have read it, replace it.",
            )
    for file in own:
        yield warning(f"other users of this machine can read the token in {file}", f"chmod 600 {file}")
