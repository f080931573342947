"""The certificates of a node or an agent: read from the files of [tls], at the start and whenever they change."""

import hashlib
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from epoxy.model.errors import ConfigError
from epoxy.node.process.logs import LOGGER
from epoxy.transport.expiry import ends_of
from epoxy.transport.tls import ContextOf, TlsContexts, TlsFiles

DAY_S = 86_400.0

SOON_S = 14 * DAY_S
"""Before the end of a certificate, from when on the log mentions it every day: time to order one by hand."""


class CertificateFiles:
    """`for_clients`, `for_peers`, `for_dialing`: as `TlsContexts` has them; None without [tls]. Of those in use:
    `ends`, when they end, by the name of the setting; `flaw_found`, the flaw of this node's own, as it was when they
    were read; `authorities`, fingerprints of those that peers are judged by."""

    def __init__(self, files: TlsFiles | None, host: str, now_s: Callable[[], float] = time.time) -> None:
        """`host`: the name under which peers connect to this process."""
        self._host = host
        self._files = files
        self._now_s = now_s
        self._reminded_s = -DAY_S
        self.ends: dict[str, float] = {}
        self.flaw_found = ""
        self.authorities: tuple[str, ...] = ()
        self._contexts: TlsContexts | None = None
        self._digest = b""
        self.for_clients: ContextOf | None = None
        self.for_peers: ContextOf | None = None
        self.for_dialing: ContextOf | None = None
        if self._files is not None:
            self._digest = digest_of(self._files)
            contexts = self._contexts = contexts_of(self._files)
            self._describe(self._files, contexts)
            self.for_clients, self.for_peers = contexts.for_clients, contexts.for_peers
            self.for_dialing = contexts.for_dialing

    @property
    def files(self) -> Sequence[Path]:
        return tuple(self._files.paths.values()) if self._files is not None else ()

    @property
    def mutual(self) -> bool:
        """Whether peers must show a certificate."""
        return self._files is not None and self._files.ca is not None

    def flaw(self) -> str | None:
        """Why this node's own certificate would be refused by its peers."""
        return self._contexts.flaw(self._host) if self._contexts is not None else None

    def reload(self) -> str:
        """What has changed, in words. ConfigError: nothing, because the files do not fit together; or because our own
        authority would refuse our own new certificate, as while only one of the two is replaced yet."""
        if self._files is None or self._contexts is None:
            return ""
        digest = digest_of(self._files)
        if digest == self._digest:
            return ""
        newer = contexts_of(self._files)
        flaw = newer.flaw(self._host)
        if flaw is not None and self.flaw() is None:
            raise ConfigError(f"[tls]: peers would refuse the certificate in {self._files.cert}: {flaw}")
        self._describe(self._files, newer)
        self._contexts.adopt(newer)
        self._digest = digest
        self._reminded_s = -DAY_S
        return "until " + (
            ", ".join([f"{day_of(end)} ({name})" for name, end in self.ends.items()]) or "an unknown end"
        )

    def _describe(self, files: TlsFiles, contexts: TlsContexts) -> None:
        self.ends = known_ends(files)
        self.flaw_found = contexts.flaw(self._host) or ""
        self.authorities = contexts.authorities if files.ca is not None else ()

    def remind(self) -> None:
        """Once a day, of certificates that end soon or have ended; and at once when one ends."""
        now_s = self._now_s()
        ended = any(self._reminded_s < end <= now_s for end in self.ends.values())
        if now_s - self._reminded_s < DAY_S and not ended:
            return
        self._reminded_s = now_s
        for name, end in self.ends.items():
            facts = {"setting": f"tls.{name}", "until": day_of(end), "days": int((end - now_s) // DAY_S)}
            if end <= now_s:
                LOGGER.error("a certificate has expired", extra=facts)
            elif end - now_s <= SOON_S:
                LOGGER.warning("a certificate expires soon", extra=facts)


def known_ends(files: TlsFiles) -> dict[str, float]:
    """Empty, if the files have changed since contexts were made of them: they are read again soon."""
    try:
        return ends_of(files)
    except OSError:
        return {}


def digest_of(files: TlsFiles) -> bytes:
    """Of what is in them. OpenSSL does not say which of its files is missing; this does."""
    digest = hashlib.sha256()
    for name, path in files.paths.items():
        try:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        except OSError as error:
            raise ConfigError(f"tls.{name} {path}: cannot be read: {error.strerror}") from error
    return digest.digest()


def contexts_of(files: TlsFiles) -> TlsContexts:
    try:
        return TlsContexts(files)
    except OSError as error:  # ssl.SSLError is one
        named = ", ".join(map(str, files.paths.values()))
        raise ConfigError(f"[tls]: no certificate with its key, or no authority, in {named}: {error}") from error


def day_of(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
