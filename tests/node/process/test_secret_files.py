"""Secrets in files: what is read, and what is refused in one line."""

from pathlib import Path

import pytest

from epoxy.model.address import Address
from epoxy.model.errors import ConfigError
from epoxy.node.process.config import ClusterSettings, NodeSettings, Settings
from epoxy.node.process.secret_files import is_open_to_others, read_secret, secrets_in


def with_secret(path: Path) -> Settings:
    node = NodeSettings(id=1, data_dir=Path("unused"), http=Address("h", 0))
    return Settings(node=node, cluster=ClusterSettings(members=(), secret_file=path))


def test_a_secret_is_read_without_the_line_end(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"0123456789abcdef\n")
    assert read_secret(with_secret(path)) == b"0123456789abcdef"


def test_a_file_that_others_may_read_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.touch(0o600)
    assert not is_open_to_others(path)
    path.chmod(0o640)
    assert is_open_to_others(path)


def test_a_file_has_one_secret_or_two(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"0123456789abcdef\n")
    assert secrets_in("cluster.secret_file", path) == (b"0123456789abcdef",)
    path.write_bytes(b"0123456789abcdef\r\n\n fedcba9876543210 \n")
    assert secrets_in("cluster.secret_file", path) == (b"0123456789abcdef", b"fedcba9876543210")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "0 bytes; at least 16"),
        (b"0123456789abcdef\nshort\n", "line 2: 5 bytes; at least 16"),
        (b"0123456789abcdef\n" * 2, "both lines are the same secret"),
        (b"0123456789abcdef\n" * 3, "3 lines; a secret is one line, and there are two at most"),
    ],
)
def test_a_file_of_secrets_that_is_none(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "secret"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"^cluster\.secret_file .*secret: {words}$"):
        secrets_in("cluster.secret_file", path)
