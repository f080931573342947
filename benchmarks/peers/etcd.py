"""etcd, one member for each region, its links behind the same delay proxy.

Members tell each other one address each, the same for all, so a port could not say who is calling. Unix sockets can: a
relative path is looked up in the folder of the caller, and each member has one of its own with a socket for every
link. Timers are set as etcd's tuning guide asks for: a heartbeat of one round trip, an election of ten.
"""

import base64
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.load import Client, Request, ask_once, fresh_key, post
from benchmarks.peers.wan import VALUE, links
from benchmarks.proxy import DelayProxy
from epoxy.testing import free_ports
from epoxy.transport.wan.aws import rtt_ms

START_S = 60.0
"""To elect a first leader, with the timers of a WAN on a busy machine."""

LEAD_S = 20.0
"""To hand leadership over: a few round trips, or one election if that goes wrong."""


class Header(Struct):
    member_id: str


class Status(Struct):
    """A number is missing where it is 0."""

    header: Header
    version: str
    leader: str = "0"


class EtcdCluster:
    def __init__(self, binary: Path, regions: Sequence[str], folder: Path) -> None:
        self.regions = tuple(regions)
        self._binary = binary
        self._folder = folder
        ports = free_ports(2 * len(regions))
        self.ports = dict(zip(regions, ports, strict=False))
        self._peer_ports = dict(zip(regions, ports[len(regions) :], strict=True))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        for region in regions:
            (folder / region).mkdir(parents=True)
        between = links(
            regions, lambda here, there: str(folder / here / socket_name(there)), self._peer_ports.__getitem__
        )
        self.proxy = DelayProxy(between)

    async def start(self) -> None:
        for region in self.regions:
            with (self._folder / region / "log").open("wb") as log:
                self._processes[region] = subprocess.Popen(
                    self._command(region), cwd=self._folder / region, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
        deadline = time.monotonic() + START_S
        while await self.leader() is None:
            self._check(deadline, "elected no leader")

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        self.proxy.stop()

    async def leader(self) -> str | None:
        """None unless all agree."""
        try:
            states = {region: await self._status(region) for region in self.regions}
        except (OSError, TimeoutError, msgspec.DecodeError):
            return None
        leaders = {state.leader for state in states.values()}
        named = {state.header.member_id: region for region, state in states.items()}
        return named.get(leaders.pop()) if len(leaders) == 1 else None

    async def lead(self, region: str) -> None:
        """Make the member of this region the leader."""
        target = (await self._status(region)).header.member_id
        deadline = time.monotonic() + LEAD_S
        while (now := await self.leader()) != region:
            self._check(deadline, f"{region} did not become the leader")
            if now is not None:
                body = msgspec.json.encode({"targetID": target})
                await ask_once(self.ports[now], post("/v3/maintenance/transfer-leadership", body))

    async def version(self) -> str:
        return (await self._status(self.regions[0])).version

    def clients(self, each: int) -> list[Client]:
        return [Client(region, self.ports[region], create_fresh) for _ in range(each) for region in self.regions]

    def _command(self, region: str) -> list[str]:
        farthest = max(rtt_ms(here, there) for here in self.regions for there in self.regions)
        client = f"http://127.0.0.1:{self.ports[region]}"
        return [
            str(self._binary),
            *("--name", region, "--data-dir", "data", "--log-level", "error"),
            *("--listen-peer-urls", f"http://127.0.0.1:{self._peer_ports[region]}"),
            *("--initial-advertise-peer-urls", f"unix://{socket_name(region)}"),
            *("--initial-cluster", ",".join(f"{each}=unix://{socket_name(each)}" for each in self.regions)),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--heartbeat-interval", f"{farthest:.0f}", "--election-timeout", f"{10 * farthest:.0f}"),
        ]

    async def _status(self, region: str) -> Status:
        _, body = await ask_once(self.ports[region], post("/v3/maintenance/status", b"{}"))
        return msgspec.json.decode(body, type=Status)

    def _check(self, deadline: float, trouble: str) -> None:
        ended = [region for region, process in self._processes.items() if process.poll() is not None]
        if ended:
            log = (self._folder / ended[0] / "log").read_text("utf-8", errors="replace")
            raise RuntimeError(f"etcd in {ended[0]} ended:\n{log[-2000:]}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"etcd: {trouble} in time")
        time.sleep(0.1)


def socket_name(region: str) -> str:
    """An address has to have a port; it is a part of the file's name."""
    return f"{region}:1"


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def create(key: bytes, *, succeeds: bool) -> Request:
    """Create if absent; the loser learns what is there, as with us."""
    body = msgspec.json.encode(
        {
            "compare": [{"key": text(key), "target": "CREATE", "result": "EQUAL", "create_revision": "0"}],
            "success": [{"request_put": {"key": text(key), "value": text(VALUE)}}],
            "failure": [{"request_range": {"key": text(key)}}],
        }
    )
    return Request(
        post("/v3/kv/txn", body), lambda status, body: status == 200 and (b'"succeeded":true' in body) == succeeds
    )


def create_fresh() -> Request:
    return create(fresh_key(), succeeds=True)


def read(key: bytes, *, linearizable: bool) -> Request:
    body = msgspec.json.encode({"key": text(key), "serializable": not linearizable})
    wanted = text(VALUE).encode()
    return Request(post("/v3/kv/range", body), lambda status, body: status == 200 and wanted in body)
