"""The certificates of a node: read from the files that [tls] names."""

from urllib.parse import urlsplit

from epoxy.model.errors import ConfigError
from epoxy.node.process.config import Settings
from epoxy.transport import tls
from epoxy.transport.tls import ContextOf, TlsContexts, TlsFiles


class Certificates:
    """`for_clients`, `for_peers`, `for_dialing`: as `TlsContexts` has them; None without [tls]."""

    def __init__(self, settings: Settings) -> None:
        self._host = urlsplit(settings.node.advertise_url).hostname or ""
        self._contexts = contexts_of(settings)
        self.for_clients: ContextOf | None = self._contexts.for_clients if self._contexts is not None else None
        self.for_peers: ContextOf | None = self._contexts.for_peers if self._contexts is not None else None
        self.for_dialing: ContextOf | None = self._contexts.for_dialing if self._contexts is not None else None

    @property
    def mutual(self) -> bool:
        """Whether peers must show a certificate."""
        return self._contexts is not None and self._contexts.files.ca is not None

    def flaw(self) -> str | None:
        """Why this node's own certificate would be refused by its peers."""
        if self._contexts is None:
            return None
        return tls.flaw_of(self._contexts.for_clients(), self._contexts.for_dialing(), self._host)


def contexts_of(settings: Settings) -> TlsContexts | None:
    given = settings.tls
    if given is None:
        return None
    files = TlsFiles(cert=given.cert, key=given.key, ca=given.ca, client_ca=given.client_ca)
    check_readable(files)
    try:
        return TlsContexts(files)
    except OSError as error:  # ssl.SSLError is one
        named = ", ".join(map(str, files.paths.values()))
        raise ConfigError(f"[tls]: no certificate with its key, or no authority, in {named}: {error}") from error


def check_readable(files: TlsFiles) -> None:
    """OpenSSL does not say which of its files is missing."""
    for name, path in files.paths.items():
        try:
            path.read_bytes()
        except OSError as error:
            raise ConfigError(f"tls.{name} {path}: cannot be read: {error.strerror}") from error
