"""TLS from files: our certificate, its key, and the authorities whose certificates are trusted.

Listeners and dialers ask `TlsContexts` for a context at each new connection. So a renewed certificate, or another
authority, is used from the next connection on, and those that are open go on with what they began with.
"""

import ipaddress
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct

FINGERPRINT_DIGITS = 16
"""Of the SHA-256 of a certificate: 64 bits tell any two apart."""

HANDSHAKE_TURNS = 4
"""Of TLS 1.2, which takes more than TLS 1.3."""

ContextOf = Callable[[], ssl.SSLContext]
"""Asked for each new connection."""


class TlsFiles(Struct, frozen=True, kw_only=True):
    """`ca`: the authority of peers, the system's if there is none. `client_ca`: one more, of clients alone."""

    cert: Path
    key: Path
    ca: Path | None = None
    client_ca: Path | None = None

    @property
    def paths(self) -> dict[str, Path]:
        """Those that are given, by the names of their settings."""
        given = {"cert": self.cert, "key": self.key, "ca": self.ca, "client_ca": self.client_ca}
        return {name: path for name, path in given.items() if path is not None}


class TlsContexts:
    """The contexts in force."""

    def __init__(self, files: TlsFiles) -> None:
        """OSError, of which ssl.SSLError is one: no certificate with its key, or no authority, is in the files."""
        self.files = files
        self._clients = server_context(files.cert, files.key, files.ca, files.client_ca)
        self._peers = server_context(files.cert, files.key, files.ca)
        self._dialing = client_context(files.cert, files.key, files.ca)

    def adopt(self, newer: "TlsContexts") -> None:
        """Use these for new connections."""
        self._clients, self._peers, self._dialing = newer._clients, newer._peers, newer._dialing

    def flaw(self, host: str) -> str | None:
        """Why a peer with the same files would refuse the certificate: `flaw_of`."""
        return flaw_of(self._clients, self._dialing, host)

    @property
    def authorities(self) -> tuple[str, ...]:
        """Fingerprints of the authorities that peers are judged by, sorted."""
        held = self._dialing.get_ca_certs(binary_form=True)
        return tuple(sorted([sha256(each).hexdigest()[:FINGERPRINT_DIGITS] for each in held]))

    def for_clients(self) -> ssl.SSLContext:
        """Of a listener that clients connect to."""
        return self._clients

    def for_peers(self) -> ssl.SSLContext:
        """Of a listener that only peers connect to: a certificate of `client_ca` is not accepted there."""
        return self._peers

    def for_dialing(self) -> ssl.SSLContext:
        """Of connections to peers."""
        return self._dialing


def server_context(cert: Path, key: Path, ca: Path | None = None, client_ca: Path | None = None) -> ssl.SSLContext:
    """For listeners. With an authority, a client may show a certificate, and a peer must: see `Authenticator`. The
    handshake fails with a certificate that no authority of ours signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key, password=refuse_password)
    for authority in (ca, client_ca):
        if authority is not None:
            context.load_verify_locations(authority)
            context.verify_mode = ssl.CERT_OPTIONAL
    return modern(context)


def client_context(cert: Path | None, key: Path | None, ca: Path | None = None) -> ssl.SSLContext:
    """For links to peers: the name in the peer's certificate must be that of its address."""
    context = ssl.create_default_context(cafile=ca)
    if cert is not None:
        context.load_cert_chain(cert, key, password=refuse_password)
    return modern(context)


def refuse_password() -> str:
    """OpenSSL would ask for it at the terminal, and the process would stand still until it is answered."""
    raise OSError("a key with a password cannot be used; give one without")


def certificate_names(peercert: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The names (SANs) in the certificate that the other end has shown and an authority of ours has signed, as
    `ssl.SSLSocket.getpeercert` has it. Host names in lower case and IP addresses in their shortest spelling, so that a
    name has one spelling. Empty: it has shown none."""
    return tuple([spelled(kind, name) for kind, name in (peercert or {}).get("subjectAltName", ()) if kind in NAMES])


NAMES = frozenset(("DNS", "URI", "IP Address", "email"))
"""Kinds of names that are text."""


def spelled(kind: str, name: str) -> str:
    if kind == "IP Address":
        try:
            return str(ipaddress.ip_address(name.strip()))
        except ValueError:  # OpenSSL's words for an address of an impossible length
            return name
    return name.lower() if kind == "DNS" else name


def flaw_of(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> str | None:
    """Why a peer with the same files would refuse this node's certificate: it has expired, was signed by another
    authority, or is for another name than `host`. None: it would accept it."""
    try:
        handshake(server, client, host)
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except ssl.SSLError as error:
        return error.reason
    return None


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str | None) -> ssl.SSLObject:
    """Both ends in memory. Returns the client's; ssl.SSLError: one of them refused the other."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = client.wrap_bio(back, there, server_hostname=host), server.wrap_bio(there, back, server_side=True)
    for _ in range(HANDSHAKE_TURNS):
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ends[0]


def modern(context: ssl.SSLContext) -> ssl.SSLContext:
    """Nothing before TLS 1.2."""
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
