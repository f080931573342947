"""Our own nodes: `epoxy serve`, by any interpreter that has the package."""

import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from benchmarks.machine import ROOT
from benchmarks.suite.job import Exchange, Wire, value_of
from benchmarks.suite.processes import START_S, free_ports
from benchmarks.suite.systems.base import LOAD_S, Door, Generate, Operation, System, loaded_key
from benchmarks.suite.wires import http1, resp
from epoxy.model.quorum import QuorumPolicy
from epoxy.testing import Cluster, ClusterNode, configuration

VERSION = """
import platform, epoxy
how = "compiled" if epoxy.__compiled__ else "interpreted"
print(f"{epoxy.__version__} {how}, on Python {platform.python_version()} of {platform.python_build()[1]}")
"""

SETTLE_S = 3.0
"""For the end of a log to get into the tree: 16 MB at the most."""


class Node(ClusterNode):
    """Run by an interpreter of our choice: the compiled build may be elsewhere."""

    python = sys.executable

    def _spawn(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return super()._spawn([self.python, *command[1:]], log)


class Epoxy(System):
    name = "Epoxy"

    def __init__(self, folder: Path, *, python: Path | None = None, nodes: int = 3) -> None:
        self.folder = folder
        self._python = str(python.absolute()) if python is not None else sys.executable
        self.nodes = lay_out(folder, nodes, self._python)
        self._cluster = Cluster(list(self.nodes), folder)

    def start(self) -> None:
        self._cluster.start()

    def stop(self) -> None:
        for node in self.nodes:
            node.kill()

    def load(self, keys: int, generate: Generate) -> str:  # noqa: ARG002 (others need it)
        """While the nodes are down, each into its own store: see the loader."""
        exchange = resp.reserve(loaded_key(), value_of(16))
        self._pattern(exchange)
        for node in self.nodes:
            node.stop()
        loaders = [subprocess.Popen(self._loading(node, keys), cwd=ROOT) for node in self.nodes]
        try:
            failed = [loader.args for loader in loaders if loader.wait(LOAD_S)]
        finally:
            for loader in loaders:
                loader.kill()
                loader.wait()
        if failed:
            raise RuntimeError(f"{self.name}: the keys were not loaded by {failed}")
        # Twice: what the log is ahead of the tree goes there after the first start, and the memory for it with the
        # first process.
        self.start()
        time.sleep(SETTLE_S)
        for node in self.nodes:
            node.stop()
        self.start()
        return "rows as a commit leaves them, written into the store of each node while it was down, in ascending order"

    def _pattern(self, exchange: Exchange) -> None:
        """One key that was committed everywhere, for the loader to go by."""
        port = self.nodes[0].resp_port
        if ask(port, exchange.raw) != exchange.reply:
            raise RuntimeError(f"{self.name}: the pattern for its keys was not committed")
        get = resp.get(loaded_key(), value_of(16))
        deadline = time.monotonic() + START_S
        while not all(ask(node.resp_port, get.raw) == get.reply for node in self.nodes):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name}: the pattern for its keys did not reach all nodes")
            time.sleep(0.05)

    def _loading(self, node: Node, keys: int) -> list[str]:
        return [self._python, "-m", "benchmarks.suite.loader", str(node.data_dir), str(keys)]

    @property
    def version(self) -> str:
        done = subprocess.run([self._python, "-c", VERSION], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    @property
    def roots(self) -> tuple[int, ...]:
        return tuple(node.pid for node in self.nodes if node.pid is not None)

    @property
    def doors(self) -> Mapping[str, Door]:
        ports = tuple(node.resp_port for node in self.nodes)
        urls = tuple(int(node.url.rpartition(":")[2]) for node in self.nodes)
        put, add = {Operation.PUT: http1.put}, {Operation.ADD: resp.increment}
        return {
            "RESP": resp_door(ports),
            "HTTP": http_door(urls),
            "RESP, sums": Door(wire=Wire.RESP_SUMS, ports=ports, speak=add, greetings={}),
            "HTTP, versions": Door(wire=Wire.HTTP_VERSIONS, ports=urls, speak=put, greetings={}),
        }


def ask(port: int, raw: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=START_S) as line:
        line.sendall(raw)
        return line.recv(4096)


def lay_out(folder: Path, count: int, python: str) -> list[Node]:
    folder.mkdir(parents=True, exist_ok=True)
    secret = folder / "secret"
    secret.write_text(secrets.token_hex(32))
    secret.chmod(0o600)
    ports = free_ports(2 * count)
    nodes = [
        Node(node_id=i, datacenter=f"dc-{i}", folder=folder, http=ports[2 * i - 2], resp=ports[2 * i - 1])
        for i in range(1, count + 1)
    ]
    for node in nodes:
        node.python = python
        node.config.write_text(configuration(node, nodes, secret, QuorumPolicy("optimal")), "utf-8")
    return nodes


def resp_door(ports: tuple[int, ...]) -> Door:
    return Door(
        wire=Wire.RESP,
        ports=ports,
        speak={
            Operation.CREATE: resp.reserve,
            Operation.PUT: resp.put,
            Operation.GET: resp.get,
            Operation.GET_NOW: resp.get,
        },
        greetings={Operation.GET_NOW: (resp.command(b"READCONSISTENT"),)},
    )


def http_door(ports: tuple[int, ...]) -> Door:
    speak = {Operation.CREATE: http1.create, Operation.GET: http1.get}
    return Door(wire=Wire.HTTP, ports=ports, speak=speak, greetings={})
