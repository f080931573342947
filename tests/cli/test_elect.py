"""`epoxy elect` without a cluster: what it says when something is wrong."""

from pathlib import Path

import pytest

from epoxy.cli.main import run
from epoxy.testing import free_ports
from tests.agent.test_settings import SOUND, written


def status_of(words: list[str]) -> int:
    with pytest.raises(SystemExit) as left:
        run(words)
    assert isinstance(left.value.code, int)
    return left.value.code


def test_a_config_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["elect", "run", "--check", "--config", str(written(tmp_path, SOUND))]) == 0
    told = capsys.readouterr().out
    assert told.startswith("warning: cluster.min_replicas_to_write: 1 is too few")
    assert told.endswith("a of mymaster, 3 nodes\n")


def test_a_wrong_config_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, SOUND.replace('id = "b"', 'id = "a"'))
    assert status_of(["elect", "run", "--config", str(path)]) == 78
    assert "nodes.id: 'a' is there 2 times" in capsys.readouterr().err


def test_nobody_to_ask(capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    for command in ("status", "primary"):
        assert run(["elect", command, "--agent", f"127.0.0.1:{port}"]) == 1
        assert "no agent answers" in capsys.readouterr().err
    assert run(["elect", "status"]) == 2
    assert "--agent HOST:PORT" in capsys.readouterr().err


def test_a_failover_without_a_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["elect", "failover", "b", "--config", str(tmp_path / "none.toml")]) == 1
    assert "cannot be read" in capsys.readouterr().err
