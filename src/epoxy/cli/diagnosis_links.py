"""Findings about links between nodes, and between them and this command: what is cut, and for which cause; clocks."""

from collections.abc import Iterator

from epoxy.cli.findings import Finding, NodeVisit, broken, fine, is_local, name, warning
from epoxy.client.results import Status
from epoxy.model.api import PeerStatus

CLOCKS = "Compare their clocks: signatures hold for 30 seconds. Run NTP on both."
SECRETS = (
    "The secret, cluster.members and cluster.quorum_policy must be the same in both files, and cluster.id if the "
    "cluster was restored: a member that joins needs it in its file, a first member gets it from `epoxy restore`."
)
CERTIFICATES = "Check its certificate: the authority that signed it, the name in it, and its end date."
SLOWNESS = "It is reached and does not answer in time: it is paused, overloaded, or its disk is slow."
STORES = "A machine whose disk was lost must come back under a new id, as a newcomer."
COPIES = "Its disk is not what it was. Stop it: `epoxy members add NEW-ID URL --replace ID`, with an empty disk."
TWINS = "Two processes run with copies of one disk. Stop the one that was started last."
RELEASES = "They run different releases of Epoxy: install the newer one on both."
ROUTES = "Is it listening on that address? Check routes and firewalls between the two."

CAUSES = {
    "clock": CLOCKS,
    "not signed with": SECRETS,
    "this one is not signed": RELEASES,
    "same release": RELEASES,
    "certificate": CERTIFICATES,
    "ssl": CERTIFICATES,
    "no answer in time": SLOWNESS,
    "another store": STORES,
    "old_copy": COPIES,
    "clone": COPIES,
    "shortened": COPIES,
    "refused_here": COPIES,
    "still_running": TWINS,
    "starting": "Its disk is slow: it speaks to others once this start is on it.",
}
"""Advice by words in the reason that a node reports for not reaching another. Otherwise: `ROUTES`."""

CERTIFICATES_HERE = (
    f"{CERTIFICATES} This command trusts the authority in --ca (or EPOXY_CA); without it the system's, or those in "
    "SSL_CERT_FILE."
)
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

SIGNATURE_S = 30.0
"""How far clocks may be apart: `WINDOW_MS` in transport/peers/auth.py."""

FAR_CLOCKS_S = 5.0
"""NTP keeps clocks within milliseconds; seconds apart, it does not run somewhere."""

SAME_BUILDING_MS = 0.5
"""No two datacenters are nearer than 50 km of fibre."""


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


def clocks(visits: list[NodeVisit]) -> Iterator[Finding]:
    """Of any two nodes; this machine's own clock does not matter."""
    told = [(visit.clock_ahead_s, visit.status) for visit in visits if visit.clock_ahead_s is not None and visit.status]
    if len(told) < 2:
        return
    ahead = sorted([(seconds, name(status)) for seconds, status in told])
    apart, (_, slowest), (_, fastest) = ahead[-1][0] - ahead[0][0], ahead[0], ahead[-1]
    words = f"the clock of {fastest} is {apart:.1f} s ahead of that of {slowest}"
    if apart > SIGNATURE_S:
        yield broken(f"{words}: they refuse each other's signatures", CLOCKS)
    elif apart > FAR_CLOCKS_S:
        yield warning(f"{words}; at {SIGNATURE_S:.0f} s they refuse each other", CLOCKS)
    else:
        yield fine(f"all clocks are within {max(apart, 0.1):.1f} s of each other")


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
