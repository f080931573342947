"""When certificates in files end. OpenSSL decodes them: authorities as a context has loaded them, and the node's own as
the client of a handshake in memory sees it. A library that reads certificates would be a second judge of them, and
larger than the rest of what a node needs."""

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epoxy.transport.tls import TlsFiles, handshake, refuse_password

NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which `ssl` has no name for: whether a certificate has expired is not asked,
because that is what is to be found out."""

Decoded = Mapping[str, Any]
"""A certificate as `ssl.SSLSocket.getpeercert` has it."""


def ends_of(files: TlsFiles) -> dict[str, float]:
    """In seconds since 1970, by the name of the setting.

    `cert`: of the chain, whose first end is its own. `ca`: of the authority that signed the chain, because an old one
    may stand beside it while it is replaced. `client_ca`: the last of the file, for the same reason. A certificate that
    OpenSSL would not show to a client has no entry.
    """
    own = own_certificate(files)
    if own is None:
        return {}
    chain = [own, *authorities_in(files.cert)]
    ends = {"cert": min(map(end_of, chain))}
    if files.ca is not None:
        issuers = [certificate["issuer"] for certificate in chain]
        known = authorities_in(files.ca)
        signed_by = [authority for authority in known if authority["subject"] in issuers]
        ends |= last_end("ca", signed_by or known)
    if files.client_ca is not None:
        ends |= last_end("client_ca", authorities_in(files.client_ca))
    return ends


def own_certificate(files: TlsFiles) -> Decoded | None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files.cert, files.key, password=refuse_password)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.load_verify_locations(files.cert)
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VerifyFlags(NO_CHECK_TIME)
    try:
        return handshake(server, client, None).getpeercert()
    except ssl.SSLError:
        return None


def authorities_in(path: Path) -> Sequence[Decoded]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(path)
    return context.get_ca_certs()


def end_of(certificate: Decoded) -> float:
    return float(ssl.cert_time_to_seconds(certificate["notAfter"]))


def last_end(name: str, authorities: Sequence[Decoded]) -> dict[str, float]:
    return {name: max(map(end_of, authorities))} if authorities else {}
