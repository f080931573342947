"""Whether a node would start is found out without a trace, also beside the node that runs there."""

import json
from pathlib import Path

import pytest

from epoxy.model.errors import ConfigError, StoreRefused
from epoxy.node.process.config import Settings, load
from epoxy.server.settings_validation import ValidatedSettings, validate
from epoxy.store.embedded.datadir import FORMAT, DataDir
from epoxy.store.embedded.migration import FROM_FORMAT
from tests.transport.test_tls import Office


def settings(folder: Path, *, cluster: str = "", tls: str = "") -> Settings:
    secret = folder / "secret"
    secret.write_text("s" * 32)
    secret.chmod(0o600)
    url = f"{'https' if tls else 'http'}://127.0.0.1:7800"
    (folder / "epoxy.toml").write_text(
        '[node]\nid = 1\ndata_dir = "data"\nhttp = "127.0.0.1:7800"\n'
        f'[cluster]\nsecret_file = "secret"\n{cluster}\nmembers = [{{id = 1, datacenter = "a", url = "{url}"}}]\n{tls}'
    )
    return load(folder / "epoxy.toml")


def opened(folder: Path, replica: int = 1) -> DataDir:
    return DataDir.open(folder / "data", replica=replica, name="a test")


def test_a_directory_in_use_is_looked_at_and_left_alone(tmp_path: Path) -> None:
    with opened(tmp_path):
        before = sorted(path.name for path in (tmp_path / "data").rglob("*"))
        found = validate(settings(tmp_path))
        assert sorted(path.name for path in (tmp_path / "data").rglob("*")) == before
    data_dir = str(tmp_path / "data")
    assert found == ValidatedSettings(replica=1, datacenter="a", data_dir=data_dir, format=FORMAT, warnings=[])


def test_what_a_start_would_refuse_is_refused(tmp_path: Path) -> None:
    given = settings(tmp_path)
    opened(tmp_path, replica=2).close()
    with pytest.raises(StoreRefused, match="belongs to replica 2, this is replica 1"):
        validate(given)
    (tmp_path / "secret").unlink()
    with pytest.raises(ConfigError, match=r"cluster\.secret_file .*cannot be read"):
        validate(given)


def test_a_folder_of_another_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "notes").touch()
    with pytest.raises(StoreRefused, match="not made by Epoxy"):
        validate(settings(tmp_path))


def test_a_new_directory_is_not_made_and_a_restored_member_needs_its_rows(tmp_path: Path) -> None:
    found = validate(settings(tmp_path))
    assert found.format is None
    assert not (tmp_path / "data").exists()
    (words,) = found.warnings
    assert "is empty: right for a new node" in words
    with pytest.raises(StoreRefused, match="run `epoxy restore` here"):
        validate(settings(tmp_path, cluster='id = "0123456789abcdef"'))


def test_what_it_would_start_with_all_the_same_is_a_warning(tmp_path: Path) -> None:
    cert, key = Office(tmp_path, "ca").issue("elsewhere.example")
    given = settings(tmp_path, tls=f'[tls]\ncert = "{cert}"\nkey = "{key}"\nca = "{tmp_path / "ca.pem"}"\n')
    (tmp_path / "secret").chmod(0o644)
    opened(tmp_path).close()
    description = tmp_path / "data" / "format"
    description.write_text(json.dumps({"format": FROM_FORMAT, "replica": 1}))
    certificate, secret, directory = validate(given).warnings
    assert certificate.startswith(f"peers would refuse the certificate in {cert}: ")
    assert secret == f"others can read the secret: chmod 600 {tmp_path / 'secret'}"
    assert f"is of format {FROM_FORMAT}, and is migrated to {FORMAT}" in directory
