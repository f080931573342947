"""Agents as processes, whose links are tampered with, are inside TLS, and change their secrets."""

import signal
import socket
from pathlib import Path

from benchmarks.failover_cluster import ElectCluster, ask, running, wait_for
from epoxy.agent.redis import ServerError
from tests.agent.conftest import server_binary
from tests.end_to_end.elect_proxy import Network
from tests.end_to_end.test_elect import LONG_MS, handed_over, only_one_takes_writes
from tests.transport.test_tls import Office

__all__ = ["server_binary"]

ENOUGH = 40
"""Pieces of control connections that are touched."""


def test_what_is_changed_repeated_or_inserted_on_the_way_changes_nothing(tmp_path: Path, server_binary: Path) -> None:
    cluster = ElectCluster(tmp_path, server_binary, down_after_ms=LONG_MS)
    cluster.write_files(proxied=True)
    with Network(cluster) as network:
        try:
            cluster.start()
            network.tamper(0.3)
            wait_for(lambda: network.tampered >= ENOUGH, "agents say nothing to each other")
            network.tamper(0.0)
            for member in cluster.members.values():
                status = member.status()
                assert (status.epoch, status.leader_epoch, status.leader, status.implausible) == (1, 1, "a", 0)
            wait_for(lambda: handed_over(cluster, "c").startswith("c takes writes"), "links do not come back")
            assert only_one_takes_writes(cluster) == "c"
        finally:
            cluster.stop()


def test_inside_tls_a_server_is_replaced_and_the_secret_too(tmp_path: Path, server_binary: Path) -> None:
    office = Office(tmp_path / "certificates", "ca")
    cert, key = office.issue("127.0.0.1")
    tls = f'[tls]\ncert = "{cert}"\nkey = "{key}"\nca = "{office.ca}"\n'
    with running(ElectCluster(tmp_path / "cluster", server_binary, down_after_ms=LONG_MS, more=tls)) as cluster:
        with socket.create_connection(("127.0.0.1", cluster.control["a"])) as stranger:
            stranger.sendall(b"*1\r\n$4\r\nPING\r\n")
            assert b"HELLO" not in stranger.recv(1000), "nothing is said outside TLS"
        rotate(cluster)
        cluster.signal_server("a", signal.SIGKILL)
        heir = cluster.primary(but="a")
        last = "bc".replace(heir, "")
        wait_for(lambda: handed_over(cluster, last).startswith(f"{last} takes writes"), "not with the new secret")
        assert only_one_takes_writes(cluster) == last
        refused = ask(cluster.members[last].clients_port, "ELECT", "FAILOVER", heir, "0" * 64)
        assert isinstance(refused, ServerError)
        assert "NOAUTH" in str(refused), "the order of an earlier release"


def rotate(cluster: ElectCluster) -> None:
    """In three steps; the agents notice by themselves or are told to look."""
    path = cluster.folder / "secret"
    old, new = path.read_bytes(), b"another secret, of the same kind"
    for step, lines in enumerate(((old, new), (new, old), (new,)), 1):
        path.write_bytes(b"\n".join(lines))
        for name in cluster.members:
            cluster.signal_agent(name, signal.SIGHUP)
        wait_for(lambda step=step: all(reloads(cluster, name) >= step for name in cluster.members), "not read again")  # type: ignore[misc]
    wait_for(lambda: all_hear_each_other(cluster), "links do not come back")
    assert {member.status().leader_epoch for member in cluster.members.values()} == {1}


def reloads(cluster: ElectCluster, name: str) -> int:
    """How often its secrets were other ones than before."""
    return (cluster.folder / f"{name}.log").read_text().count("is spoken")


def all_hear_each_other(cluster: ElectCluster) -> bool:
    statuses = [member.status() for member in cluster.members.values()]
    return all(node.seen_ms is not None and node.seen_ms < 1_000 for status in statuses for node in status.nodes)
