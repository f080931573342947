"""`epoxy elect` without a cluster: what it says when something is wrong."""

import socket
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from epoxy.agent.disk import Disk
from epoxy.agent.redis import Reply, ServerError
from epoxy.agent.settings import load
from epoxy.cli import elect_query
from epoxy.cli.elect import show
from epoxy.cli.main import run
from epoxy.model.elect_status import AgentStatus, NodeStatus
from epoxy.protocol.elect.lists import first
from epoxy.protocol.elect.terms import ElectRecord
from epoxy.testing import free_ports
from tests.agent.test_settings import SOUND, written
from tests.cli.status import status_of


def test_a_config_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["elect", "run", "--check", "--config", str(written(tmp_path, SOUND))]) == 0
    told = capsys.readouterr().out
    assert told.startswith("warning: cluster.min_replicas_to_write: 1 is too few")
    assert told.endswith("a of mymaster, 3 nodes\n")


def test_a_wrong_config_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, SOUND.replace('id = "b"', 'id = "a"'))
    assert status_of(["elect", "run", "--config", str(path)]) == 78
    assert "nodes.id: 'a' is there 2 times" in capsys.readouterr().err


def remembering(folder: Path, names: str) -> None:
    """a has run with this list before."""
    known = load(written(folder, SOUND)).config
    nodes = tuple(node for node in known.nodes if node.id in names)
    more = tuple(replace(known.nodes[1], id=name) for name in names if name > "c")
    record = ElectRecord(leader="a", lists=first(replace(known, nodes=(*nodes, *more))))
    Disk(folder / "a-data", "mymaster", "a").save(record)


@pytest.mark.parametrize("check", [["--check"], []])
def test_a_list_that_cannot_follow_the_one_before_is_refused_with_the_way_to_do_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], check: list[str]
) -> None:
    remembering(tmp_path, "acdef")
    assert status_of(["elect", "run", *check, "--config", str(tmp_path / "elect.toml")]) == 78
    assert "of (a, c, d, e, f) only a, c would stay; keep a majority of the old list (3)" in capsys.readouterr().err


def test_a_change_of_nodes_is_shown_before_it_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remembering(tmp_path, "acd")
    assert run(["elect", "run", "--check", "--config", str(tmp_path / "elect.toml")]) == 0
    assert "change of nodes: +b -d;" in capsys.readouterr().out


def test_a_change_of_nodes_that_is_not_over_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show(replace(told_by("a", primary="a", a="busy"), joining=("d",), leaving=("b",)))
    assert "+d -b, not finished" in capsys.readouterr().out


def test_no_agent_to_ask(capsys: pytest.CaptureFixture[str]) -> None:
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


def seen(name: str, state: str) -> NodeStatus:
    return NodeStatus(
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


def told_by(node: str, *, primary: str | None, handing: str | None = None, **states: str) -> AgentStatus:
    return AgentStatus(
        cluster="mymaster",
        node=node,
        primary=primary,
        primary_address="s:1" if primary is not None else None,
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
        nodes=tuple(seen(name, state) for name, state in states.items()),
        handing=handing,
    )


def test_a_new_cluster_says_whom_it_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    show(told_by("a", primary=None, a="fresh", b="busy", c="unknown"))
    assert "every agent has met every other; not yet: a, c" in capsys.readouterr().out


def test_a_handover_under_way_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show(told_by("a", primary="a", handing="b"))
    assert "to b; writes wait" in capsys.readouterr().out


def fail_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statuses: list[AgentStatus], *more: str
) -> tuple[int, list[str]]:
    """The agent at c:1 is no primary; the one at a:1 takes the order, and tells these one after the other, the last for
    as long as it is asked."""
    asked: list[str] = []

    def question(agent: str, words: list[str]) -> Reply:
        if words[1] == "LIFE":
            return f"{agent[0]} life".encode()
        if words[1] == "FAILOVER":
            return b"OK" if agent == "a:1" else ServerError("ERR c is not the primary; ask a")
        asked.append(agent)
        return msgspec.json.encode(statuses.pop(0) if len(statuses) > 1 else statuses[0])

    monkeypatch.setattr(elect_query, "question", question)
    monkeypatch.setattr(elect_query, "POLL_S", 0.0)
    words = [
        "elect",
        "failover",
        "b",
        "--config",
        str(written(tmp_path, SOUND)),
        "--agent",
        "c:1",
        "--agent",
        "a:1",
        *more,
    ]
    return status_of(words), asked


def test_a_failover_that_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    statuses = [told_by("a", primary="a", handing="b"), told_by("a", primary=None), told_by("a", primary="b")]
    status, asked = fail_over(tmp_path, monkeypatch, statuses)
    assert (status, set(asked)) == (0, {"a:1"})
    assert capsys.readouterr().out == "b takes writes, epoch 1\n"


def test_a_failover_that_is_given_up_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    statuses = [told_by("a", primary="a", handing="b"), told_by("a", primary="a")]
    status, asked = fail_over(tmp_path, monkeypatch, statuses, "--wait", "86400")
    assert (status, asked) == (1, ["a:1", "a:1"])
    told = capsys.readouterr()
    assert told.out == "a takes writes, epoch 1\n"
    assert told.err == "epoxy: given up: b fell silent or did not catch up\n"


def test_what_others_say_of_the_primary_ends_no_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _ = fail_over(tmp_path, monkeypatch, [told_by("c", primary="a")], "--wait", "0")
    assert status == 1
    assert capsys.readouterr().err == "epoxy: not done in time\n"
