"""One region whose nodes share a PostgreSQL, and plain clients of the same server.

Every datacenter has a schema of its own in it, so that one server, with one log and one disk, serves all of them in
turns. Its CPU time is counted apart from that of the nodes."""

import secrets
from collections.abc import Mapping
from pathlib import Path

from benchmarks.suite.job import Wire
from benchmarks.suite.processes import free_ports
from benchmarks.suite.systems.base import Door, Generate, Operation, System
from benchmarks.suite.systems.epoxy import Epoxy, Node
from benchmarks.suite.wires import postgres
from epoxy.model.quorum import QuorumPolicy
from epoxy.testing import configuration
from epoxy.testing.postgres_server import DATABASE, PostgresServer, wait_until

CONNECTIONS = 400
"""Each of 256 plain clients has one, and every node a handful."""

SETTINGS = {
    "max_connections": str(CONNECTIONS),
    "shared_buffers": "256MB",
    "max_wal_size": "8GB",
}
"""As benchmarks.suite.systems.postgres has them: enough memory for all rows, and no checkpoint within a stretch."""

CLIENT = "bench"
TABLE = f"""
create role {CLIENT} login;
create table kv (key bytea primary key, value bytea not null);
grant all on kv to {CLIENT};
"""


def database_server() -> PostgresServer:
    return PostgresServer(settings=SETTINGS)


def admit_plain_clients(server: PostgresServer) -> None:
    """They have a table of their own and need no password: what a login costs is not measured."""
    server.query(TABLE)
    rules = server.data_dir / "pg_hba.conf"
    rules.write_text(f"host {DATABASE} {CLIENT} 127.0.0.1/32 trust\n{rules.read_text('utf-8')}", "utf-8")
    server.configure()


class Datacenter(Epoxy):
    """`count` nodes of one replica."""

    def __init__(self, folder: Path, server: PostgresServer, *, python: Path | None, count: int) -> None:
        super().__init__(folder, python=python, nodes=1)
        self._server = server
        self.schema = f"epoxy_{secrets.token_hex(4)}"
        (first,) = self.nodes
        ports = free_ports(2 * (count - 1))
        for number in range(1, count):
            http, resp = ports[2 * number - 2], ports[2 * number - 1]
            # The folder keeps apart what the nodes of one datacenter do not share.
            node = Node(
                node_id=first.id, datacenter=f"{first.datacenter}-{number}", folder=folder, http=http, resp=resp
            )
            node.python = first.python
            self.nodes.append(node)
        for node in self.nodes:
            node.config.write_text(self._configuration(node, first), "utf-8")

    def _configuration(self, node: Node, first: Node) -> str:
        written = configuration(node, [first], node.secret, QuorumPolicy.OPTIMAL)
        written = written.replace(f'datacenter = "{node.datacenter}"\n', f'datacenter = "{first.datacenter}"\n')
        written = written.replace("\n[cluster]\n", f'advertise_url = "{node.url}"\n\n[cluster]\n')
        return f'{written}\n[store]\ndriver = "postgres"\nurl = "{self._server.dsn}"\nschema = "{self.schema}"\n'

    def start(self) -> None:
        """One after the other: the first one is the gateway, and takes the shards that the others get from it."""
        for node in self.nodes:
            node.start()
        self._wait_until_spread()

    def _wait_until_spread(self) -> None:
        """Until every node owns its share."""
        count = len(self.nodes)
        owners = f"select count(*) from {self.schema}.shard group by owner having count(*) >= {256 // count}"
        wait_until(lambda: len(self._server.query(owners).splitlines()) == count, "the shards are spread")

    @property
    def database_roots(self) -> tuple[int, ...]:
        return roots_of(self._server)


class PlainInserts(System):
    """`INSERT … ON CONFLICT` by prepared statements, one row in a transaction, each client on its own connection."""

    name = "plain INSERT"

    def __init__(self, folder: Path, server: PostgresServer) -> None:
        self.folder = folder
        self._server = server

    def start(self) -> None:
        admit_plain_clients(self._server)

    def stop(self) -> None:
        """The server ends with the run."""

    @property
    def version(self) -> str:
        return self._server.query("show server_version")

    @property
    def roots(self) -> tuple[int, ...]:
        return ()

    @property
    def database_roots(self) -> tuple[int, ...]:
        return roots_of(self._server)

    @property
    def doors(self) -> Mapping[str, Door]:
        speak = {Operation.CREATE: postgres.create, Operation.PUT: postgres.put}
        greetings = dict.fromkeys(Operation, postgres.greeting(CLIENT, DATABASE))
        return {"SQL": Door(wire=Wire.POSTGRES, ports=(self._server.port,), speak=speak, greetings=greetings)}

    def load(self, keys: int, generate: Generate) -> str:
        raise NotImplementedError("its table begins empty, as the datacenters' do")


def roots_of(server: PostgresServer) -> tuple[int, ...]:
    return () if server.pid is None else (server.pid,)
