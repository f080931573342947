"""Failover of real servers by real agents: what was acknowledged is there, and one server alone takes writes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import Signals

import pytest
import redis

from benchmarks.failover_cluster import CLUSTER, PATIENCE_S, ElectCluster, ask, running, wait_for
from benchmarks.failover_writer import Writer
from epoxy.agent.redis import EPOCH_KEY
from tests.agent.conftest import server_binary, valkey_binary
from tests.end_to_end.elect_proxy import Network

__all__ = ["server_binary", "valkey_binary"]

DOWN_AFTER_MS = 3_000
"""A quarter of it is left to close a server between the end of its lease and the first vote for another: 750 ms,
in which even a busy machine lets everybody run once."""

LONG_MS = 20_000
"""Where nothing waits for a silence: long enough for no machine to be taken for dead that is only busy."""

ENOUGH = 50
"""Acknowledged writes before and after what happens."""


@pytest.fixture
def cluster(tmp_path: Path, server_binary: Path) -> Iterator[ElectCluster]:
    with running(ElectCluster(tmp_path, server_binary, down_after_ms=DOWN_AFTER_MS)) as cluster:
        yield cluster


@pytest.fixture
def steady(tmp_path: Path, server_binary: Path) -> Iterator[ElectCluster]:
    with running(ElectCluster(tmp_path, server_binary, down_after_ms=LONG_MS)) as cluster:
        yield cluster


@contextmanager
def running_apart(cluster: ElectCluster) -> Iterator[Network]:
    """With a network between its nodes that can be cut."""
    cluster.write_files(proxied=True)
    with Network(cluster) as network:
        try:
            cluster.start()
            yield network
        finally:
            cluster.stop()


def writer_for(cluster: ElectCluster, replicas: int = 1) -> Writer:
    agents = [("127.0.0.1", member.clients_port) for member in cluster.members.values()]
    return Writer(agents, CLUSTER, replicas=replicas)


def more(writer: Writer) -> None:
    enough = len(writer.acked) + ENOUGH
    wait_for(lambda: len(writer.acked) >= enough, "writes are not acknowledged")


def only_one_takes_writes(cluster: ElectCluster, *, but: str = "") -> str:
    """The current one: on a machine that has no time for it, a primary may be replaced once more."""

    def look() -> str:
        name = cluster.primary_now(but=but)
        return name if name and cluster.takes_writes(name) else ""

    primary = wait_for(look, "no server takes writes")
    assert [other for other in cluster.members if other != primary and cluster.takes_writes(other)] == []
    return primary


def nothing_is_lost(cluster: ElectCluster, writer: Writer, primary: str) -> None:
    assert len(writer.acked) >= 2 * ENOUGH
    assert writer.missing(cluster.members[primary].server_port, writer.acked) == []


def all_follow(cluster: ElectCluster) -> str:
    """The lost server is back, as a replica. Returns the primary."""

    def look() -> bool:
        name = cluster.primary_now()
        return bool(name) and cluster.followers(name) == len(cluster.members) - 1

    wait_for(look, "not everybody follows")
    return only_one_takes_writes(cluster)


def test_a_killed_server_is_replaced_and_comes_back_as_a_replica(steady: ElectCluster) -> None:
    with writer_for(steady) as writer:
        more(writer)
        steady.signal_server("a", signal.SIGKILL)
        steady.primary(but="a")
        more(writer)
        steady.start_server("a")
        primary = all_follow(steady)
    nothing_is_lost(steady, writer, primary)


def test_a_killed_machine_is_replaced_after_its_silence(cluster: ElectCluster) -> None:
    with writer_for(cluster) as writer:
        more(writer)
        cluster.signal_agent("a", signal.SIGKILL)
        cluster.signal_server("a", signal.SIGKILL)
        cluster.primary(but="a")
        more(writer)
        cluster.start_server("a")
        cluster.start_agent("a")
        primary = all_follow(cluster)
    nothing_is_lost(cluster, writer, primary)


@pytest.mark.parametrize("number", [Signals.SIGKILL, Signals.SIGSTOP])
def test_an_agent_that_dies_or_sleeps_leaves_no_second_primary(cluster: ElectCluster, number: Signals) -> None:
    """Its guard closes the server whose agent is gone."""
    with writer_for(cluster) as writer:
        more(writer)
        cluster.signal_agent("a", number)
        cluster.primary(but="a")
        assert not cluster.takes_writes("a")
        more(writer)
        if number is Signals.SIGSTOP:
            cluster.signal_agent("a", Signals.SIGCONT)
        else:
            cluster.start_agent("a")
        primary = all_follow(cluster)
    nothing_is_lost(cluster, writer, primary)


def test_a_server_that_sleeps_past_the_timeouts_wakes_as_a_replica(cluster: ElectCluster) -> None:
    with writer_for(cluster) as writer:
        more(writer)
        cluster.signal_server("a", signal.SIGSTOP)
        cluster.primary(but="a")
        more(writer)
        cluster.signal_server("a", signal.SIGCONT)
        primary = all_follow(cluster)
    nothing_is_lost(cluster, writer, primary)


def test_a_primary_that_is_cut_off_closes_and_comes_back_as_a_replica(tmp_path: Path, server_binary: Path) -> None:
    """Its own clients, on its side of the cut, are refused before anybody else takes writes."""
    cluster = ElectCluster(tmp_path, server_binary, down_after_ms=DOWN_AFTER_MS)
    with running_apart(cluster) as network:
        with writer_for(cluster) as writer:
            more(writer)
            network.isolate("a")
            wait_for(lambda: cluster.primary_now(but="a"), "no server takes over")
            assert not cluster.takes_writes("a")
            more(writer)
            network.heal()
            cluster.primary(but="a")
            primary = all_follow(cluster)
        nothing_is_lost(cluster, writer, primary)


def test_of_two_candidates_that_do_not_hear_each_other_one_wins(tmp_path: Path, server_binary: Path) -> None:
    """Both see the primary gone and a majority ready, in the same moment, and neither knows of a better one."""
    cluster = ElectCluster(tmp_path, server_binary, n=5, down_after_ms=DOWN_AFTER_MS, min_replicas=2)
    with running_apart(cluster) as network:
        with writer_for(cluster, replicas=2) as writer:
            more(writer)
            network.part("b", "c")
            cluster.signal_agent("a", signal.SIGKILL)
            cluster.signal_server("a", signal.SIGKILL)
            only_one_takes_writes(cluster, but="a")
            more(writer)
            network.heal()
            cluster.start_server("a")
            cluster.start_agent("a")
            primary = all_follow(cluster)
        nothing_is_lost(cluster, writer, primary)


def test_valkey_servers_fail_over_too(tmp_path: Path, valkey_binary: Path) -> None:
    with running(ElectCluster(tmp_path, valkey_binary, down_after_ms=DOWN_AFTER_MS)) as cluster:
        with writer_for(cluster) as writer:
            more(writer)
            cluster.signal_server("a", signal.SIGKILL)
            cluster.primary(but="a")
            more(writer)
            cluster.start_server("a")
            primary = all_follow(cluster)
        nothing_is_lost(cluster, writer, primary)


def handed_over(cluster: ElectCluster, heir: str) -> str:
    """What the command says. An heir that has no time to answer is given up, and then an operator asks again."""
    members = [f"--agent=127.0.0.1:{member.clients_port}" for member in cluster.members.values()]
    command = ["elect", "failover", heir, "--config", str(cluster.folder / "b.toml"), "--wait", "20", *members]
    return subprocess.run([sys.executable, "-m", "epoxy", *command], capture_output=True, text=True, check=False).stdout


def test_a_planned_failover_loses_nothing_not_even_without_waiting(steady: ElectCluster) -> None:
    """Every write that was answered is there, whether a replica was asked or not."""
    with writer_for(steady) as writer:
        more(writer)
        wait_for(lambda: steady.followers("a") == 2, "not everybody follows")
        wait_for(lambda: handed_over(steady, "c").startswith("c takes writes, epoch "), "c is not given it")
        more(writer)
    assert steady.primary() == "c"
    nothing_is_lost(steady, writer, "c")
    assert writer.missing(steady.members["c"].server_port, writer.answered) == []


def test_the_commands_tell_what_is_going_on(steady: ElectCluster) -> None:
    member = steady.members["b"]

    def said(*words: str) -> str:
        """An agent that has no time to answer is asked again."""
        command = [sys.executable, "-m", "epoxy", "elect", *words, "--agent", f"127.0.0.1:{member.clients_port}"]
        return wait_for(lambda: subprocess.run(command, capture_output=True, text=True, check=False).stdout, "no word")

    wait_for(lambda: member.status().primary == "a", "b does not know a")
    assert said("primary") == f"127.0.0.1:{steady.members['a'].server_port}\n"
    assert json.loads(said("primary", "--json"))["primary"] == "a"
    assert said("status").startswith("mymaster: a at 127.0.0.1:")
    assert [node["id"] for node in json.loads(said("status", "--json"))["nodes"]] == ["a", "b", "c"]
    primary = steady.members[steady.primary()]
    wait_for(lambda: 0 < primary.status().lease_ms <= LONG_MS, "the primary shows a lease that it cannot have")


def test_an_agent_that_is_told_to_end_makes_way_at_once(tmp_path: Path, server_binary: Path) -> None:
    """With a silence of ten minutes no server would take over in time if it did not announce it."""
    with running(ElectCluster(tmp_path, server_binary, down_after_ms=600_000)) as cluster:
        cluster.signal_agent("a", signal.SIGTERM)
        assert only_one_takes_writes(cluster, but="a") != "a"


def test_the_mark_of_the_epoch_survives_those_who_delete_everything(steady: ElectCluster) -> None:
    primary = steady.primary()
    port = steady.members[primary].server_port
    wait_for(lambda: ask(port, "FLUSHALL") == b"OK", "the primary takes no writes")
    epoch = str(steady.members[primary].status().leader_epoch).encode()
    wait_for(lambda: ask(port, "GET", EPOCH_KEY) == epoch, "the mark does not come back")
    assert steady.primary() == primary


def test_an_agent_has_one_guard_and_replaces_it(steady: ElectCluster) -> None:
    agent = steady.members["a"].agent
    assert agent is not None

    def guards() -> list[int]:
        return [int(pid) for pid in Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()]

    (first,) = guards()
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: guards() and guards() != [first], "no other guard")
    assert len(guards()) == 1
    wait_for(lambda: steady.takes_writes(steady.primary()), "no server takes writes")


def test_subscribers_are_told_of_a_switch(steady: ElectCluster) -> None:
    wait_for(lambda: steady.members["c"].status().primary == "a", "c does not know a")
    with redis.Redis(port=steady.members["c"].clients_port, decode_responses=True) as client:
        channel = client.pubsub()
        channel.subscribe("+switch-master")
        assert (channel.get_message(timeout=PATIENCE_S) or {})["type"] == "subscribe"
        steady.signal_server("a", signal.SIGKILL)
        told = channel.get_message(timeout=PATIENCE_S) or {}
        channel.close()
    before, *others = (member.server_port for member in steady.members.values())
    assert told["data"] in [f"{CLUSTER} 127.0.0.1 {before} 127.0.0.1 {after}" for after in others]


def test_a_server_that_sleeps_is_killed_if_the_operator_says_so(tmp_path: Path, server_binary: Path) -> None:
    """It has no chance to wake and serve what has piled up."""
    with running(ElectCluster(tmp_path, server_binary, down_after_ms=DOWN_AFTER_MS, kill_hung=True)) as cluster:
        cluster.signal_server("a", signal.SIGSTOP)
        server = cluster.members["a"].server
        assert server is not None
        assert server.wait(PATIENCE_S) == -signal.SIGKILL
        assert only_one_takes_writes(cluster, but="a") != "a"


def test_all_agents_restarted_at_once_elect_somebody(cluster: ElectCluster) -> None:
    with writer_for(cluster) as writer:
        more(writer)
        for name in cluster.members:
            cluster.signal_agent(name, signal.SIGKILL)
        for name in cluster.members:
            cluster.start_agent(name)
        cluster.primary()
        more(writer)
    nothing_is_lost(cluster, writer, only_one_takes_writes(cluster))


def test_agents_restarted_in_the_middle_of_an_election_elect_somebody(cluster: ElectCluster) -> None:
    """The primary is gone, the silence is over, and every agent that stands or votes is killed."""
    with writer_for(cluster) as writer:
        more(writer)
        cluster.signal_agent("a", signal.SIGKILL)
        cluster.signal_server("a", signal.SIGKILL)
        wait_for(lambda: cluster.members["b"].status().primary != "a", "b does not notice")
        for name in "bc":
            cluster.signal_agent(name, signal.SIGKILL)
            cluster.start_agent(name)
        cluster.primary(but="a")
        more(writer)
        cluster.start_server("a")
        cluster.start_agent("a")
        primary = all_follow(cluster)
    nothing_is_lost(cluster, writer, primary)


def test_five_nodes_lose_two_one_after_the_other(tmp_path: Path, server_binary: Path) -> None:
    with running(ElectCluster(tmp_path, server_binary, n=5, down_after_ms=DOWN_AFTER_MS, min_replicas=2)) as cluster:
        with writer_for(cluster, replicas=2) as writer:
            more(writer)
            cluster.signal_server("a", signal.SIGKILL)
            second = cluster.primary(but="a")
            more(writer)
            cluster.signal_agent(second, signal.SIGKILL)
            cluster.signal_server(second, signal.SIGKILL)
            cluster.primary(but=second)
            more(writer)
        nothing_is_lost(cluster, writer, only_one_takes_writes(cluster, but=second))
