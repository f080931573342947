"""Which versions of the wire both ends of a handshake speak, and what is known of the peers' releases.

    epoxy-speaks: <oldest>-<newest>,<release>,<MAC>     beside the signature of a handshake
    epoxy-session: <nonce>,<greeting>,<oldest>-<newest>,<release>,<proof>      in the answer to it

The client's offer has a MAC of its own, over that of the request: release 0.1.0 does not know the header, and skips it.
The server's is part of what its proof covers, and comes only if the client made one. The highest version that both
speak is used from the next byte on. More fields may follow the release, and are skipped.
"""

import hmac
import logging
import re

import epoxy
from epoxy.model.versions import NEWEST_WIRE, OLDEST_WIRE, PeerVersions, WireVersions
from epoxy.transport.peers.auth import mac_of

log = logging.getLogger("epoxy.peers")

PROTOCOL = b"epoxy-frames/"
"""Followed by the version. In a request it is the oldest one of the client, which is all that release 0.1.0 reads."""

SPEAKS_HEADER = b"epoxy-speaks"

OFFER = re.compile(rb"([1-9][0-9]{0,4})-([1-9][0-9]{0,4}),([0-9A-Za-z.+!_-]{1,64})(?:,[ -~]{0,128})?")
"""A release is printed in logs, metrics and web pages, so it has few letters; the longest of ours has 20."""


def offer_text(versions: WireVersions) -> bytes:
    return b"%d-%d,%b" % (versions.oldest, versions.newest, versions.release.encode("ascii"))


def read_offer(text: bytes) -> WireVersions | None:
    """None: it cannot be read."""
    found = OFFER.fullmatch(text)
    if found is None or int(found[1]) > int(found[2]):
        return None
    return WireVersions(oldest=int(found[1]), newest=int(found[2]), release=found[3].decode("ascii"))


def sign_offer(secret: bytes, mac: bytes, versions: WireVersions) -> bytes:
    """The value of the header. `mac`: of the request that it belongs to."""
    text = offer_text(versions)
    return b"%b,%b" % (text, offer_mac(secret, mac, text))


def verify_offer(secret: bytes, mac: bytes, value: bytes) -> WireVersions | None:
    """None: it cannot be read, or was not made by the sender of the request for this request."""
    text, _, given = value.rpartition(b",")
    is_signed = hmac.compare_digest(given, offer_mac(secret, mac, text))
    return read_offer(text) if is_signed else None


def offer_mac(secret: bytes, mac: bytes, text: bytes) -> bytes:
    """A MAC has no line end, so no other input of this key is the same."""
    return mac_of(secret, b"speaks\n%b\n" % mac, text)


def version_of(upgrade: bytes) -> int | None:
    """The version in the header of a handshake; None: it asks for another protocol."""
    name, number = upgrade[: len(PROTOCOL)].lower(), upgrade[len(PROTOCOL) :]
    return int(number) if name == PROTOCOL and number.isdigit() and len(number) < 6 else None


def known_versions(me: int) -> PeerVersions:
    """Of a process of this build, which logs what it hears."""
    mine = WireVersions(oldest=OLDEST_WIRE, newest=NEWEST_WIRE, release=epoxy.__version__)
    return PeerVersions(me, mine, tell=log.info, warn=log.error)
