"""Several nodes of one datacenter on a PostgreSQL of their own, with real processes: each kind of fault under load.

The nodes are shared: each test leaves all of them running, with their shards spread. Histories are judged as those of
every cluster; the logs of all nodes are read in the end, and an error in one of them fails."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from epoxy import Client, EpoxyError
from epoxy.model.shards import KEY_SHARDS
from epoxy.model.transactions import Add, Put
from epoxy.testing.datacenter_cluster import Datacenter, DatacenterCluster, DatacenterProcess, datacenters
from epoxy_sim.history import Failed, Operation, Read, Unknown, Won
from tests.end_to_end.datacenter_load import DatacenterLoad
from tests.end_to_end.recorder import PATIENCE_S, Recorder, judge
from tests.end_to_end.world import until

STEPS = 20
"""Answers at each node before and after a fault."""

TAKE_OVER_S = 1.0
"""Beyond the lease, to notice that it is over, to fence and to load: a third of that on an idle machine."""

BUSY = 6.0
"""A machine that has other work takes so many times as long. A take-over that fails takes for ever."""

POLL_S = 0.02


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatacenterCluster]:
    with datacenters(1, nodes=2, standby=True, folder=tmp_path_factory.mktemp("datacenter")) as made:
        yield made
        assert not made.complaints(), "\n".join(made.complaints())


@pytest.fixture
def home(cluster: DatacenterCluster) -> Iterator[Datacenter]:
    (datacenter,) = cluster.datacenters
    yield datacenter
    for node in datacenter.nodes:
        if not node.running:
            node.start(wait=False)
    datacenter.wait_until_ready()
    datacenter.wait_until_spread()


class Trial:
    """Clients at all nodes, each of which knows all of them."""

    def __init__(self, home: Datacenter, name: str) -> None:
        self._home = home
        self._nodes = tuple(home.nodes)
        self.recorder = Recorder()
        self.load = DatacenterLoad(
            self.recorder, self._nodes, others=[node.url for node in self._nodes], prefix=f"{name}/"
        )

    def under_load(self, fault: Callable[[], None]) -> list[Operation]:
        """Returns what clients asked for from the fault on."""
        with self.load as load:
            load.more(STEPS, self._nodes)
            before = len(self.recorder.history)
            fault()
            load.more(STEPS, self._nodes)
        return self.recorder.history[before:]

    def judge(self, folder: Path) -> None:
        """With a linearizable read of every key through every running node: what was acknowledged and lost shows."""
        self._home.wait_until_ready()
        keys = self.recorder.keys()
        with ThreadPoolExecutor(8) as pool:
            for node in self._home.nodes:
                if not node.running:
                    continue
                with Client(node.url, timeout=PATIENCE_S) as client:
                    told = list(pool.map(lambda key: self.recorder.run("last", client, key, Read()), keys))
                    assert not [each for each in told if isinstance(each, Failed | Unknown)]
        assert judge(self.recorder.history, folder) > STEPS
        assert sum(isinstance(each.outcome, Won) for each in self.recorder.history) > STEPS


def key_of(home: Datacenter, node: DatacenterProcess, prefix: str) -> bytes:
    return next(key for i in range(1000) if home.owner_of(key := b"%s/%d" % (prefix.encode(), i)) is node)


def written_without(home: Datacenter, victim: DatacenterProcess, key: bytes, value: bytes) -> float:
    """Seconds until the other nodes have written the key."""
    began_s = time.monotonic()
    with Client([node.url for node in home.nodes if node is not victim], timeout=PATIENCE_S) as client:
        while True:
            try:
                client.put(key, value)
            except EpoxyError:
                assert time.monotonic() - began_s < PATIENCE_S
                time.sleep(POLL_S)
            else:
                return time.monotonic() - began_s


# Without faults.


def test_every_node_sees_what_another_wrote(home: Datacenter) -> None:
    first, second = (Client(node.url, timeout=PATIENCE_S) for node in home.nodes)
    with first, second:
        for i in range(40):
            one, other = (first, second) if i % 2 else (second, first)
            written = one.put(f"seen/{i}", b"%d" % i)
            assert other.read(f"seen/{i}", read="linearizable").version == written.version
            assert one.reserve(f"name/{i}", b"one").won
            assert other.reserve(f"name/{i}", b"other").value == b"one"
            assert other.get(f"name/{i}") == b"one"
    assert set(home.spread().values()) == {KEY_SHARDS // 2}


def test_transactions_through_a_node_that_is_not_the_gateway(home: Datacenter) -> None:
    (shard_node,) = home.shard_nodes
    keys = [key_of(home, node, "txn") for node in home.nodes]
    with shard_node.client() as there, home.gateway.client() as gateway:
        there.txn(then=[Put(key=key, value=b"1") for key in keys])
        for number, client in enumerate((gateway, there) * 3, start=2):
            made = client.txn(then=[Add(key=key, amount=1) for key in keys])
            assert made.succeeded
            other = there if client is gateway else gateway
            assert [other.get(key, read="linearizable") for key in keys] == [b"%d" % number] * 2
            assert other.txn(reads=keys).reads == (b"%d" % number,) * 2
        for key in keys:
            there.put(key, b"by a write")
            assert gateway.get(key, read="linearizable") == b"by a write"
            gateway.put(key, b"by another")
            assert there.get(key, read="linearizable") == b"by another"


def test_the_redis_protocol_through_both_nodes(home: Datacenter) -> None:
    here, there = (redis.Redis(port=node.resp_port, decode_responses=True) for node in home.nodes)
    with here, there:
        for i in range(8):
            lock = here.lock(f"lock/{i}", timeout=30)
            assert lock.acquire(blocking=False)
            assert not there.lock(f"lock/{i}", timeout=30).acquire(blocking=False)
            lock.release()
            assert there.set(f"lock/{i}", "there", nx=True, px=60_000)
        counted = [client.incr(f"count/{i}") for i in range(4) for client in (here, there) * 3]
        assert counted == [1, 2, 3, 4, 5, 6] * 4
        for i in range(8):
            (here if i % 2 else there).set(f"brief/{i}", "v", px=300)
        assert there.expire("count/0", 60) == 1
        assert 0 < here.ttl("count/0") <= 60
        until(lambda: not any(here.exists(f"brief/{i}") for i in range(8)), "all of them over")
        for client in (here, there) * 2:
            pipeline = client.pipeline(transaction=True)
            for i in range(4):
                pipeline.incrby(f"multi/{i}", 1)
            assert len(set(pipeline.execute())) == 1
        assert [there.get(f"multi/{i}") for i in range(4)] == ["4"] * 4


def test_keys_of_a_session_end_with_it_at_every_node(home: Datacenter) -> None:
    one, other = (node.client() for node in home.nodes)
    with one, other:
        with one.session(ttl=2.0) as session:
            for i in range(8):
                (one if i % 2 else other).put(f"held/{i}", b"v", session=session.id)
            time.sleep(3.0)  # longer than its lease: it is renewed
            assert all(other.get(f"held/{i}", read="linearizable") == b"v" for i in range(8))
        for client in (one, other):
            until(lambda: not any(client.get(f"held/{i}", read="linearizable") for i in range(8)), "ended")  # noqa: B023


# Nodes that fail, and leave, and come.


@pytest.mark.parametrize("kind", ["shard node", "gateway"])
def test_a_killed_nodes_keys_are_written_again_and_nothing_is_lost(kind: str, home: Datacenter, tmp_path: Path) -> None:
    victim = home.gateway if kind == "gateway" else home.shard_nodes[0]
    key, trial, waited_s = key_of(home, victim, f"kill {kind}"), Trial(home, f"kill {kind}"), 0.0

    def kill() -> None:
        nonlocal waited_s
        victim.kill()
        waited_s = written_without(home, victim, key, b"again")
        victim.start(wait=False)

    trial.under_load(kill)
    trial.judge(tmp_path)
    assert waited_s < home.lease_ms / 1000 + BUSY * TAKE_OVER_S


@pytest.mark.parametrize("kind", ["shard node", "gateway"])
def test_a_node_that_wakes_up_after_its_lease_says_nothing_of_its_old_memory(kind: str, home: Datacenter) -> None:
    """The requests are in its sockets when it wakes up, and the database says within a millisecond that it is late.
    What happens in that millisecond is for the rules of the store: their tests have a planted fault for it."""
    victim = home.gateway if kind == "gateway" else home.shard_nodes[0]
    key, owned = key_of(home, victim, f"pause {kind}"), b"owned by transactions/%s" % kind.encode()
    with victim.client() as client:
        client.put(key, b"old")
        client.txn(then=[Put(key=owned, value=b"old")])
        assert client.get(key, read="linearizable") == client.get(owned, read="linearizable") == b"old"
    names = (key, owned) * 10
    asked = [connection_to(victim) for _ in names]
    for connection, name in zip(asked, names, strict=True):
        ask(connection, name)
        assert b"old" in answer_of(connection)
    victim.pause()
    try:
        waited_s = written_without(home, victim, key, b"new")
        written_without(home, victim, owned, b"new")
        for connection, name in zip(asked, names, strict=True):
            ask(connection, name)
    finally:
        victim.resume()
    told = [answer_of(each) for each in asked]
    for connection in asked:
        connection.close()
    assert not [answer for answer in told if b"old" in answer], told
    assert waited_s < home.lease_ms / 1000 + BUSY * TAKE_OVER_S
    victim.wait_until(lambda status: status.ready, "ready again, by itself")
    with victim.client() as client:
        assert client.get(key, read="linearizable") == client.get(owned, read="linearizable") == b"new"


def connection_to(node: DatacenterProcess) -> socket.socket:
    address = urlsplit(node.url)
    return socket.create_connection((address.hostname, address.port or 0), timeout=PATIENCE_S)


def ask(connection: socket.socket, key: bytes) -> None:
    """A linearizable read, left in the socket of a node that may not run."""
    path = key.replace(b" ", b"%20")
    connection.sendall(b"GET /v2/kv/%s?read=linearizable HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" % path)


def answer_of(asked: socket.socket) -> bytes:
    """What came; empty: the connection ended without an answer."""
    try:
        return asked.recv(1 << 16)
    except OSError:
        return b""


@pytest.mark.parametrize("kind", ["shard node", "gateway"])
def test_no_request_fails_when_a_node_is_told_to_stop(kind: str, home: Datacenter, tmp_path: Path) -> None:
    victim = home.gateway if kind == "gateway" else home.shard_nodes[0]
    trial = Trial(home, f"stop {kind}")
    asked = trial.under_load(victim.stop)
    assert not trial.recorder.errors
    assert len(asked) >= 2 * STEPS
    trial.judge(tmp_path)


def test_a_node_that_joins_gets_its_part(cluster: DatacenterCluster, home: Datacenter, tmp_path: Path) -> None:
    trial = Trial(home, "join")

    def join() -> None:
        cluster.add_node(home)
        home.wait_until_spread()

    trial.under_load(join)
    assert not trial.recorder.errors
    trial.judge(tmp_path)
    assert sorted(home.spread().values()) == [85, 85, 86]
    leaver = home.nodes.pop()
    leaver.stop()
    cluster.gone.append(leaver)


# The database fails.


def test_after_a_power_cut_of_the_database_all_goes_on(home: Datacenter, tmp_path: Path) -> None:
    trial, pids = Trial(home, "database"), [node.pid for node in home.nodes]
    trial.under_load(lambda: home.database.restart("immediate"))
    trial.judge(tmp_path)
    assert [node.pid for node in home.nodes] == pids


def test_a_node_ends_at_its_second_signal_while_the_database_is_away(home: Datacenter) -> None:
    """It cannot hand its shards over: another node takes them when the lease is over."""
    victim = home.shard_nodes[0]
    home.database.stop("immediate")

    def has_ended() -> bool:
        if victim.running and victim.pid is not None:
            os.kill(victim.pid, signal.SIGTERM)
        return not victim.running

    until(has_ended, "ended")
    home.database.start()


def test_a_standby_that_is_promoted_has_everything(home: Datacenter, tmp_path: Path) -> None:
    trial = Trial(home, "standby")
    trial.under_load(home.fail_over)
    trial.judge(tmp_path)
