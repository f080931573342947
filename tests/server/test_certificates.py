"""A node's certificates, from the files that [tls] names. (The tests of `process` have the refusals.)"""

from pathlib import Path

import pytest

from epoxy.model.errors import ConfigError
from epoxy.node.process.config import Settings, load
from epoxy.server.certificates import Certificates
from tests.transport.test_tls import Office


def settings(folder: Path, tls: str) -> Settings:
    (folder / "secret").write_text("s" * 32)
    (folder / "epoxy.toml").write_text(
        '[node]\nid = 1\ndata_dir = "data"\nhttp = "127.0.0.1:7800"\n'
        f'[cluster]\nsecret_file = "secret"\nmembers = [{{id = 1, datacenter = "a", url = "{"https" if tls else "http"}'
        f'://127.0.0.1:7800"}}]\n{tls}'
    )
    return load(folder / "epoxy.toml")


def test_without_tls_there_are_none(tmp_path: Path) -> None:
    none = Certificates(settings(tmp_path, ""))
    assert none.for_clients is none.for_peers is none.for_dialing is None
    assert not none.mutual
    assert none.flaw() is None


def test_peers_show_certificates_if_there_is_an_authority(tmp_path: Path) -> None:
    office = Office(tmp_path, "ca")
    cert, key = office.issue("127.0.0.1")
    files = f'[tls]\ncert = "{cert}"\nkey = "{key}"\n'
    assert not Certificates(settings(tmp_path, files)).mutual
    assert not Certificates(settings(tmp_path, f'{files}client_ca = "{office.ca}"\n')).mutual
    strict = Certificates(settings(tmp_path, f'{files}ca = "{office.ca}"\n'))
    assert strict.mutual
    assert strict.flaw() is None


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    cert, key = Office(tmp_path, "ca").issue("127.0.0.1")
    given = settings(tmp_path, f'[tls]\ncert = "{cert}"\nkey = "{key}"\nclient_ca = "none.pem"\n')
    with pytest.raises(ConfigError, match=r"tls\.client_ca .*none.pem: cannot be read: No such file"):
        Certificates(given)
