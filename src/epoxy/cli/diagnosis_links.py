"""Findings about links between nodes, and between them and this command: what is cut, and for which cause; clocks."""

from collections.abc import Iterator, Sequence

from epoxy.cli.finding_kinds import FindingKind
from epoxy.cli.findings import Finding, NodeVisit, broken, fine, is_local, name, unknown, warning
from epoxy.cli.output import plural
from epoxy.client.results import Status
from epoxy.model.api import PeerStatus

CLOCKS = "Compare their clocks: signatures hold for 30 seconds. Run NTP on both machines."
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
ABSENT = "Is it running, and is this its address? On its machine, this command logs why it does not start:"
START = "epoxy serve --config epoxy.toml"
NTP = "timedatectl set-ntp true"

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

LEAST_SHOWN_S = 0.1
"""Closer than this is as good as equal, and half a round trip between continents is about as much."""

SAME_BUILDING_MS = 0.5
"""No two datacenters are nearer than 50 km of fibre."""


def links(statuses: Sequence[Status]) -> Iterator[Finding]:
    """A link that one side reports as dead while both ends of it answer us is cut between them."""
    answering = {status.id for status in statuses if speaks(status)}
    for status in statuses:
        for peer in status.peers:
            if not peer.reachable and peer.id in answering:
                told = f": {peer.trouble}" if peer.trouble else ""
                words = f"{name(status)} does not reach {peer.datacenter}, though both answer{told}"
                advice = cure_of(peer)
                yield broken(FindingKind.LINK_CUT, words, advice, *((NTP,) if advice == CLOCKS else ()))


def speaks(status: Status) -> bool:
    """Whether it has links to other datacenters itself: of several nodes, the gateway has."""
    return not status.nodes or any(node.gateway and node.session == status.session for node in status.nodes)


def cure_of(peer: PeerStatus) -> str:
    """By the reason that the node which does not reach it reports, if any."""
    if not peer.trouble:
        return "Check routes, firewalls, certificates and the cluster's secret between the two."
    return cure(peer.trouble, CAUSES, ROUTES)


def cure(reason: str, causes: dict[str, str], otherwise: str) -> str:
    said = reason.lower()
    return next((advice for words, advice in causes.items() if words in said), otherwise)


def clocks(visits: Sequence[NodeVisit]) -> Iterator[Finding]:
    """Of any two nodes; this machine's own clock does not matter. Each was read to within half a round trip."""
    told = [(visit.clock, name(visit.status)) for visit in visits if visit.clock is not None and visit.status]
    if len(told) < 2:
        return
    (slow, slowest), *_, (fast, fastest) = sorted(told, key=lambda each: each[0].ahead_s)
    apart, give_or_take = fast.ahead_s - slow.ahead_s, fast.within_s + slow.within_s
    words = f"the clock of {fastest} is {apart:.1f} s ahead of that of {slowest} (±{give_or_take:.3f} s)"
    if apart - give_or_take > SIGNATURE_S:
        yield broken(FindingKind.CLOCK_SKEW, f"{words}: they refuse each other's signatures", CLOCKS, NTP)
    elif apart - give_or_take > FAR_CLOCKS_S:
        yield warning(FindingKind.CLOCK_SKEW, f"{words}; at {SIGNATURE_S:.0f} s they refuse each other", CLOCKS, NTP)
    elif apart + give_or_take > FAR_CLOCKS_S:
        yield unknown(
            FindingKind.CLOCKS_UNKNOWN,
            f"the clocks of {fastest} and {slowest} are {apart:.1f} s apart, give or take {give_or_take:.1f} s",
            "They answered slowly. Ask again, from a machine that is nearer to them.",
        )
    else:
        is_all = len(told) == len(visits)
        which = "all clocks" if is_all else f"the clocks of the {plural(len(told), 'node')} that answered"
        within = max(apart + give_or_take, LEAST_SHOWN_S)
        yield fine(FindingKind.CLOCKS_CLOSE, f"{which} are within {within:.1f} s of each other")


def distances(statuses: Sequence[Status]) -> Iterator[Finding]:
    for status in statuses:
        for peer in status.peers:
            apart = peer.rtt_ms
            if apart is not None and apart < SAME_BUILDING_MS and not is_local(peer.url) and status.id < peer.id:
                yield warning(
                    FindingKind.NEAR_DATACENTERS,
                    f"{status.datacenter} and {peer.datacenter} are {apart:.1f} ms apart",
                    "Put one of them into another building. `epoxy plan` shows what distances cost.",
                )


def encryption(visits: Sequence[NodeVisit]) -> Iterator[Finding]:
    plain = [visit.url for visit in visits if visit.url.startswith("http:") and not is_local(visit.url)]
    if plain:
        words = f"no encryption: {', '.join(plain)}"
        yield warning(FindingKind.NO_ENCRYPTION, words, "Set cert and key in [tls] of each file.")
