"""The files of a node on this machine, whether it runs or not."""

from pathlib import Path

import pytest

from epoxy.cli.diagnosis_certificates import PLACEHOLDERS
from epoxy.cli.node_files import look_at_files, weakness
from epoxy.model.errors import ConfigError
from epoxy.node.process.secret_files import MIN_SECRET_BYTES
from tests.transport.test_tls import Office

SECRET = "Aeg7uYeeShoh2aLoGhie9aik"


def written(folder: Path, more: str = "", *, node: str = "", scheme: str = "http") -> Path:
    (folder / "secret").write_text(SECRET)
    (folder / "secret").chmod(0o600)
    config = folder / "epoxy.toml"
    config.write_text(
        f'[node]\nid = 1\ndata_dir = "data"\nhttp = "127.0.0.1:7800"\n{node}'
        f'[cluster]\nsecret_file = "secret"\nmembers = [{{id = 1, datacenter = "a", url = "{scheme}://127.0.0.1:7800"}}]\n'
        f"{more}"
    )
    return config


def test_files_that_are_as_they_should_be(tmp_path: Path) -> None:
    seen = look_at_files(written(tmp_path))
    assert (seen.readable, seen.wrong, seen.weak, seen.flaw) == ({}, (), "", "")
    assert (seen.url, seen.free) == ("http://127.0.0.1:7800", None)
    (tmp_path / "data").mkdir()
    assert (look_at_files(tmp_path / "epoxy.toml").free or 0) > 0


def test_files_that_others_can_read(tmp_path: Path) -> None:
    office = Office(tmp_path, "ca")
    cert, key = office.issue("127.0.0.1")
    key.chmod(0o600)
    tls = f'[tls]\ncert = "{cert}"\nkey = "{key}"\nca = "{office.ca}"\n'
    config = written(tmp_path, tls, scheme="https")
    assert look_at_files(config).readable == {}
    key.chmod(0o640)
    (tmp_path / "secret").chmod(0o604)
    assert look_at_files(config).readable == {"cluster.secret_file": tmp_path / "secret", "tls.key": key}


def test_a_password_of_the_database(tmp_path: Path) -> None:
    def readable(url: str, mode: int) -> list[str]:
        config = written(tmp_path, f'[store]\ndriver = "postgres"\nurl = "{url}"\n')
        config.chmod(mode)
        return list(look_at_files(config).readable)

    assert readable("postgresql://epoxy@db/epoxy", 0o644) == []
    assert readable("postgresql://epoxy:hush@db/epoxy", 0o644) == ["the password of store.url in"]
    assert readable("postgresql://epoxy:hush@db/epoxy", 0o600) == []


def test_a_secret_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    config = written(tmp_path)
    (tmp_path / "secret").write_text("short")
    (words,) = look_at_files(config).wrong
    assert words.endswith("5 bytes; at least 16")
    (tmp_path / "secret").unlink()
    (words,) = look_at_files(config).wrong
    assert "cannot be read" in words


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        (b"change-me-please", "an example"),
        (b"0" * 40, "1 different ones"),
        (b"abab" * 8, "2 different ones"),
        (SECRET.encode(), ""),
        (b"0123456789abcdeg", ""),
    ],
)
def test_secrets_that_can_be_guessed(secret: bytes, words: str) -> None:
    assert words in weakness((SECRET.encode(), secret))
    assert bool(weakness((secret,))) == bool(words)


def test_placeholders_are_secrets_that_a_node_takes() -> None:
    assert all(len(word) >= MIN_SECRET_BYTES for word in PLACEHOLDERS)
    assert len(set(PLACEHOLDERS)) == len(PLACEHOLDERS)


def test_certificates_that_peers_refuse(tmp_path: Path) -> None:
    office, other = Office(tmp_path / "a", "ca"), Office(tmp_path / "b", "ca")

    def flaw(names: str, ca: Path) -> str:
        cert, key = office.issue(names)
        key.chmod(0o600)
        tls = f'[tls]\ncert = "{cert}"\nkey = "{key}"\nca = "{ca}"\n'
        return look_at_files(written(tmp_path, tls, scheme="https")).flaw

    assert flaw("127.0.0.1", office.ca) == ""
    assert "mismatch" in flaw("elsewhere.example", office.ca)
    assert "unable to get local issuer" in flaw("127.0.0.1", other.ca)
    config = written(tmp_path, '[tls]\ncert = "absent.pem"\nkey = "absent.pem"\n', scheme="https")
    (words,) = look_at_files(config).wrong
    assert "absent.pem: cannot be read" in words


@pytest.mark.parametrize(
    ("node", "url"),
    [
        ('admin = "127.0.0.1:7803"\n', "http://127.0.0.1:7803"),
        ('admin = "[::1]:7803"\n', "http://[::1]:7803"),
        ('admin = "0.0.0.0:7803"\n', "http://127.0.0.1:7803"),
        ('admin = "[::]:7803"\n', "http://[::1]:7803"),
    ],
)
def test_operators_are_served_at_their_own_address(tmp_path: Path, node: str, url: str) -> None:
    assert look_at_files(written(tmp_path, node=node)).url == url


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent"):
        look_at_files(tmp_path / "absent.toml")
