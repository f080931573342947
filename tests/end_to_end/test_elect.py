"""Failover of real servers by real agents: what was acknowledged is there, and nobody else takes writes."""

import signal
from collections.abc import Iterator
from pathlib import Path
from signal import Signals

import pytest

from benchmarks.failover_cluster import CLUSTER, ElectCluster, running, wait_for
from benchmarks.failover_writer import Writer
from tests.agent.conftest import server_binary

__all__ = ["server_binary"]

ENOUGH = 50
"""Acknowledged writes before and after what happens."""


@pytest.fixture
def cluster(tmp_path: Path, server_binary: Path) -> Iterator[ElectCluster]:
    with running(ElectCluster(tmp_path, server_binary)) as cluster:
        yield cluster


def writer_for(cluster: ElectCluster) -> Writer:
    return Writer([("127.0.0.1", member.clients_port) for member in cluster.members.values()], CLUSTER)


def more(writer: Writer) -> None:
    enough = len(writer.acked) + ENOUGH
    wait_for(lambda: len(writer.acked) >= enough, "writes are not acknowledged")


def only_one_takes_writes(cluster: ElectCluster, name: str) -> None:
    wait_for(lambda: cluster.takes_writes(name), f"{name} takes no writes")
    assert [other for other in cluster.members if other != name and cluster.takes_writes(other)] == []


def nothing_is_lost(cluster: ElectCluster, writer: Writer, primary: str) -> None:
    assert len(writer.acked) >= 2 * ENOUGH
    assert writer.missing(cluster.members[primary].server_port, writer.acked) == []


def comes_back_as_replica(cluster: ElectCluster, name: str, primary: str) -> None:
    wait_for(lambda: cluster.followers(primary) == len(cluster.members) - 1, f"{name} does not follow {primary}")
    only_one_takes_writes(cluster, primary)


def test_a_killed_server_is_replaced_and_comes_back_as_a_replica(cluster: ElectCluster) -> None:
    with writer_for(cluster) as writer:
        more(writer)
        cluster.signal_server("a", signal.SIGKILL)
        primary = cluster.primary(but="a")
        more(writer)
        cluster.start_server("a")
        comes_back_as_replica(cluster, "a", primary)
    nothing_is_lost(cluster, writer, primary)


def test_a_killed_machine_is_replaced_after_its_silence(cluster: ElectCluster) -> None:
    with writer_for(cluster) as writer:
        more(writer)
        cluster.signal_agent("a", signal.SIGKILL)
        cluster.signal_server("a", signal.SIGKILL)
        primary = cluster.primary(but="a")
        more(writer)
        cluster.start_server("a")
        cluster.start_agent("a")
        comes_back_as_replica(cluster, "a", primary)
    nothing_is_lost(cluster, writer, primary)


@pytest.mark.parametrize("number", [Signals.SIGKILL, Signals.SIGSTOP])
def test_an_agent_that_dies_or_sleeps_leaves_no_second_primary(cluster: ElectCluster, number: Signals) -> None:
    """Its guard closes the server that nobody watches any more."""
    with writer_for(cluster) as writer:
        more(writer)
        cluster.signal_agent("a", number)
        primary = cluster.primary(but="a")
        assert not cluster.takes_writes("a")
        more(writer)
        if number is Signals.SIGSTOP:
            cluster.signal_agent("a", Signals.SIGCONT)
        else:
            cluster.start_agent("a")
        comes_back_as_replica(cluster, "a", primary)
    nothing_is_lost(cluster, writer, primary)


def test_a_server_that_sleeps_past_the_timeouts_wakes_as_a_replica(cluster: ElectCluster) -> None:
    with writer_for(cluster) as writer:
        more(writer)
        cluster.signal_server("a", signal.SIGSTOP)
        primary = cluster.primary(but="a")
        more(writer)
        cluster.signal_server("a", signal.SIGCONT)
        comes_back_as_replica(cluster, "a", primary)
    nothing_is_lost(cluster, writer, primary)


def test_all_agents_restarted_at_once_elect_somebody(cluster: ElectCluster) -> None:
    with writer_for(cluster) as writer:
        more(writer)
        for name in cluster.members:
            cluster.signal_agent(name, signal.SIGKILL)
        for name in cluster.members:
            cluster.start_agent(name)
        primary = cluster.primary()
        more(writer)
    nothing_is_lost(cluster, writer, primary)
    only_one_takes_writes(cluster, primary)
