"""Our own nodes: `epoxy serve`, one for each region, behind the delay proxy or with the WAN they emulate themselves."""

import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from benchmarks.load import Client, Request, ask_once, fresh_key, get, put
from benchmarks.peers.wan import VALUE, doors
from benchmarks.proxy import DelayProxy
from epoxy.testing import ClusterNode, free_ports, quoted, reached

CALLER = r"(?i)authorization: *Epoxy v\d+,(\d+),"
"""In the head of whatever a node says first to another: who it is."""


class EpoxyCluster:
    def __init__(
        self,
        regions: Sequence[str],
        folder: Path,
        *,
        emulated: bool = False,
        kinds: Mapping[str, type[ClusterNode]] = MappingProxyType({}),
    ) -> None:
        """`emulated`: the nodes delay their own messages, as in the demo, and there is no proxy. `kinds`: regions whose
        process is started in another way."""
        self.regions = tuple(regions)
        ports = free_ports(3 * len(regions))
        self.ports = dict(zip(regions, ports, strict=False))
        self.door_ports = dict(zip(regions, ports[2 * len(regions) :], strict=True))
        resp = dict(zip(regions, ports[len(regions) :], strict=False))
        self.nodes = {
            region: kinds.get(region, ClusterNode)(
                node_id=i, datacenter=region, folder=folder, http=self.ports[region], resp=resp[region]
            )
            for i, region in enumerate(regions, start=1)
        }
        secret = folder / "secret"
        secret.write_text(secrets.token_hex(32))
        secret.chmod(0o600)
        for region in regions:
            self.nodes[region].config.write_text(self._configuration(region, secret, emulated), "utf-8")
        self.proxy: DelayProxy | None = None
        if not emulated:
            ids = {region: node.id for region, node in self.nodes.items()}
            self.proxy = DelayProxy(doors(ids, self.door_ports, self.ports, CALLER))

    def start(self) -> None:
        for node in self.nodes.values():
            node.start(wait=False)
        self.wait_until_connected()

    def wait_until_connected(self) -> None:
        alive = {node.id for node in self.nodes.values() if node.running}
        for node in self.nodes.values():
            if node.running:
                node.wait_until(lambda status: status.ready and alive <= reached(status), "in touch with its peers")

    def kill(self, region: str) -> None:
        self.nodes[region].kill()

    def revive(self, region: str) -> None:
        self.nodes[region].start()
        self.wait_until_connected()

    def stop(self) -> None:
        for node in self.nodes.values():
            node.kill()
        if self.proxy is not None:
            self.proxy.stop()

    def clients(self, each: int) -> list[Client]:
        return [Client(region, self.ports[region], reserve_fresh) for _ in range(each) for region in self.regions]

    async def metrics(self, region: str) -> str:
        return (await ask_once(self.ports[region], get("/metrics")))[1].decode()

    def _configuration(self, region: str, secret: Path, emulated: bool) -> str:
        """The members' register has one address for each, the same for all: that of its door in the proxy, unless the
        nodes delay their own messages. Only clients and this benchmark know where a node listens itself."""
        node = self.nodes[region]
        members = "".join(
            f'    {{ id = {other.id}, datacenter = "{there}", url = "{self._url(there, emulated)}" }},\n'
            for there, other in self.nodes.items()
        )
        return (
            f'[node]\nid = {node.id}\ndatacenter = "{region}"\ndata_dir = {quoted(node.data_dir)}\n'
            f'http = "127.0.0.1:{self.ports[region]}"\nresp = "127.0.0.1:{node.resp_port}"\n\n'
            f"[wan]\nemulate = {str(emulated).lower()}\n\n"
            f"[cluster]\nsecret_file = {quoted(secret)}\nmembers = [\n{members}]\n"
        )

    def _url(self, there: str, emulated: bool) -> str:
        return f"http://127.0.0.1:{self.ports[there] if emulated else self.door_ports[there]}"

    def announced(self, region: str) -> str:
        """The line by which the proxy takes a caller for this region's node; it proves nothing to a node."""
        return f"authorization: Epoxy v2,{self.nodes[region].id},"

    def carried(self) -> dict[str, int]:
        """Bytes between the nodes so far, by link. Nothing where there is no proxy."""
        return {} if self.proxy is None else {name: counted.bytes for name, counted in self.proxy.counted().items()}


def reserve(key: bytes, status: int) -> Request:
    """201: this request took the name. 200: it has the value already."""
    return Request(put(f"/v2/kv/{key.decode()}", VALUE), lambda answered, _: answered == status)


def reserve_fresh() -> Request:
    return reserve(fresh_key(), 201)


def read(key: bytes, consistency: str) -> Request:
    path = f"/v2/kv/{key.decode()}?read={consistency}"
    return Request(get(path), lambda status, body: status == 200 and body == VALUE)


HANDLED = re.compile(
    r'^epoxy_requests_total\{request_type="(?!http_|resp_)\w+",result="\w+"\} ([\d.e+]+)$', re.MULTILINE
)
"""Clients come through a door, and their requests are counted under its name; what is left came from peers."""

SLOW = re.compile(r"^epoxy_slow_path_total ([\d.e+]+)$", re.MULTILINE)


def slow_writes(metrics: str) -> int:
    """Settled in more than the fast round, since the node started."""
    return sum(int(float(count)) for count in SLOW.findall(metrics))


def handled_for_peers(metrics: str) -> int:
    return sum(int(float(count)) for count in HANDLED.findall(metrics))
