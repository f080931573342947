"""`epoxy elect` without a cluster: what it says when something is wrong."""

import socket
from pathlib import Path

import pytest

from epoxy.agent.sentinel import NodeStatus, Status
from epoxy.cli.elect import show
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
        assert f"127.0.0.1:{port}: Connection refused" in capsys.readouterr().err
    assert run(["elect", "status", "--agent", "nonsense"]) == 1
    assert "nonsense: not HOST:PORT" in capsys.readouterr().err
    assert run(["elect", "status"]) == 2
    assert "--agent HOST:PORT" in capsys.readouterr().err


def test_a_command_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["elect", "faiover"]) == 2
    assert "unknown command 'faiover'. Did you mean failover?" in capsys.readouterr().err


def test_an_address_that_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        path = written(tmp_path, SOUND.replace("[node]", f'[node]\nlisten = "127.0.0.1:{port}"'))
        assert status_of(["elect", "run", "--config", str(path)]) == 75
    assert f"node.listen: cannot listen on 127.0.0.1:{port}: Address already in use" in capsys.readouterr().err


def test_a_failover_without_a_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["elect", "failover", "b", "--config", str(tmp_path / "none.toml")]) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_a_new_cluster_says_whom_it_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    states = {"a": "fresh", "b": "busy", "c": "unknown"}
    nodes = tuple(
        NodeStatus(
            id=name,
            server="s:1",
            control="c:1",
            priority=100,
            role="replica",
            state=state,
            epoch=1,
            history=0,
            offset=0,
            seen_ms=None,
        )
        for name, state in states.items()
    )
    told = Status(
        cluster="mymaster",
        node="a",
        primary=None,
        primary_address=None,
        epoch=1,
        leader_epoch=1,
        leader="a",
        role="replica",
        state="fresh",
        lease_ms=0,
        quorum=2,
        min_replicas_to_write=0,
        switches=0,
        guard=True,
        nodes=nodes,
    )
    show(told)
    assert "every agent has met every other; not yet: a, c" in capsys.readouterr().out
