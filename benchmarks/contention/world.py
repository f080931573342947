"""Regions as real processes with emulated round trips, whose links, clocks and disks can be made to fail."""

import asyncio
import contextlib
import http.client
import itertools
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import IO

import msgspec

from benchmarks.contention.asker import Answer, Asker, Lane, Make
from benchmarks.machine import ROOT
from benchmarks.peers.epoxy import EpoxyCluster
from epoxy.testing import ClusterNode, clean_environment
from epoxy.transport.limits import LINKS_PATH
from epoxy.transport.peers.operator_header import operator_authorization
from epoxy.transport.wan.emulation import LinkChange

ORDER_S = 10.0
"""For a node on this machine to change its links."""

SERIAL = itertools.count()


class World:
    """A cluster, and what is done to it."""

    def __init__(self, cluster: EpoxyCluster, folder: Path) -> None:
        self.cluster = cluster
        self.regions = cluster.regions
        self._folder = folder
        self._lanes: list[Lane] = []
        self._run = secrets.token_hex(4)

    def asker(self, region: str) -> Asker:
        return Asker(region, self.cluster.ports[region])

    def lane(self, region: str) -> Lane:
        lane = Lane(region, self.cluster.ports[region])
        self._lanes.append(lane)
        return lane

    def key(self, kind: str) -> str:
        return f"{kind}/{self._run}/{next(SERIAL)}"

    def overwriting(self, region: str, key: str) -> Make:
        """A value says where it comes from and which it is."""
        lane, count = self.lane(region), itertools.count()
        return lambda: lane(lambda asker: asker.put(key, f"{region}/{next(count)}"))

    def reserving(self, region: str, kind: str) -> Make:
        lane = self.lane(region)
        return lambda: lane(lambda asker: asker.reserve(self.key(kind), region))

    def reading(self, region: str, key: str) -> Make:
        lane = self.lane(region)
        return lambda: lane(lambda asker: asker.read(key))

    async def settled(self, key: str, region: str) -> Answer:
        """A first value, which all regions have: RuntimeError if it cannot be written."""
        asker = self.asker(region)
        answer = await asker.put(key, "first")
        asker.close()
        if not answer.ok:
            raise RuntimeError(f"{region} could not write {key}: {answer.code}")
        await asyncio.sleep(SETTLE_S)
        return answer

    async def version(self, key: str, region: str) -> int:
        """A linearizable read, tried again while the key is contended."""
        asker = self.asker(region)
        answer = await asker.read(key)
        for _ in range(TRIES):
            answer = answer if answer.ok else await asker.read(key)
        asker.close()
        return answer.version

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()

    @contextlib.contextmanager
    def stopped(self, region: str) -> Iterator[None]:
        """SIGSTOP: connections stay open and nothing answers."""
        self.cluster.nodes[region].pause()
        try:
            yield
        finally:
            self.cluster.nodes[region].resume()

    @contextlib.contextmanager
    def cut(self, here: str, there: str, *, both_ways: bool = True) -> Iterator[None]:
        """What `here` sends to `there` is lost, and unless it is one direction alone, what comes from there as well."""
        self._change(here, there, sends=False, hears=not both_ways)
        self._change(there, here, sends=not both_ways, hears=False)
        try:
            yield
        finally:
            for one, other in ((here, there), (there, here)):
                self._order(one, LinkChange(heal=[self.cluster.nodes[other].id]))

    @contextlib.contextmanager
    def apart(self, few: Sequence[str]) -> Iterator[None]:
        """These regions reach each other and none else."""
        with contextlib.ExitStack() as stack:
            for here in few:
                for there in self.regions:
                    if there not in few:
                        stack.enter_context(self.cut(here, there))
            yield

    @contextlib.contextmanager
    def slow_disk(self, region: str) -> Iterator[None]:
        flag = flag_of(self._folder, region)
        flag.touch()
        try:
            yield
        finally:
            flag.unlink()

    def _change(self, here: str, there: str, *, sends: bool, hears: bool) -> None:
        self._order(here, LinkChange(cut=[self.cluster.nodes[there].id], sends=sends, hears=hears))

    def _order(self, region: str, change: LinkChange) -> None:
        node = self.cluster.nodes[region]
        body = msgspec.json.encode(change)
        secret = node.secret.read_bytes().strip()
        signature = operator_authorization(secret, node.id, LINKS_PATH.decode(), body)
        connection = http.client.HTTPConnection("127.0.0.1", self.cluster.ports[region], timeout=ORDER_S)
        try:
            connection.request("POST", LINKS_PATH.decode(), body, {"authorization": signature})
            answer = connection.getresponse()
            if answer.status != 200:
                raise RuntimeError(f"{region} did not change its links: {answer.status} {answer.read()!r}")
        finally:
            connection.close()


SETTLE_S = 0.5
"""Longer than any round trip."""

TRIES = 5


class SlowDiskNode(ClusterNode):
    """Its syncs take long while a file is there."""

    def _spawn(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        flag = flag_of(self.config.parent, self.datacenter)
        words = [sys.executable, "-m", "benchmarks.contention.slow_disk", str(flag), *command[3:]]
        return subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT, env=clean_environment(os.environ)
        )


def flag_of(folder: Path, region: str) -> Path:
    return folder / f"{region}.slow"


@contextlib.asynccontextmanager
async def running(
    regions: Sequence[str], folder: Path, *, proxied: bool = False, slow: Sequence[str] = ()
) -> AsyncIterator[World]:
    """`slow`: regions whose disk can be made slow. `proxied`: the delays are those of the proxy, as etcd has them; else
    the nodes emulate them, as in the demo, and links can be cut."""
    folder.mkdir(parents=True)
    cluster = EpoxyCluster(regions, folder, emulated=not proxied, kinds=dict.fromkeys(slow, SlowDiskNode))
    world = World(cluster, folder)
    try:
        cluster.start()
        await world.settled(world.key("warm"), regions[0])
        await asyncio.gather(*(warm(world, region) for region in regions))
        yield world
    finally:
        world.close()
        cluster.stop()


async def warm(world: World, region: str) -> None:
    """First requests pay for connections and for code that has never run."""
    asker = world.asker(region)
    for _ in range(3):
        await asker.put(world.key("warm"), region)
    asker.close()
