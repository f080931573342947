"""A region of the demo with several nodes, which share a PostgreSQL that the demo starts for them."""

import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from epoxy.cli.demo.region import RegionNode
from epoxy.client import Client, Status
from epoxy.model.api import NodeProbe, SessionReport
from epoxy.model.errors import EpoxyError, InvalidRequest, Unavailable
from epoxy.model.shards import ALL_SHARDS
from epoxy.node.process.parent_death import before_exec
from epoxy.testing import POLL_S, START_S
from epoxy.testing.postgres_server import PostgresServer

MAX_NODES = 4
"""In a region: two ports for each, within the ten of a region, and one for its PostgreSQL."""

SHARDS = len(ALL_SHARDS)

LOOK_S = 1.0
"""For a node to say what it knows of the others: milliseconds. One that is too busy is passed over."""


class RegionDatabase(PostgresServer):
    """Ends with its demo, as after a power cut if that is killed. It is started from the demo's main thread: on Linux a
    process is told of the end of the thread that started it."""

    def _before_exec(self) -> Callable[[], None] | None:
        return before_exec(os.getpid(), signal.SIGQUIT)


class PostgresRegion(RegionNode):
    """Its nodes are one member. Orders to the region are for all its nodes; `nodes` has each of them."""

    def __init__(self, nodes: list[RegionNode], folder: Path, database: RegionDatabase) -> None:
        first = nodes[0]
        http = int(first.url.rpartition(":")[2])
        super().__init__(node_id=first.id, datacenter=first.datacenter, folder=folder, http=http, resp=first.resp_port)
        self._nodes = nodes
        self.addresses = first.addresses
        self.database = database

    @property
    def nodes(self) -> list[RegionNode]:
        return self._nodes

    @property
    def is_one_of_several(self) -> bool:
        return False

    @property
    def with_it(self) -> str:
        return ", and its PostgreSQL with it"

    def ports(self) -> list[tuple[str, int]]:
        return [*(port for node in self._nodes for port in node.ports()), ("PostgreSQL", self.database.port)]

    def described(self) -> dict[str, Any]:
        seen = {row.url: row for row in self.ask_sessions()}
        database = {
            "pid": self.database.pid,
            "address": self.database.address,
            "log": str(self.database.log.absolute()),
        }
        return {"nodes": [node.node_described(seen.get(node.url)) for node in self._nodes], "database": database}

    def give_token(self, token: str) -> None:
        self.token = token
        for node in self._nodes:
            node.token = token

    # Processes

    @property
    def running(self) -> bool:
        return any(node.running for node in self._nodes)

    @property
    def up(self) -> bool:
        return any(node.up for node in self._nodes)

    @property
    def is_whole(self) -> bool:
        return self.database.running and all(node.running for node in self._nodes)

    @property
    def pid(self) -> int | None:
        """Of the first of its nodes that runs."""
        return next((node.pid for node in self._nodes if node.running), None)

    @property
    def exit_code(self) -> int | None:
        return self._nodes[0].exit_code

    def open_database(self) -> bool:
        if not self.database.running:
            self.database.start()
        return True

    def start(self, *, wait: bool = True) -> None:
        """Those of its nodes that are down."""
        self.paused = False
        self.open_database()
        down = [node for node in self._nodes if not node.running]
        for node in down:
            node.start(wait=False)
        if wait:
            self.wait_until(lambda status: status.ready, "ready")

    def stop(self) -> None:
        """The nodes all at once; then their database, which they need to the end."""
        with ThreadPoolExecutor(len(self._nodes)) as pool:
            list(pool.map(RegionNode.stop, self._nodes))
        self.database.close()

    def kill(self) -> None:
        """As in a power cut: the database, too."""
        for node in self._nodes:
            node.kill()
        self.database.stop("immediate")

    def pause(self) -> None:
        """The database stays: the connections of its nodes to it do, too."""
        self.paused = True
        for node in self._nodes:
            if node.running:
                node.pause()

    def resume(self) -> None:
        self.paused = False
        for node in self._nodes:
            if node.paused and node.running:
                node.resume()

    def last_words(self) -> str:
        return "\n".join(f"node {node.number}:\n{node.last_words()}" for node in self._nodes)

    # What they say

    def client(self, *, timeout: float = START_S, token: str | None = None) -> Client:
        """For all its nodes; those that run come first."""
        ordered = sorted(self._nodes, key=lambda node: not node.up)
        return Client([node.url for node in ordered], timeout=timeout, token=self.token if token is None else token)

    def wait_until(self, condition: Callable[[Status], bool], words: str) -> None:
        for node in self._nodes:
            if node.up:
                node.wait_until(condition, words)

    def init_auth(self, name: str = "admin") -> str:
        return self.gateway().init_auth(name)

    def probe(self) -> NodeProbe:
        return self.gateway().probe()

    def wait_until_in(self, states: Collection[str], words: str) -> None:
        self.gateway().wait_until_in(states, words)

    def change_links(
        self,
        secret: bytes,
        *,
        cut: Iterable[int] = (),
        heal: Iterable[int] = (),
        slow: Mapping[int, float] = MappingProxyType({}),
    ) -> None:
        """Of the gateway: the only one with links to other regions."""
        self.gateway().change_links(secret, cut=cut, heal=heal, slow=slow)

    def ask_sessions(self) -> list[SessionReport]:
        """The table of its nodes, by the first that tells it."""
        for node in filter(lambda each: each.up, self._nodes):
            with suppress(EpoxyError), node.client(timeout=LOOK_S) as client:
                return client.status().nodes
        return []

    def gateway_session(self) -> int:
        return next((row.session for row in self.ask_sessions() if row.gateway and row.lease_ms > 0), 0)

    def gateway(self) -> RegionNode:
        """The node that answers holders of the secret, perhaps by way of another. Waits while another one takes over:
        an answer names the node that gave it."""
        deadline = time.monotonic() + START_S
        while True:
            running = [node for node in self._nodes if node.up]
            if not running:
                raise InvalidRequest(f"{self.datacenter} is down")
            for node in running:
                with suppress(EpoxyError):
                    told = node.probe().url
                    return next(each for each in running if each.url == told)
            if time.monotonic() > deadline:
                raise Unavailable(f"no node of {self.datacenter} became its gateway in {START_S:.0f} s")
            time.sleep(POLL_S)


def has_no_silent_node(status: Status) -> bool:
    """Whether all nodes of its datacenter renew their leases, and own every shard."""
    return all(node.lease_ms > 0 for node in status.nodes) and sum(node.shards for node in status.nodes) == SHARDS


def is_spread(status: Status, nodes: int) -> bool:
    """Whether every shard is with one of so many nodes, evenly: one shard may be left over, and one is the gateway's. A
    node that is alone with its store has none."""
    shards = [node.shards for node in status.nodes]
    return not shards or (len(shards) == nodes and sum(shards) == SHARDS and max(shards) - min(shards) <= 2)
