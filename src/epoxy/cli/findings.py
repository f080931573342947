"""What `epoxy doctor` finds, and what it finds it in: the visits to the nodes."""

import enum
import shlex
from collections.abc import Sequence
from ipaddress import ip_address

from msgspec import Struct
from msgspec.structs import replace

from epoxy.cli.finding_kinds import FindingKind
from epoxy.client.http1 import parse_url
from epoxy.client.results import Status
from epoxy.model.errors import InvalidRequest
from epoxy.model.node_urls import split_urls


class Severity(enum.Enum):
    """UNKNOWN: it could not be looked at."""

    FINE = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    BROKEN = "BROKEN"


class Finding(Struct, frozen=True, kw_only=True):
    """`code` and `why`: of its kind. `words`: what was seen. `advice`: what to do, in words; `commands`: that do it, on
    this machine unless the advice names another."""

    severity: Severity
    code: str
    words: str
    why: str = ""
    advice: str = ""
    commands: Sequence[str] = ()


class ClockReading(Struct, frozen=True, kw_only=True):
    """How far a node's clock is ahead of this machine's, give or take `within_s`: half a round trip, since it may have
    been read at either end of it."""

    ahead_s: float
    within_s: float


class NodeVisit(Struct, frozen=True, kw_only=True):
    """`status` None: it did not answer, for `reason`. `datacenter` and `expected` are what its peers call it. `clock`:
    None, if it was not read. `refused`: it answers, and not to this client. `is_for_peers`: its url is an address for
    other nodes alone (`node.peers`)."""

    url: str
    status: Status | None
    reason: str = ""
    datacenter: str = ""
    expected: int | None = None
    clock: ClockReading | None = None
    refused: bool = False
    is_for_peers: bool = False

    @property
    def place(self) -> str:
        return f"{self.datacenter} at {self.url}" if self.datacenter else self.url


def fine(kind: FindingKind, words: str) -> Finding:
    return Finding(severity=Severity.FINE, code=kind.code, words=words)


def unknown(kind: FindingKind, words: str, advice: str = "", *commands: str) -> Finding:
    return of_severity(Severity.UNKNOWN, kind, words, advice, commands)


def warning(kind: FindingKind, words: str, advice: str = "", *commands: str) -> Finding:
    return of_severity(Severity.WARNING, kind, words, advice, commands)


def broken(kind: FindingKind, words: str, advice: str = "", *commands: str) -> Finding:
    return of_severity(Severity.BROKEN, kind, words, advice, commands)


def of_severity(
    severity: Severity, kind: FindingKind, words: str, advice: str, commands: Sequence[str] = ()
) -> Finding:
    return Finding(severity=severity, code=kind.code, words=words, why=kind.why, advice=advice, commands=commands)


OF_NODES = tuple(
    f"epoxy {words} " for words in ("members", "auth token", "actor", "worker run", "scrub", "status", "doctor")
)
"""Commands that ask a node."""


def addressed(finding: Finding, url: str | None) -> Finding:
    """With the address of a node that answers in its commands, where they ask one and name none."""
    if url is None or not finding.commands:
        return finding
    named = [
        f"{each} --url {shlex.quote(url)}" if f"{each} ".startswith(OF_NODES) and " --url " not in each else each
        for each in finding.commands
    ]
    return replace(finding, commands=named)


def replacement(replica: int, url: str | None, statuses: Sequence[Status]) -> str:
    """The command that puts a node with an empty disk in the place of a member, under the next id. That it was used
    before is not known here; the command refuses it then."""
    seen = [known for status in statuses for known in (status.id, *(peer.id for peer in status.peers))]
    there = shlex.quote(url) if url else "URL"
    return f"epoxy members add {max([replica, *seen]) + 1} {there} --replace {replica}"


def name(status: Status) -> str:
    """Of several nodes of a datacenter, which one it is."""
    where = f" at {status.url}" if len(status.nodes) > 1 else ""
    return f"{status.datacenter or 'replica'} ({status.id}){where}"


def is_local(url: str | None) -> bool:
    """Whether all addresses of a member are on its own machine."""
    try:
        return all(is_local_host(parse_url(each).host) for each in split_urls(url or ""))
    except InvalidRequest:
        return False


def is_local_host(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
