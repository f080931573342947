"""Findings about access: what is open, and which grants need a look."""

import shlex
import time
from collections.abc import Iterator, Sequence

from epoxy.cli.auth_show import is_over, moment
from epoxy.cli.finding_kinds import FindingKind
from epoxy.cli.findings import Finding, NodeVisit, broken, fine, name, unknown, warning
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

INIT = "epoxy auth init --config epoxy.toml --save"
PROTECT = (
    'Write auth = "tokens" into [access] of each file and restart one node after the other. The first token is made on '
    "a node, before or after."
)
LOOK = "Ask with the token of an operator; of nodes that have a node.admin, at that address."
SHOW_TOKEN = "Name a token with --token-file, EPOXY_TOKEN or EPOXY_TOKEN_FILE. If there is none, one is made on a node."

UNKNOWN_THERE = (
    "Other nodes accept this token, so that node knows none: its disk is new or it is no member. It says which to any "
    "client."
)


def refusals(visits: Sequence[NodeVisit]) -> Iterator[Finding]:
    """Nodes that answer, and not to this client."""
    refused = [visit for visit in visits if visit.refused]
    if not refused:
        return
    words = f"refused by {', '.join([visit.place for visit in refused])}: {first_reason(visits)}"
    if any(visit.status is not None for visit in visits):
        looks = [f"curl --insecure {visit.url}/readyz" for visit in refused]
        yield broken(FindingKind.NODE_REFUSES, words, UNKNOWN_THERE, *looks)
    else:
        yield broken(FindingKind.NODE_REFUSES, words, SHOW_TOKEN, INIT)


def first_reason(visits: Sequence[NodeVisit]) -> str:
    return next(visit.reason for visit in visits if visit.refused)


def openness(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        for listener in status.open_listeners:
            setting, _, address = listener.partition(" ")
            if setting in OPEN_TO:
                yield warning(
                    FindingKind.OPEN_ACCESS,
                    f"{name(status)} is open at {address} ({setting}): anyone who reaches it may {OPEN_TO[setting]}",
                    PROTECT,
                    INIT,
                )
    if statuses and all(status.auth == "tokens" for status in statuses):
        yield fine(FindingKind.TOKENS_ASKED, "every node asks its clients for tokens")


def modes(statuses: list[Status]) -> Iterator[Finding]:
    said = {status.auth for status in statuses if status.auth}
    if len(said) > 1:
        told = ", ".join(f"{name(status)}: {status.auth}" for status in statuses)
        yield broken(FindingKind.MIXED_ACCESS, f"not every node asks for tokens ({told})", PROTECT, INIT)


def versions(statuses: list[Status]) -> Iterator[Finding]:
    """A change takes seconds to reach every node; what stays apart does not reach a quorum."""
    found = {status.access_version for status in statuses}
    if len(found) > 1:
        told = ", ".join(f"{name(status)}: {status.access_version}" for status in statuses)
        yield warning(
            FindingKind.GRANTS_APART,
            f"the nodes know different versions of the grants ({told})",
            "A change takes up to 5 seconds: ask again. A node that stays behind reaches no quorum: repair its links.",
        )
    for status in statuses:
        if status.auth == "tokens" and status.access_age_s is not None and status.access_age_s > UNCONFIRMED_S:
            yield warning(
                FindingKind.GRANTS_OLD,
                f"{name(status)} has not heard for {status.access_age_s:.0f} s whether its grants are the newest",
                "It reaches no quorum: repair its links.",
            )


def grants(
    statuses: list[Status], known: list[GrantInfo] | None, reason: str = "", now_s: float | None = None
) -> Iterator[Finding]:
    """`known` None: this client could not see them, for `reason`."""
    asked = any(status.auth == "tokens" for status in statuses)
    if known is None:
        if asked:
            told = f": {reason}" if reason else ""
            yield unknown(FindingKind.GRANTS_UNSEEN, f"the grants were not looked at{told}", LOOK)
        return
    now = time.time() if now_s is None else now_s
    in_force = [grant for grant in known if not is_over(grant, now)]
    if asked and not any(AccessRole.OPERATOR in grant.roles for grant in in_force):
        yield warning(FindingKind.NO_OPERATOR, "no token in force is an operator's", "One is made on a node.", INIT)
    yield from ends(known, now)
    for grant in in_force:
        if {AccessRole.OPERATOR, AccessRole.WRITER} <= set(grant.roles) and not grant.prefixes:
            yield warning(
                FindingKind.GRANT_BROAD,
                f"the token of {grant.name} may do everything: it operates the cluster, and writes every key",
                "Give each task a token of its own, with its own --prefix, and then revoke this one.",
                f"epoxy auth token create {shlex.quote(grant.name)}-keys --role writer --prefix PREFIX",
                f"epoxy auth token create {shlex.quote(grant.name)}-operator --role operator",
                f"epoxy auth token revoke {shlex.quote(grant.name)}",
            )


def ends(known: list[GrantInfo], now: float) -> Iterator[Finding]:
    for grant in known:
        if is_over(grant, now):
            yield warning(
                FindingKind.GRANT_EXPIRED,
                f"the token of {grant.name} expired on {moment(grant.expires_s)}",
                "Remove it, and create it again if it is needed.",
                f"epoxy auth token revoke {shlex.quote(grant.name)}",
            )
        elif 0 < grant.expires_s <= now + SOON_S:
            days = (grant.expires_s - now) / 86_400
            yield warning(
                FindingKind.GRANT_EXPIRES,
                f"the token of {grant.name} expires in {days:.1f} days, on {moment(grant.expires_s)}",
                "Make another, give it to the clients of this one, and then revoke this one.",
                another(grant),
                f"epoxy auth token revoke {shlex.quote(grant.name)}",
            )


def exposed_files(statuses: Sequence[Status], own: Sequence[str]) -> Iterator[Finding]:
    """`own`: files of this client."""
    for status in statuses:
        for file in status.readable_secrets:
            yield warning(
                FindingKind.SECRET_READABLE,
                f"other users of the machine of {name(status)} can read {file}",
                "On that machine. If others may have read it, replace it.",
                f"chmod 600 {shlex.quote(file.partition(' ')[2])}",
            )
    for file in own:
        words = f"other users of this machine can read the token in {file}"
        yield warning(FindingKind.TOKEN_READABLE, words, "", f"chmod 600 {shlex.quote(file)}")


def another(grant: GrantInfo) -> str:
    """The command that makes a token with the rights of this one."""
    words = ["epoxy", "auth", "token", "create", f"{grant.name}-2"]
    for role in grant.roles:
        words += ["--role", role.value]
    for prefix in grant.prefixes:
        words += ["--prefix", prefix]
    for pool in grant.pools:
        words += ["--pool", pool]
    return shlex.join(words)
