"""etcd, three members, asked over gRPC as its own clients do. Settings are etcd's own; nothing is tuned for anybody."""

import subprocess
import urllib.request
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.suite.job import Choice, Job, Step, Wire, value_of
from benchmarks.suite.processes import Server, free_ports, wait_until
from benchmarks.suite.systems.base import LOAD_S, Door, Generate, Operation, Speak, System, check_loaded, loaded_key
from benchmarks.suite.wires import grpc

PUTS = 100
"""In one transaction while it is loaded; etcd takes up to 128."""

SHARED = 4
"""Connections to each member when clients share them, as the goroutines of one program do: tried with 1, 4 and 10, and
all three were about as fast."""


class Header(Struct):
    member_id: str


class Status(Struct):
    """A number is missing where it is 0."""

    header: Header
    version: str
    leader: str = "0"


class Etcd(System):
    name = "etcd"

    def __init__(self, folder: Path, binary: Path, *, members: int = 3) -> None:
        self.folder = folder
        self._binary = binary
        ports = free_ports(2 * members)
        self._ports, self._peer_ports = ports[:members], ports[members:]
        self._servers: list[Server] = []
        self._leader = 0

    def start(self) -> None:
        for number in range(len(self._ports)):
            folder = self.folder / f"m{number}"
            folder.mkdir(parents=True)
            self._servers.append(Server(self._command(number), folder))
        wait_until(self._elected, self._servers[0], "etcd")

    def stop(self) -> None:
        for server in self._servers:
            server.end()

    @property
    def version(self) -> str:
        done = subprocess.run([self._binary, "--version"], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()[0].rpartition(" ")[2]

    @property
    def roots(self) -> tuple[int, ...]:
        return tuple(server.pid for server in self._servers)

    @property
    def doors(self) -> Mapping[str, Door]:
        """The leader comes first."""
        ports = tuple(self._ports[self._leader :] + self._ports[: self._leader])
        greeting = (grpc.greeting(),)
        speak: dict[Operation, Speak] = {
            Operation.CREATE: grpc.create,
            Operation.PUT: grpc.put,
            Operation.GET: partial(grpc.get, linearizable=False),
            Operation.GET_NOW: partial(grpc.get, linearizable=True),
        }
        door = Door(wire=Wire.GRPC, ports=ports, speak=speak, greetings=dict.fromkeys(Operation, greeting))
        return {
            "gRPC": door,
            "gRPC, shared": msgspec.structs.replace(door, connections=SHARED * len(ports)),
            "gRPC, adding": msgspec.structs.replace(door, wire=Wire.GRPC_ADDING, speak={Operation.ADD: grpc.add}),
        }

    def load(self, keys: int, generate: Generate) -> str:
        exchange = grpc.put_many([(loaded_key(tail), value_of(16)) for tail in range(PUTS)])
        door = self.doors["gRPC"]
        outcome = generate(
            Job(
                wire=door.wire,
                ports=door.ports[:1],
                greeting=door.greeting(Operation.PUT),
                steps=(Step(exchange=exchange, choice=Choice.FRESH),),
                clients=8,
                limit=self.numbers(keys),
                seconds=LOAD_S,
            )
        )
        check_loaded(self.name, outcome, self.numbers(keys))
        return f"transactions of {PUTS} puts, through its leader"

    def numbers(self, keys: int) -> int:
        return max(1, keys // PUTS)

    def _command(self, number: int) -> list[str]:
        client = f"http://127.0.0.1:{self._ports[number]}"
        peers = [f"http://127.0.0.1:{port}" for port in self._peer_ports]
        return [
            str(self._binary),
            *("--name", f"m{number}", "--data-dir", "data", "--log-level", "error"),
            *("--listen-peer-urls", peers[number], "--initial-advertise-peer-urls", peers[number]),
            *("--initial-cluster", ",".join(f"m{each}={url}" for each, url in enumerate(peers))),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--quota-backend-bytes", str(8 << 30)),
        ]

    def _elected(self) -> bool:
        try:
            states = [self._status(port) for port in self._ports]
        except (OSError, msgspec.DecodeError):
            return False
        leaders = {state.leader for state in states}
        members = [state.header.member_id for state in states]
        if len(leaders) != 1 or not leaders <= set(members):
            return False
        self._leader = members.index(leaders.pop())
        return True

    def _status(self, port: int) -> Status:
        url = f"http://127.0.0.1:{port}/v3/maintenance/status"
        with urllib.request.urlopen(urllib.request.Request(url, data=b"{}"), timeout=2) as answer:
            return msgspec.json.decode(answer.read(), type=Status)
