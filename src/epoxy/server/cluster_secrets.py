"""The cluster's secrets in a running node: read from `cluster.secret_file`, one or two at a time."""

from pathlib import Path

from epoxy.node.process.config import Settings
from epoxy.node.process.secret_files import read_secrets
from epoxy.transport.peers.auth import peer_secret
from epoxy.transport.peers.keyring import Keyring, SigningKey, fingerprint_of


class ClusterSecrets:
    """`keys`: as an operator signs with them. `peer_keys`: derived from them, as replicas do."""

    def __init__(self, settings: Settings) -> None:
        """`settings` of the cluster: its id is part of what peers sign with."""
        self._settings = settings
        secrets = read_secrets(settings)
        self.keys = Keyring(*map(SigningKey, secrets))
        self.peer_keys = Keyring(*self._derived(secrets))

    @property
    def files(self) -> tuple[Path, ...]:
        return (self._settings.cluster.secret_file,)

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """The first is of the one that is spoken."""
        return tuple([key.fingerprint for key in self.keys.keys])

    def reload(self) -> str:
        """What has changed, in words; empty: nothing. ConfigError: the file cannot be used, and nothing has changed."""
        secrets, before = read_secrets(self._settings), self.fingerprints
        if secrets == tuple([key.secret for key in self.keys.keys]):
            return ""
        self.keys.replace(map(SigningKey, secrets))
        self.peer_keys.replace(self._derived(secrets))
        return f"{described(before)} before; now {described(self.fingerprints)}"

    def _derived(self, secrets: tuple[bytes, ...]) -> list[SigningKey]:
        """With the fingerprints of what is in the file, which an operator compares."""
        first, cluster = self._settings.first_config(), self._settings.cluster.id
        return [SigningKey(peer_secret(secret, first, cluster), fingerprint_of(secret)) for secret in secrets]


def described(fingerprints: tuple[str, ...]) -> str:
    spoken, *others = fingerprints
    return f"{spoken} is spoken" + "".join([f", {other} accepted" for other in others])
