"""What an agent shows to other agents and operators: the secrets of its cluster, and certificates. Both are read again
when their files change, and on SIGHUP."""

import ssl
from collections.abc import Callable
from pathlib import Path

from epoxy.agent.settings import SECRET_SETTING, AgentSettings
from epoxy.node.process.certificates import CertificateFiles
from epoxy.node.process.secret_files import secrets_in
from epoxy.transport.peers.keyring import fingerprint_of
from epoxy.transport.tls import ContextOf


class AgentSecrets:
    """`current`: the first is spoken, all are accepted."""

    def __init__(self, settings: AgentSettings, changed: Callable[[], None]) -> None:
        """`changed` is called when other secrets are accepted than before."""
        self.current = settings.secrets
        self._path = settings.secret_file
        self._changed = changed

    @property
    def files(self) -> tuple[Path, ...]:
        return (self._path,)

    def reload(self) -> str:
        """What has changed, in words; empty: nothing. ConfigError: the file cannot be used, and nothing has changed."""
        secrets, before = secrets_in(SECRET_SETTING, self._path), self.current
        if secrets == before:
            return ""
        self.current = secrets
        self._changed()
        return f"{described(before)} before; now {described(secrets)}"


def described(secrets: tuple[bytes, ...]) -> str:
    spoken, *others = map(fingerprint_of, secrets)
    return f"{spoken} is spoken" + "".join([f", {other} accepted" for other in others])


class LinkCertificates(CertificateFiles):
    """Of the links between agents. `for_links`: of their listener, which demands a certificate of every peer. None
    without [tls]."""

    def __init__(self, settings: AgentSettings) -> None:
        super().__init__(settings.tls, settings.config.node(settings.me).control.host)
        self.for_links: ContextOf | None = self._demanding if self.for_peers is not None else None

    def _demanding(self) -> ssl.SSLContext:
        assert self.for_peers is not None
        context = self.for_peers()
        context.verify_mode = ssl.CERT_REQUIRED
        return context
