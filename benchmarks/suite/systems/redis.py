"""Redis, and Valkey, which comes from it: a primary and one replica, both with an append-only file that is synced for
every turn of their loop. A write is acknowledged by WAIT: the replica has received it. There is no consensus here: a
primary that is lost takes acknowledged writes with it if the wrong one takes over."""

import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from benchmarks.suite.job import Choice, Job, Step, Wire, value_of
from benchmarks.suite.processes import Server, free_ports, wait_until
from benchmarks.suite.systems.base import LOAD_S, Door, Generate, Operation, Speak, System, check_loaded, loaded_key
from benchmarks.suite.wires import resp


class Redis(System):
    def __init__(self, folder: Path, binary: Path, *, name: str = "Redis") -> None:
        self.name = name
        self.folder = folder
        self._binary = binary
        self._ports = free_ports(2)
        self._servers: list[Server] = []

    def start(self) -> None:
        primary, _ = self._ports
        for port, role in zip(self._ports, ((), ("--replicaof", "127.0.0.1", str(primary))), strict=True):
            folder = self.folder / str(port)
            folder.mkdir(parents=True)
            server = Server([*self._command(port), *role], folder)
            self._servers.append(server)
            wait_until(lambda port=port: self._ask(port, b"PING") == b"+PONG\r\n", server, self.name)  # type: ignore[misc]
        wait_until(lambda: b"state=online" in self._ask(primary, b"INFO", b"replication"), self._servers[0], self.name)

    def stop(self) -> None:
        for server in self._servers:
            server.end()

    @property
    def version(self) -> str:
        done = subprocess.run([self._binary, "--version"], capture_output=True, text=True, check=True)
        return done.stdout.partition("v=")[2].split()[0]

    @property
    def roots(self) -> tuple[int, ...]:
        return tuple(server.pid for server in self._servers)

    @property
    def doors(self) -> Mapping[str, Door]:
        """The replica takes no writes."""
        speak: dict[Operation, Speak] = {
            Operation.CREATE: lambda key, value: resp.waited(resp.create(key, value), 1),
            Operation.PUT: lambda key, value: resp.waited(resp.put(key, value), 1),
            Operation.GET: resp.get,
        }
        return {"RESP": Door(wire=Wire.RESP, ports=(self._ports[0],), speak=speak, greetings={})}

    def load(self, keys: int, generate: Generate) -> str:
        """Without waiting for the replica each time; it has them soon after."""
        door = self.doors["RESP"]
        outcome = generate(
            Job(
                wire=door.wire,
                ports=door.ports,
                steps=(Step(exchange=resp.put(loaded_key(), value_of(16)), choice=Choice.FRESH),),
                clients=8,
                pipeline=100,
                limit=keys,
                seconds=LOAD_S,
            )
        )
        check_loaded(self.name, outcome, keys)
        return "SET in pipelines of 100"

    def _command(self, port: int) -> list[str]:
        return [
            str(self._binary),
            *("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--maxclients", "5000"),
            *("--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0"),
        ]

    def _ask(self, port: int, *words: bytes) -> bytes:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=2) as line:
                line.sendall(resp.command(*words))
                return line.recv(65536)
        except OSError:
            return b""
