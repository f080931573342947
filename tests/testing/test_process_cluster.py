"""What a cluster for tests is made of. Real clusters are in tests/end_to_end."""

import socket
from pathlib import Path

import pytest

from epoxy import testing
from epoxy.model.errors import InvalidRequest
from epoxy.model.quorum import QuorumPolicy
from epoxy.node.process.config import load


def test_free_ports_are_bound_and_refuse_connections() -> None:
    one, other = testing.free_ports(2)
    assert one != other
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", one), timeout=5)
    with pytest.raises(OSError, match="in use"):
        testing.bound_socket(one)


def test_the_files_of_a_cluster_are_good_and_agree(tmp_path: Path) -> None:
    nodes = testing.lay_out(tmp_path, 3, QuorumPolicy.FAST_PAXOS)
    settings = [load(node.config) for node in nodes]
    assert [each.node.id for each in settings] == [1, 2, 3]
    assert {each.cluster.members for each in settings} == {settings[0].cluster.members}
    assert settings[0].cluster.quorum_policy is QuorumPolicy.FAST_PAXOS
    joining = testing.newcomer(tmp_path, nodes, QuorumPolicy.OPTIMAL, 4)
    assert load(joining.config).cluster.join


def test_a_path_with_quotes_survives_toml(tmp_path: Path) -> None:
    folder = tmp_path / 'a "b" \\c'
    folder.mkdir()
    (node,) = testing.lay_out(folder, 1, QuorumPolicy.OPTIMAL)
    assert load(node.config).node.data_dir == node.data_dir


def test_settings_of_the_shell_do_not_reach_a_node() -> None:
    environment = {"EPOXY_NODE_HTTP": "x", "EPOXY_PURE": "1", "PATH": "/bin"}
    assert testing.clean_environment(environment) == {"EPOXY_PURE": "1", "PATH": "/bin"}


def test_a_node_that_does_not_run_has_no_pid_and_takes_no_signals(tmp_path: Path) -> None:
    (node,) = testing.lay_out(tmp_path, 1, QuorumPolicy.OPTIMAL)
    assert (node.running, node.pid, node.last_words()) == (False, None, "(its log is empty)")
    node.stop()
    with pytest.raises(InvalidRequest, match="node 1 is not running"):
        node.pause()


def test_a_cluster_has_a_node_and_not_too_many() -> None:
    with pytest.raises(InvalidRequest, match="a cluster has 1 to 64 nodes, not 0"), testing.cluster(0):
        pass
