"""elect.toml, as an operator may write it and as they may not."""

from pathlib import Path

import pytest

from epoxy.agent.settings import load
from epoxy.model.address import Address
from epoxy.model.errors import ConfigError
from epoxy.protocol.elect.config import ElectTiming

SOUND = """
[node]
id = "a"
data_dir = "a-data"
clients = "127.0.0.1:26379"

[cluster]
name = "mymaster"
secret_file = "secret"
initial_primary = "a"
min_replicas_to_write = 1

[[nodes]]
id = "a"
control = "10.0.0.1:7900"
server = "10.0.0.1:6379"

[[nodes]]
id = "b"
control = "10.0.0.2:7900"
server = "10.0.0.2:6379"

[[nodes]]
id = "c"
control = "10.0.0.3:7900"
server = "10.0.0.3:6379"
priority = 0
"""


def written(folder: Path, text: str) -> Path:
    (folder / "secret").write_bytes(b"0123456789abcdef")
    path = folder / "elect.toml"
    path.write_text(text)
    return path


def test_a_sound_file(tmp_path: Path) -> None:
    settings = load(written(tmp_path, SOUND))
    assert settings.me == "a"
    assert settings.data_dir == tmp_path / "a-data"
    assert settings.listen == Address("10.0.0.1", 7900)
    assert settings.config.timing == ElectTiming()
    assert [node.priority for node in settings.config.nodes] == [100, 100, 0]
    assert settings.secrets == (b"0123456789abcdef",)
    assert settings.tls is None
    assert [finding.setting for finding in settings.findings] == ["cluster.min_replicas_to_write"]


def test_timeouts_that_are_not_given_keep_their_proportions(tmp_path: Path) -> None:
    timing = load(written(tmp_path, SOUND + "\n[timing]\ndown_after_ms = 1000\n")).config.timing
    assert (timing.lease_ms, timing.election_timeout_ms) == (750, 600)
    assert (timing.election_backoff_min_ms, timing.election_backoff_max_ms) == (200, 1_000)
    given = '\n[timing]\nlease_ms = 3000\nelection_backoff_ms = "10-20"\n'
    timing = load(written(tmp_path, SOUND + given)).config.timing
    assert (timing.lease_ms, timing.election_backoff_min_ms, timing.election_backoff_max_ms) == (3_000, 10, 20)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('id = "a"\ndata', 'id = "z"\ndata', "node.id 'z' is not one of the nodes"),
        ('id = "b"', 'id = "a"', "nodes.id: 'a' is there 2 times"),
        ('id = "b"', 'id = "b\u00fc"', "nodes.id"),
        ("10.0.0.2:7900", "10.0.0.1:7900", "nodes.control"),
        ("10.0.0.2:7900", "nowhere", "nodes.control is 'nowhere'"),
        ("priority = 0", "priority = 5000", "nodes.priority is 5000"),
        ("priority = 0", "rank = 0", "allowed: id, control, server, priority"),
        ("min_replicas_to_write = 1", "min_replicas_to_write = 9", "cluster.min_replicas_to_write"),
        ("min_replicas_to_write = 1", "typo = 9", "unknown setting cluster.typo"),
        ('initial_primary = "a"', 'initial_primary = "c"', "cluster.initial_primary"),
        ('secret_file = "secret"', 'secret_file = "nothing"', "cluster.secret_file"),
        ("[cluster]", "[timing]\nlease_ms = 5000\n[cluster]", "timing.lease_ms"),
        ("[cluster]", '[timing]\nelection_backoff_ms = "soon"\n[cluster]', "timing.election_backoff_ms"),
        ("[cluster]", "[other]\n[cluster]", "unknown section [other]"),
        (
            "min_replicas_to_write = 1",
            "elect_port_base = 17000",
            'one port for agents, control = "host:port" in [[nodes]]',
        ),
        ("[cluster]", "[server]\nkill_hung = 1\n[cluster]", "server.kill_hung is 1"),
        ("[cluster]", '[tls]\ncert = "c.pem"\nkey = "k.pem"\n[cluster]', "tls.ca"),
        ("[cluster]", "[tls]\n[cluster]", "tls.cert"),
    ],
)
def test_what_is_wrong_is_told_with_its_setting(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in SOUND
    with pytest.raises(ConfigError) as refused:
        load(written(tmp_path, SOUND.replace(old, new, 1)))
    assert words in str(refused.value)


def test_a_secret_that_is_too_short(tmp_path: Path) -> None:
    path = written(tmp_path, SOUND)
    (tmp_path / "secret").write_bytes(b"short")
    with pytest.raises(ConfigError, match="5 bytes; at least 16"):
        load(path)


def test_no_nodes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"one \[\[nodes\]\]"):
        load(written(tmp_path, SOUND.partition("[[nodes]]")[0]))


def test_two_secrets_and_tls(tmp_path: Path) -> None:
    path = written(tmp_path, SOUND + '\n[tls]\ncert = "c.pem"\nkey = "k.pem"\nca = "ca.pem"\n')
    (tmp_path / "secret").write_bytes(b"the new secret, 16+\nthe old secret, 16+\n")
    settings = load(path)
    assert settings.secrets == (b"the new secret, 16+", b"the old secret, 16+")
    assert settings.tls is not None
    assert settings.tls.paths == {
        name: tmp_path / f"{stem}.pem" for name, stem in (("cert", "c"), ("key", "k"), ("ca", "ca"))
    }
