"""Datacenters of several nodes each, on a PostgreSQL of their own: real processes, sockets and databases of this
machine."""

import os
import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from epoxy.client import Client
from epoxy.model.errors import InvalidRequest, Unavailable
from epoxy.model.quorum import MAX_REPLICAS
from epoxy.model.shards import ALL_SHARDS, SYSTEM_SHARD, shard_of
from epoxy.testing.postgres_server import PostgresServer
from epoxy.testing.process_cluster import POLL_S, START_S, ClusterNode, free_ports, is_settled, quoted, reached

MAX_NODES = 8
"""In one datacenter: more processes than a machine for tests has cores."""

LEASE_MS = 2000.0
"""The shortest that leaves a busy machine five renewals of 400 ms."""

LONGEST_COMPLAINT = 4000

LOOK_S = 0.05
"""Between two looks at a database with psql, which takes half as long."""


class DatacenterProcess(ClusterNode):
    """One node of a datacenter. `datacenter` is its replica's; its own name has a number more."""

    def __init__(self, *, node_id: int, datacenter: str, number: int, folder: Path, http: int, resp: int) -> None:
        super().__init__(node_id=node_id, datacenter=datacenter, folder=folder, http=http, resp=resp)
        self.name = f"{datacenter}-{number}"
        self.config = folder / f"{self.name}.toml"
        self.log = folder / f"{self.name}.log"
        self.data_dir = folder / self.name


class Datacenter:
    """The nodes of one replica, and their database. `standby`: a synchronous copy, which can be promoted."""

    def __init__(self, replica: int, folder: Path, lease_ms: float) -> None:
        self.replica = replica
        self.name = f"dc-{replica}"
        self.folder = folder
        self.lease_ms = lease_ms
        self.database = PostgresServer()
        self.standby: PostgresServer | None = None
        self.dsn = ""
        self._made = 0
        self.nodes: list[DatacenterProcess] = []
        self.urls: list[str] = []
        """That the other members have of this one. A node that comes later is not among them."""

    def lay_out(self, nodes: int) -> None:
        for _ in range(nodes):
            self.nodes.append(self._new_node())
        self.urls = [node.url for node in self.nodes]

    def _new_node(self) -> DatacenterProcess:
        http, resp = free_ports(2)
        self._made += 1
        return DatacenterProcess(
            node_id=self.replica, datacenter=self.name, number=self._made, folder=self.folder, http=http, resp=resp
        )

    def start_database(self, *, standby: bool) -> None:
        self.database.start()
        if standby:
            self.standby = self.database.standby()
        self.dsn = self.database.dsn_with(*([self.standby] if self.standby is not None else []))

    def fail_over(self) -> None:
        """The database is lost as in a power cut, and its standby takes its place."""
        if self.standby is None:
            raise InvalidRequest("this datacenter has no standby")
        self.database.stop("immediate")
        self.standby.promote()
        self.database.close()
        self.database, self.standby = self.standby, None

    def close(self) -> None:
        for node in self.nodes:
            node.kill()
        self.database.close()
        if self.standby is not None:
            self.standby.close()

    # What the database says

    def owners(self) -> dict[int, str]:
        """Shards and the URLs of the sessions that own them; those that no session owns are left out."""
        rows = self.database.query(
            "select shard.id, session.url from epoxy.shard join epoxy.session on session.id = shard.owner "
            "where not session.fenced"
        )
        return {int(number): url for number, url in (line.split("|") for line in rows.splitlines())}

    def spread(self) -> Counter[str]:
        """How many shards of keys each node has."""
        names = {node.url: node.name for node in self.nodes}
        return Counter(names.get(url, url) for shard, url in self.owners().items() if shard != SYSTEM_SHARD)

    def has_gateway(self) -> bool:
        return SYSTEM_SHARD in self.owners()

    def owner_of(self, key: bytes) -> DatacenterProcess:
        return self._at(self.owners()[shard_of(key)])

    @property
    def gateway(self) -> DatacenterProcess:
        return self._at(self.owners()[SYSTEM_SHARD])

    @property
    def shard_nodes(self) -> list[DatacenterProcess]:
        """Those that run and are not the gateway."""
        gateway = self.gateway
        return [node for node in self.nodes if node is not gateway and node.running]

    def _at(self, url: str) -> DatacenterProcess:
        return next(node for node in self.nodes if node.url == url)

    def is_spread(self) -> bool:
        """Whether the running nodes own all shards, in even parts."""
        owners, spread = self.owners(), self.spread()
        running = {node.name for node in self.nodes if node.running}
        return (
            len(owners) == len(ALL_SHARDS)
            and set(spread) == running
            and max(spread.values()) - min(spread.values()) <= 1
        )

    def wait_until_spread(self) -> None:
        wait_until(self.is_spread, lambda: f"shards of {self.name} are evenly spread: {self.spread()}")

    def wait_until_ready(self) -> None:
        for node in self.nodes:
            if node.running:
                node.wait_until(lambda status: status.ready, "ready")


class DatacenterCluster:
    """Datacenters in the order of their replicas."""

    def __init__(self, folder: Path, datacenters: list[Datacenter], settings: str) -> None:
        self.folder = folder
        self.datacenters = datacenters
        self._settings = settings
        self.gone: list[DatacenterProcess] = []
        """Nodes that left for good."""

    @property
    def nodes(self) -> list[DatacenterProcess]:
        return [node for datacenter in self.datacenters for node in datacenter.nodes]

    def client(self, *, timeout: float = START_S) -> Client:
        """Knows all nodes."""
        return Client([node.url for node in self.nodes], timeout=timeout)

    def add_node(self, datacenter: Datacenter, *, wait: bool = True) -> DatacenterProcess:
        """One more for a datacenter that runs."""
        if len(datacenter.nodes) >= MAX_NODES:
            raise InvalidRequest(f"{datacenter.name} has {MAX_NODES} nodes")
        node = datacenter._new_node()
        datacenter.nodes.append(node)
        self.write_config(datacenter, node)
        node.start(wait=wait)
        return node

    def write_config(self, datacenter: Datacenter, node: DatacenterProcess) -> None:
        members = "".join(
            f'    {{ id = {other.replica}, datacenter = "{other.name}", url = {urls_of(other.urls)} }},\n'
            for other in self.datacenters
        )
        node.config.write_text(
            f'[node]\nid = {node.id}\ndatacenter = "{datacenter.name}"\ndata_dir = {quoted(node.data_dir)}\n'
            f'http = "{node.url.removeprefix("http://")}"\nresp = "127.0.0.1:{node.resp_port}"\n'
            f'advertise_url = "{node.url}"\n\n'
            f"[cluster]\nsecret_file = {quoted(node.secret)}\nmembers = [\n{members}]\n\n"
            f'[store]\ndriver = "postgres"\nurl = "{datacenter.dsn}"\nlease_ms = {datacenter.lease_ms:.0f}\n'
            f"{self._settings}\n",
            "utf-8",
        )

    def start(self) -> None:
        """The first node of each datacenter becomes its gateway."""
        for node in self.nodes:
            node.config.parent.mkdir(parents=True, exist_ok=True)
        for datacenter in self.datacenters:
            for node in datacenter.nodes:
                self.write_config(datacenter, node)
            datacenter.nodes[0].start(wait=False)
        for datacenter in self.datacenters:
            wait_until(datacenter.has_gateway, lambda: "a gateway")
            for node in datacenter.nodes[1:]:
                node.start(wait=False)
        self.wait_until_connected()
        for node in self.nodes:
            node.wait_until(is_settled, "in the first epoch that knows all stores")
        for datacenter in self.datacenters:
            datacenter.wait_until_spread()

    def wait_until_connected(self) -> None:
        """Until every running node is ready and reaches all datacenters with a running node."""
        alive = {node.id for node in self.nodes if node.running}
        for node in self.nodes:
            if node.running:
                node.wait_until(lambda status: status.ready and alive <= reached(status), "in touch with its peers")

    def complaints(self) -> list[str]:
        """Lines of the nodes' logs that are errors: each is a bug."""
        found = [(node.name, line) for node in (*self.nodes, *self.gone) for line in errors_in(node.log)]
        return [f"{name}: {line[:LONGEST_COMPLAINT]}" for name, line in found]

    def close(self) -> None:
        for datacenter in self.datacenters:
            datacenter.close()


@contextmanager
def datacenters(
    n: int = 1,
    *,
    nodes: int = 2,
    standby: bool = False,
    lease_ms: float = LEASE_MS,
    folder: Path | None = None,
    settings: str = "",
) -> Iterator[DatacenterCluster]:
    """`n` datacenters with `nodes` each, ready and in touch. `standby`: their databases have a synchronous copy each.
    With `folder` the logs stay there afterwards. `settings`: more lines for the file of each node."""
    if not 1 <= n <= MAX_REPLICAS or not 1 <= nodes <= MAX_NODES:
        raise InvalidRequest(f"1 to {MAX_REPLICAS} datacenters with 1 to {MAX_NODES} nodes, not {n} with {nodes}")
    with ExitStack() as stack:
        home = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="epoxy-test-")))
        home.mkdir(parents=True, exist_ok=True)
        write_secret(home / "secret")
        made = DatacenterCluster(home, [], settings)
        stack.callback(made.close)
        for replica in range(1, n + 1):
            datacenter = Datacenter(replica, home, lease_ms)
            made.datacenters.append(datacenter)
            datacenter.lay_out(nodes)
            datacenter.start_database(standby=standby)
        made.start()
        yield made


def errors_in(log: Path) -> list[str]:
    lines = log.read_text("utf-8", errors="replace").splitlines() if log.exists() else []
    return [line for line in lines if is_error(line)]


def is_error(line: str) -> bool:
    """Lines that are no JSON are those of an interpreter that ends with an exception."""
    return '"level":"error"' in line or '"level":"critical"' in line or not line.startswith("{")


def write_secret(path: Path) -> None:
    with open(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(secrets.token_hex(32))


def urls_of(urls: Sequence[str]) -> str:
    """One URL, or a list of them, as a file of settings has it."""
    quoted_urls = [f'"{url}"' for url in urls]
    return quoted_urls[0] if len(quoted_urls) == 1 else f"[{', '.join(quoted_urls)}]"


def wait_until(condition: Callable[[], bool], words: Callable[[], str]) -> None:
    """A database that is not there yet, or away, is asked again."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            if condition():
                return
        except Unavailable:
            if time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            raise Unavailable(f"waited {START_S:.0f} s, and not yet: {words()}")
        time.sleep(max(LOOK_S, POLL_S))
