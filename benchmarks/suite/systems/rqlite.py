"""rqlite: SQLite under Raft, three nodes, asked over HTTP. Followers hand writes on to their leader."""

import json
import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from benchmarks.suite.job import MARK, Exchange, Wire
from benchmarks.suite.processes import Server, free_ports, wait_until
from benchmarks.suite.systems.base import Door, Generate, Operation, System
from benchmarks.suite.wires import http1

TABLE = "create table kv (key text primary key, value text not null)"
INSERT = "insert or ignore into kv values (?, ?)"


class Rqlite(System):
    name = "rqlite"

    def __init__(self, folder: Path, binary: Path) -> None:
        self.folder = folder
        self._binary = binary
        ports = free_ports(6)
        self._ports, self._raft_ports = ports[:3], ports[3:]
        self._servers: list[Server] = []

    def start(self) -> None:
        for number in range(3):
            folder = self.folder / str(number)
            folder.mkdir(parents=True)
            self._servers.append(Server(self._command(number), folder))
        for server, port in zip(self._servers, self._ports, strict=True):
            wait_until(lambda port=port: b"leader ok" in self._ask(port, "/readyz"), server, self.name)  # type: ignore[misc]
        wait_until(lambda: b"results" in self._ask(self._ports[0], "/db/execute", [TABLE]), self._servers[0], self.name)

    def stop(self) -> None:
        for server in self._servers:
            server.end()

    @property
    def version(self) -> str:
        done = subprocess.run([self._binary, "-version"], capture_output=True, text=True, check=True)
        return (done.stdout or done.stderr).split()[1]

    @property
    def roots(self) -> tuple[int, ...]:
        return tuple(server.pid for server in self._servers)

    @property
    def doors(self) -> Mapping[str, Door]:
        return {"HTTP": Door(wire=Wire.HTTP, ports=tuple(self._ports), speak={Operation.CREATE: create}, greetings={})}

    def load(self, keys: int, generate: Generate) -> str:
        raise NotImplementedError("it takes part in commits alone")

    def _command(self, number: int) -> list[str]:
        return [
            str(self._binary),
            *("-node-id", str(number), "-http-addr", f"127.0.0.1:{self._ports[number]}"),
            *("-raft-addr", f"127.0.0.1:{self._raft_ports[number]}", "-bootstrap-expect", "3"),
            *("-join", ",".join(f"127.0.0.1:{port}" for port in self._raft_ports)),
            "data",
        ]

    def _ask(self, port: int, path: str, body: object = None) -> bytes:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}{path}", data=data, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return bytes(answer.read())
        except OSError:
            return b""


def create(key: bytes, value: bytes) -> Exchange:
    """Text, since it travels as JSON: what is behind the mark, in hexadecimal."""
    words = value[: len(MARK)].decode() + value[len(MARK) :].hex()
    body = json.dumps([[INSERT, key.decode(), words]]).encode()
    return Exchange(http1.request("POST", b"/db/execute", body, "application/json"), b'200"rows_affected":1')
