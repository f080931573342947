"""All regions want the same name at the same moment."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import redis

from epoxy.cli.demo.cluster import DemoCluster
from epoxy.cli.demo.region import RegionNode
from epoxy_sim.history import Lost, Outcome, Read, Reserve, Won
from tests.end_to_end.recorder import PATIENCE_S, Recorder, judge
from tests.end_to_end.world import others, regions

ROUNDS = 30


def race(recorder: Recorder, cluster: DemoCluster, key: bytes, *, but: str = "") -> list[Outcome]:
    nodes = others(cluster, but)
    start = threading.Barrier(len(nodes))

    def run(node: RegionNode) -> Outcome:
        with node.client() as client:
            client.status()  # the connection is open before the start
            start.wait(PATIENCE_S)
            return recorder.run(node.datacenter, client, key, Reserve(value=node.datacenter.encode()))

    with ThreadPoolExecutor(len(nodes)) as pool:
        return list(pool.map(run, nodes))


def test_one_winner_of_five(tmp_path: Path) -> None:
    recorder = Recorder()
    with regions(tmp_path, 5) as cluster:
        for i in range(ROUNDS):
            key = b"race/%d" % i
            told = race(recorder, cluster, key)
            won = [node for node, outcome in zip(cluster.nodes, told, strict=True) if isinstance(outcome, Won)]
            assert len(won) == 1, told
            lost = Lost(value=won[0].datacenter.encode(), version=1, mutable=False)
            assert [outcome for outcome in told if not isinstance(outcome, Won)] == [lost] * 4
            for node in cluster.nodes:
                with node.client() as client:
                    recorder.run(node.datacenter, client, key, Read())
    assert judge(recorder.history, tmp_path) == ROUNDS


def test_one_winner_among_redis_clients(trio: DemoCluster) -> None:
    clients = [redis.Redis(port=node.resp_port) for node in trio.nodes]
    for i in range(ROUNDS):
        key, start = f"redis-race/{i}", threading.Barrier(len(clients))

        def run(me: int, key: str = key, start: threading.Barrier = start) -> bool:
            clients[me].ping()
            start.wait(PATIENCE_S)
            return bool(clients[me].set(key, str(me), nx=True))

        with ThreadPoolExecutor(len(clients)) as pool:
            told = list(pool.map(run, range(len(clients))))
        assert told.count(True) == 1
        winner = str(told.index(True)).encode()
        assert [client.get(key) for client in clients] == [winner] * len(clients)
    for client in clients:
        client.close()
