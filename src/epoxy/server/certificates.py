"""The certificates of a node, as its settings name them."""

import time
from collections.abc import Callable
from urllib.parse import urlsplit

from epoxy.node.process.certificates import CertificateFiles
from epoxy.node.process.config import Settings
from epoxy.transport.tls import TlsFiles


class Certificates(CertificateFiles):
    def __init__(self, settings: Settings, now_s: Callable[[], float] = time.time) -> None:
        host = urlsplit(settings.node.advertise_url).hostname or ""
        super().__init__(files_of(settings), host, now_s)


def files_of(settings: Settings) -> TlsFiles | None:
    given = settings.tls
    if given is None:
        return None
    return TlsFiles(cert=given.cert, key=given.key, ca=given.ca, client_ca=given.client_ca)
