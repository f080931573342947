"""TLS from three files: our certificate, its key, and the authority whose certificates we believe."""

import ssl
from pathlib import Path


def server_context(cert: Path, key: Path, ca: Path | None = None) -> ssl.SSLContext:
    """For the doors. With an authority, a client may show a certificate, and a peer must: see PeerEndpoint. Whoever
    shows one that the authority did not sign is not let in at all."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    if ca is not None:
        context.load_verify_locations(ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return modern(context)


def client_context(cert: Path | None, key: Path | None, ca: Path | None = None) -> ssl.SSLContext:
    """For the links to the peers: the name in the peer's certificate must be that of its address."""
    context = ssl.create_default_context(cafile=ca)
    if cert is not None:
        context.load_cert_chain(cert, key)
    return modern(context)


def modern(context: ssl.SSLContext) -> ssl.SSLContext:
    """Both ends are ours, or young enough: nothing before 1.2."""
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
