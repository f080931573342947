"""Nodes of a datacenter that are restarted one after the other, under load: no request fails, and none is without an
outcome. Real processes; clients know all nodes of their datacenter."""

import select
import socket
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Self

import pytest

from epoxy import Client, EpoxyError
from epoxy.model.transactions import Add
from epoxy.testing.datacenter_cluster import Datacenter, datacenters
from tests.end_to_end.recorder import PATIENCE_S

HTTP_CLIENTS, REDIS_CLIENTS = 4, 4
KEYS = 500
MORE = 60
"""Answers that each kind of client has before and after each step."""


class RestartLoad:
    """Clients of both protocols, one request after another. `counted`: how many were answered; `failed`: the words of
    all others."""

    def __init__(self, home: Datacenter) -> None:
        self._urls = [node.url for node in home.nodes]
        self._ports = [node.resp_port for node in home.nodes]
        self._over = threading.Event()
        self._changed = threading.Condition()
        self.counted = {"http": 0, "redis": 0}
        self.failed: list[str] = []
        self.slowest_s = 0.0
        work: list[tuple[Callable[[int], None], int]] = [(self._http, each) for each in range(HTTP_CLIENTS)]
        work += [(self._redis, each) for each in range(REDIS_CLIENTS)]
        self._threads = [threading.Thread(target=run, args=(number,)) for run, number in work]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def more(self) -> None:
        goals = {kind: answered + MORE for kind, answered in self.counted.items()}
        with self._changed:
            assert self._changed.wait_for(
                lambda: self.failed or all(self.counted[kind] >= goal for kind, goal in goals.items()), PATIENCE_S
            )

    def _note(self, kind: str, began_s: float, failure: str = "") -> None:
        with self._changed:
            if failure:
                self.failed.append(f"{kind}: {failure}")
            else:
                self.counted[kind] += 1
            self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
            self._changed.notify_all()

    def _http(self, number: int) -> None:
        """Writes, reads and transactions of keys of all shards."""
        with Client([*self._urls[number % 2 :], *self._urls[: number % 2]], timeout=PATIENCE_S) as client:
            for step in count():
                if self._over.is_set():
                    return
                key, began_s = b"key/%d" % (step * 7 % KEYS), time.monotonic()
                try:
                    match step % 4:
                        case 0:
                            client.put(key, b"%d" % step)
                        case 1:
                            client.read(key, read="linearizable")
                        case 2:
                            client.txn(then=[Add(key=b"sum/%d" % (step % 5), amount=1), Add(key=b"all", amount=1)])
                        case _:
                            assert client.reserve(b"name/%d/%d" % (number, step), b"mine").won
                except EpoxyError as error:
                    self._note("http", began_s, f"{type(error).__name__}, {error}")
                else:
                    self._note("http", began_s)

    def _redis(self, number: int) -> None:
        """As a client library does it: a connection that has ended is made anew, at the next node, before a command is
        sent; a command without a reply has no outcome."""
        at, connection = number, None
        for step in count():
            if self._over.is_set():
                break
            key, began_s = b"redis/%d" % (step * 11 % KEYS), time.monotonic()
            while connection is None or has_ended(connection):
                if connection is not None:
                    connection.close()
                    at += 1
                try:
                    connection = socket.create_connection(("127.0.0.1", self._ports[at % len(self._ports)]), PATIENCE_S)
                except ConnectionRefusedError:
                    at += 1
            command = b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$1\r\nv\r\n" % (len(key), key)
            try:
                connection.sendall(command)
                reply = connection.recv(1000)
            except OSError as error:
                reply = repr(error).encode()
            self._note("redis", began_s, "" if reply == b"+OK\r\n" else f"{reply!r}")
        if connection is not None:
            connection.close()


def has_ended(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


@pytest.mark.parametrize(("n", "nodes"), [(1, 2), (1, 3), (3, 2)])
def test_no_request_fails_while_all_nodes_are_restarted(n: int, nodes: int, tmp_path: Path) -> None:
    with datacenters(n, nodes=nodes, folder=tmp_path) as cluster:
        home = cluster.datacenters[0]
        gateways = []
        with RestartLoad(home) as load:
            load.more()
            for node in (home.gateway, *home.shard_nodes):
                gateways.append(home.gateway)
                node.stop()
                load.more()
                node.start(wait=False)
                home.wait_until_ready()
                home.wait_until_spread()
                load.more()
                assert not load.failed, f"{node.name}: {load.failed[:10]}, {len(load.failed)} in all"
        assert len(set(gateways)) > 1, "the gateway was among them"
        with cluster.client() as client:
            assert int(client.get(b"all", read="linearizable") or b"") == sum(
                int(client.get(b"sum/%d" % each, read="linearizable") or b"") for each in range(5)
            )
        assert not cluster.complaints(), "\n".join(cluster.complaints())
