"""What `epoxy doctor` finds, and what it finds it in: the visits to the nodes."""

import enum
from ipaddress import ip_address

from msgspec import Struct

from epoxy.client.http1 import parse_url
from epoxy.client.results import Status
from epoxy.model.node_urls import split_urls


class Severity(enum.Enum):
    FINE = "ok"
    WARNING = "warning"
    BROKEN = "BROKEN"


class Finding(Struct, frozen=True, kw_only=True):
    severity: Severity
    words: str
    advice: str = ""


class NodeVisit(Struct, frozen=True, kw_only=True):
    """`status` None: it did not answer, for `reason`. `datacenter` is what its peers call it. `clock_ahead_s`: how far
    its clock is ahead of this machine's. `refused`: it answers, and not to this client. `is_for_peers`: its url
    is an address for other nodes alone (`node.peers`)."""

    url: str
    status: Status | None
    reason: str = ""
    datacenter: str = ""
    clock_ahead_s: float | None = None
    refused: bool = False
    is_for_peers: bool = False

    @property
    def place(self) -> str:
        return f"{self.datacenter} at {self.url}" if self.datacenter else self.url


def fine(words: str) -> Finding:
    return Finding(severity=Severity.FINE, words=words)


def warning(words: str, advice: str = "") -> Finding:
    return Finding(severity=Severity.WARNING, words=words, advice=advice)


def broken(words: str, advice: str = "") -> Finding:
    return Finding(severity=Severity.BROKEN, words=words, advice=advice)


def name(status: Status) -> str:
    """Of several nodes of a datacenter, which one it is."""
    where = f" at {status.url}" if len(status.nodes) > 1 else ""
    return f"{status.datacenter or 'replica'} ({status.id}){where}"


def is_local(url: str | None) -> bool:
    """Whether all addresses of a member are on its own machine."""
    return all(is_local_host(parse_url(each).host) for each in split_urls(url or ""))


def is_local_host(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
