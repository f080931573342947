"""The cluster's secrets in a running node: one or two, read again when the file changes."""

from pathlib import Path

import pytest

from epoxy.model.errors import ConfigError
from epoxy.server.cluster_secrets import ClusterSecrets
from epoxy.transport.peers.auth import peer_secret
from epoxy.transport.peers.keyring import fingerprint_of
from tests.server.test_certificates import settings

OLD, NEW = "s" * 32, "n" * 32


@pytest.fixture
def secrets(tmp_path: Path) -> ClusterSecrets:
    return ClusterSecrets(settings(tmp_path, ""))


def write(secrets: ClusterSecrets, *lines: str) -> str:
    secrets.files[0].write_text("\n".join(lines))
    return secrets.reload()


def test_what_peers_sign_with_follows_the_file(tmp_path: Path, secrets: ClusterSecrets) -> None:
    old, new = (fingerprint_of(each.encode()) for each in (OLD, NEW))
    config = settings(tmp_path, "").first_config()
    assert secrets.fingerprints == (old,)
    assert write(secrets, OLD) == "", "nothing has changed"
    assert write(secrets, OLD, NEW) == f"{old} is spoken before; now {old} is spoken, {new} accepted"
    was = secrets.peer_keys.spoken
    assert was.secret == peer_secret(OLD.encode(), config)
    assert write(secrets, NEW, OLD) == f"{old} is spoken, {new} accepted before; now {new} is spoken, {old} accepted"
    assert secrets.peer_keys.spoken.secret == peer_secret(NEW.encode(), config)
    assert secrets.peer_keys.spoken.fingerprint == new
    assert not was.retired
    write(secrets, NEW)
    assert was.retired
    assert [key.secret for key in secrets.keys.keys] == [NEW.encode()]


def test_a_file_that_cannot_be_used_changes_nothing(secrets: ClusterSecrets) -> None:
    before = secrets.keys.keys, secrets.peer_keys.keys
    for lines in ((), (OLD, "short"), (OLD, OLD)):
        with pytest.raises(ConfigError, match=r"^cluster\.secret_file "):
            write(secrets, *lines)
    secrets.files[0].unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        secrets.reload()
    assert (secrets.keys.keys, secrets.peer_keys.keys) == before
