"""TLS from three files: our certificate, its key, and the authority whose certificates are trusted."""

import ssl
from pathlib import Path

HANDSHAKE_TURNS = 4
"""Of TLS 1.2, which takes more than TLS 1.3."""


def server_context(cert: Path, key: Path, ca: Path | None = None) -> ssl.SSLContext:
    """For listeners. With an authority, a client may show a certificate, and a peer must: see `Authenticator`. The
    handshake fails with a certificate that the authority did not sign."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    if ca is not None:
        context.load_verify_locations(ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return modern(context)


def client_context(cert: Path | None, key: Path | None, ca: Path | None = None) -> ssl.SSLContext:
    """For links to peers: the name in the peer's certificate must be that of its address."""
    context = ssl.create_default_context(cafile=ca)
    if cert is not None:
        context.load_cert_chain(cert, key)
    return modern(context)


def flaw_of(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> str | None:
    """Why a peer with the same files would refuse this node's certificate: it has expired, was signed by another
    authority, or is for another name than `host`. None: it would accept it. Both ends of a handshake run in memory."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = client.wrap_bio(back, there, server_hostname=host), server.wrap_bio(there, back, server_side=True)
    for _ in range(HANDSHAKE_TURNS):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
            except ssl.SSLError as error:
                return error.reason
    return None


def modern(context: ssl.SSLContext) -> ssl.SSLContext:
    """Nothing before TLS 1.2."""
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
