"""A cluster of real processes, sockets and disks, on this machine.

Each node is an `epoxy serve` of its own on free ports of the loopback, with its data in a temporary folder that goes
when the cluster does.
"""

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

from epoxy.client import AsyncClient, Client, Status
from epoxy.client.auth_calls import init_auth
from epoxy.client.calls import Call, get_json
from epoxy.client.pool import ask_once
from epoxy.client.responses import read_json
from epoxy.model.access import AccessRole
from epoxy.model.api import Newcomer, NodeProbe
from epoxy.model.errors import AccessRefused, InvalidRequest, Unavailable
from epoxy.model.quorum import MAX_REPLICAS, QuorumPolicy
from epoxy.transport.limits import PROBE_PATH
from epoxy.transport.peers.operator_header import operator_authorization

T = TypeVar("T")

START_S = 60.0
"""For all nodes to connect. It takes well under a second; on a busy machine many times that."""

STOP_S = 15.0
"""For a node to finish its work. After that it is killed."""

CHANGE_S = 90.0
"""For members to change. A few thousand keys take a second or two."""

POLL_S = 0.02
SLOW_POLL_S = 0.2
"""Between two requests that may be refused for want of a token: a node counts those, and slows them down."""

CALL_S = 10.0
"""For one signed request: making a token takes a round trip or two."""

LOG_LINES = 20
"""Last lines of the log of a node that failed, shown with the error."""

LOOPBACK = "127.0.0.1"

PORTS_HELD = 256
"""Twice what the largest cluster takes, and far from the usual limit of 1,024 files."""

HELD: deque[int] = deque()
"""Sockets that hold ports, the oldest first. File descriptors and not objects, which would warn that the last of them
are never closed."""


class ClusterNode:
    """One process. Signals are sent to its own pid alone."""

    def __init__(self, *, node_id: int, datacenter: str, folder: Path, http: int, resp: int) -> None:
        self.id = node_id
        self.datacenter = self.name = datacenter
        self.url = f"http://127.0.0.1:{http}"
        self.addresses: tuple[str, ...] = (self.url,)
        """Of all nodes of its datacenter."""
        self.resp_port = resp
        self.config = folder / f"{datacenter}.toml"
        self.log = folder / f"{datacenter}.log"
        self.data_dir = folder / datacenter
        self.secret = folder / "secret"
        self.token = ""
        """What clients made here show; empty, if the node asks for none."""
        self.python = sys.executable
        """Runs the node. Another one, of an environment with another release, from the next start on."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """None while it is down."""
        return self._process.pid if self.running and self._process is not None else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *, wait: bool = True) -> None:
        """`wait`: until it is ready."""
        if self.running:
            raise InvalidRequest(f"node {self.id} is running already")
        with self.log.open("ab") as log:
            self._process = self._spawn([self.python, "-m", "epoxy", "serve", "--config", str(self.config)], log)
        if wait:
            self.wait_until(lambda status: status.ready, "ready")

    def _spawn(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """A method of its own, for subclasses that start processes in another way."""
        environment = clean_environment(os.environ)
        if self.python != sys.executable:
            environment.pop("PYTHONPATH", None)  # It may name this build, which would be run instead.
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    def kill(self) -> None:
        """Like a power cut: no warning, nothing flushed."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """With SIGTERM: the node answers the requests under way first."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """With SIGSTOP: connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def restart(self) -> None:
        """With the data it had."""
        if self.running:
            self.stop()
        self.start()

    def client(self, *, timeout: float = START_S, token: str | None = None) -> Client:
        """For this node alone. `token`: another one than the cluster's."""
        return Client(self.url, timeout=timeout, token=self.token if token is None else token)

    def init_auth(self, name: str = "admin") -> str:
        """A token for an operator, made with the cluster's secret, as `epoxy auth init` makes one. Waits until the node
        is ready."""
        call, deadline = init_auth(name), time.monotonic() + START_S
        while True:
            try:
                return self._signed(call).token
            except Unavailable:
                self._check_patience(deadline, "ready")
                time.sleep(SLOW_POLL_S)

    def probe(self) -> NodeProbe:
        """What the node says of itself to a holder of the secret: also one that is no member, and knows no tokens."""
        return self._signed(get_json(PROBE_PATH.decode(), partial(read_json, NodeProbe)))

    def wait_until_in(self, states: Collection[str], words: str) -> None:
        """As `wait_until`, for a node that knows no tokens yet."""
        deadline = time.monotonic() + START_S
        while True:
            with suppress(Unavailable):
                if self.probe().state in states:
                    return
            self._check_patience(deadline, words)
            time.sleep(SLOW_POLL_S)

    def _signed(self, call: Call[T]) -> T:
        secret = self.secret.read_bytes().strip()
        signature = operator_authorization(secret, self.id, call.target, call.body or b"")
        return ask_once(self.url, call, signature, timeout=CALL_S)

    def wait_until(self, condition: Callable[[Status], bool], words: str) -> None:
        deadline = time.monotonic() + START_S
        with self.client(timeout=2.0) as client:
            while not self._holds(client, condition):
                self._check_patience(deadline, words)
                time.sleep(POLL_S)

    def _check_patience(self, deadline: float, words: str) -> None:
        if not self.running:
            raise Unavailable(f"node {self.id} ended before it was {words}:\n{self.last_words()}")
        if time.monotonic() > deadline:
            raise Unavailable(f"node {self.id} was not {words} in {START_S:.0f} s:\n{self.last_words()}")

    def _holds(self, client: Client, condition: Callable[[Status], bool]) -> bool:
        """The pid is compared, because another process may have taken the port first."""
        try:
            status = client.status()
        except Unavailable:
            return False
        except AccessRefused:
            time.sleep(SLOW_POLL_S)  # a token that is new reaches every node within seconds
            return False
        return status.pid == self.pid and condition(status)

    def last_words(self) -> str:
        lines = self.log.read_text("utf-8", errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-LOG_LINES:]) or "(its log is empty)"

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None or not self.running:
            raise InvalidRequest(f"node {self.id} is not running")
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None or not self.running:
            return
        self._process.send_signal(number)
        self._process.send_signal(signal.SIGCONT)  # a paused process gets the other only then
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Cluster:
    """The nodes in order; `cluster.client()` asks `cluster[0]` first."""

    def __init__(
        self,
        nodes: list[ClusterNode],
        folder: Path,
        quorum_policy: QuorumPolicy = QuorumPolicy.OPTIMAL,
        *,
        auth: bool = False,
    ) -> None:
        self.nodes = nodes
        self.token = ""
        """Of a cluster with tokens: one with all roles."""
        self._auth = auth
        self.folder = folder
        self._founders = tuple(nodes)
        self._known = list(nodes)
        self._policy = quorum_policy

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes]

    def client(self, first: int = 0, *, timeout: float = START_S, token: str | None = None) -> Client:
        """Knows all nodes, and asks `first` first. `token`: another one than that of the cluster, which has all
        roles."""
        shown = self.token if token is None else token
        return Client(self.urls[first:] + self.urls[:first], timeout=timeout, token=shown)

    def async_client(self, first: int = 0, *, timeout: float = START_S, token: str | None = None) -> AsyncClient:
        shown = self.token if token is None else token
        return AsyncClient(self.urls[first:] + self.urls[:first], timeout=timeout, token=shown)

    def create_token(self, name: str, *roles: str, **limits: Any) -> str:
        """A token for a test of your own, of a cluster with `auth`. `limits`: as `client.auth.create_token` takes
        them."""
        with self.client() as client:
            made = client.auth.create_token(name, roles, **limits)
        if made is None:
            raise InvalidRequest(f"there is a grant named {name!r}")
        return made.token

    def start(self) -> None:
        for node in self.nodes:
            node.start(wait=False)
        if self._auth:
            self._init_auth()
        self.wait_until_connected()
        for node in self.nodes:
            node.wait_until(is_settled, "in the first epoch that knows all stores")

    def _init_auth(self) -> None:
        self.token = self.nodes[0].init_auth()
        roles = [role.value for role in AccessRole]
        self.token = self.create_token("test", *roles)
        for node in self.nodes:
            node.token = self.token

    def wait_until_connected(self) -> None:
        """Until every running node is ready and reaches every other that runs."""
        alive = {node.id for node in self.nodes if node.running}
        for node in self.nodes:
            if node.running:
                node.wait_until(lambda status: status.ready and alive <= reached(status), "in touch with its peers")

    def prepare(self) -> ClusterNode:
        """A node that can join; it is not started."""
        node = newcomer(self.folder, self._founders, self._policy, max(n.id for n in self._known) + 1, auth=self._auth)
        node.token = self.token
        self._known.append(node)
        return node

    def join(self, *nodes: ClusterNode) -> None:
        """Add them in one change of members; they have copied all keys when this returns."""
        member = next(other for other in self.nodes if other.running)
        for node in nodes:
            node.start(wait=False)
        for node in nodes:
            node.wait_until_in(("new",), "there")
        change_members(member, add=[as_newcomer(node) for node in nodes])
        for node in nodes:
            node.wait_until(lambda status: status.ready, "ready")
        self.nodes += nodes

    def add(self) -> ClusterNode:
        node = self.prepare()
        self.join(node)
        return node

    def remove(self, node: ClusterNode) -> None:
        """It may be down already. If not, it is stopped in the end."""
        self.nodes.remove(node)
        change_members(next(other for other in self.nodes if other.running), remove=[node.id])
        node.stop()

    def stop(self) -> None:
        for node in self._known:
            node.kill()

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[ClusterNode]:
        return iter(self.nodes)

    def __getitem__(self, index: int) -> ClusterNode:
        return self.nodes[index]


@contextmanager
def cluster(
    n: int = 3, *, quorum_policy: str = "optimal", folder: Path | None = None, auth: bool = False, settings: str = ""
) -> Iterator[Cluster]:
    """`n` nodes, ready and connected to each other. With `folder` the data stays there afterwards. `auth`: they ask
    for tokens; `cluster.client()` shows one with all roles, and `cluster.create_token` makes others. `settings`: more
    lines for the file of each node, as "[placement]\\neligible_threshold_ms = 2000"."""
    if not 1 <= n <= MAX_REPLICAS:
        raise InvalidRequest(f"a cluster has 1 to {MAX_REPLICAS} nodes, not {n}")
    with ExitStack() as stack:
        home = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="epoxy-test-")))
        home.mkdir(parents=True, exist_ok=True)
        policy = QuorumPolicy(quorum_policy)
        made = Cluster(lay_out(home, n, policy, auth=auth, settings=settings), home, policy, auth=auth)
        stack.callback(made.stop)
        made.start()
        yield made


def lay_out(folder: Path, n: int, policy: QuorumPolicy, *, auth: bool = False, settings: str = "") -> list[ClusterNode]:
    """A configuration file for each node, and one secret for all."""
    secret = folder / "secret"
    secret.write_text(secrets.token_hex(32))
    secret.chmod(0o600)
    ports = free_ports(2 * n)
    nodes = [
        ClusterNode(node_id=i, datacenter=f"dc-{i}", folder=folder, http=ports[2 * i - 2], resp=ports[2 * i - 1])
        for i in range(1, n + 1)
    ]
    for node in nodes:
        written = configuration(node, nodes, secret, policy) + access_section(auth) + f"\n{settings}\n"
        node.config.write_text(written, "utf-8")
    return nodes


def newcomer(
    folder: Path, founders: Sequence[ClusterNode], policy: QuorumPolicy, node_id: int, *, auth: bool = False
) -> ClusterNode:
    http, resp = free_ports(2)
    node = ClusterNode(node_id=node_id, datacenter=f"dc-{node_id}", folder=folder, http=http, resp=resp)
    settings = configuration(node, founders, folder / "secret", policy) + "join = true\n" + access_section(auth)
    node.config.write_text(settings, "utf-8")
    return node


def configuration(node: ClusterNode, nodes: Sequence[ClusterNode], secret: Path, policy: QuorumPolicy) -> str:
    members = "".join(
        f'    {{ id = {other.id}, datacenter = "{other.datacenter}", url = {url_setting(other.addresses)} }},\n'
        for other in nodes
    )
    return (
        f'[node]\nid = {node.id}\ndatacenter = "{node.datacenter}"\ndata_dir = {quoted(node.data_dir)}\n'
        f'http = "{node.url.removeprefix("http://")}"\nresp = "127.0.0.1:{node.resp_port}"\n\n'
        f'[cluster]\nquorum_policy = "{policy.value}"\nsecret_file = {quoted(secret)}\nmembers = [\n{members}]\n'
    )


def url_setting(addresses: Sequence[str]) -> str:
    """Of a member, in TOML: one address, or a list of them."""
    written = [f'"{url}"' for url in addresses]
    return written[0] if len(written) == 1 else f"[{', '.join(written)}]"


def access_section(auth: bool) -> str:
    """Without one a node is open, because it listens on the loopback alone."""
    return '\n[access]\nauth = "tokens"\n' if auth else ""


def as_newcomer(node: ClusterNode) -> Newcomer:
    return Newcomer(id=node.id, url=node.url, datacenter=node.datacenter)


def change_members(node: ClusterNode, *, add: Sequence[Newcomer] = (), remove: Sequence[int] = ()) -> int:
    """Ask `node` for the change, and wait until it is done; returns the epoch."""
    with node.client() as client:
        wanted = client.change_members(add=add, remove=remove).wanted
        deadline = time.monotonic() + CHANGE_S
        while True:
            seen = client.members(progress=True)
            if seen.settled and tuple(row.id for row in seen.replicas) == wanted:
                return seen.epoch
            if time.monotonic() > deadline:
                raise Unavailable(f"the members did not become {wanted} in {CHANGE_S:.0f} s: {seen.waiting}")
            time.sleep(POLL_S)


def quoted(path: Path) -> str:
    escaped = str(path.absolute()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def free_ports(count: int, host: str = LOOPBACK) -> list[int]:
    """Free ports of the loopback, held from now on."""
    return hold([0] * count, host)


def hold(ports: Sequence[int], host: str = LOOPBACK) -> list[int]:
    """Bind these ports, or any free one for each that is 0, without listening. The system gives them to no other
    process, neither before their server listens nor between two starts of it, and connections to them are refused
    meanwhile. `host`: where the server will listen; a port that is free at one address may be taken at another, also by
    a client's connection that was closed within the last minute. OSError: another process has one of them."""
    with ExitStack() as undo:
        sockets = [undo.enter_context(bound_socket(port, host)) for port in ports]
        given = [taken.getsockname()[1] for taken in sockets]
        HELD.extend(taken.detach() for taken in sockets)
    # Only Linux lets a server listen on a port that another socket has bound; elsewhere they are released at once.
    while len(HELD) > (PORTS_HELD if sys.platform == "linux" else 0):
        os.close(HELD.popleft())
    return given


def bound_socket(port: int, host: str = LOOPBACK) -> socket.socket:
    """It does not listen. Only a server with SO_REUSEADDR can bind the same port."""
    taken = socket.socket()
    try:
        taken.bind((host, port))
    except OSError:
        taken.close()
        raise
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return taken


def reached(status: Status) -> set[int]:
    return {status.id} | {peer.id for peer in status.peers if peer.reachable}


def is_settled(status: Status) -> bool:
    """A new cluster enters its second epoch as soon as all replicas have met all others; writes in flight then take a
    little longer, which tests of single writes should not see."""
    return status.ready and status.epoch > 1


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Without variables that are settings: a node of a test is set up by its file alone. EPOXY_PURE is no setting."""
    ours = {name for name in environment if name.startswith("EPOXY_")} - {"EPOXY_PURE"}
    return {name: value for name, value in environment.items() if name not in ours}
