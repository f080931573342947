"""Real clusters: a process for each region, sockets, disks, and links that can be cut. Each test that hurts one has its
own; those that only use one share it."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from epoxy.cli.demo.cluster import DemoCluster
from epoxy.cli.demo.control import DemoOrder
from epoxy.cli.demo.plan import PANEL_PORT, PORTS_APART, DemoPlan
from epoxy.cli.demo.region import RegionNode
from epoxy.client import Status
from epoxy.model.errors import Unavailable
from epoxy.testing import POLL_S, hold, reached
from tests.end_to_end.recorder import PROCESS_S

PORT_BASES = range(11_000, 31_000, 2)
"""Below the ephemeral ports of Linux, so that no outgoing connection occupies one."""

TRIES = 20
"""Of drawing free ports. One is enough unless the machine is full of clusters."""


@contextmanager
def regions(
    folder: Path, size: int = 3, *, wan: bool = False, auth: bool = False, settings: str = ""
) -> Iterator[DemoCluster]:
    """All ready and in touch with each other. `settings`: more of the configuration of each."""
    cluster = start(folder, size, wan=wan, auth=auth, settings=settings)
    try:
        yield cluster
    finally:
        cluster.kill()


def start(folder: Path, size: int, *, wan: bool, auth: bool = False, settings: str = "") -> DemoCluster:
    for left in reversed(range(TRIES)):
        plan = DemoPlan(folder=folder, regions=size, port_base=draw_port_base(size + 1), wan=wan, auth=auth)
        cluster = DemoCluster(plan)
        for node in cluster.nodes:
            with node.config.open("a") as config:
                config.write(settings)
        try:
            cluster.start(lambda _: None)
        except Unavailable:
            cluster.kill()
            if not left:
                raise
        else:
            return cluster
    raise AssertionError("there is always a last try")


def draw_port_base(size: int = 3) -> int:
    """Free ports that stay reserved for this process. Not seeded, so that test runs beside each other draw others."""
    while True:
        base = random.SystemRandom().choice(PORT_BASES)
        with suppress(OSError):
            doors = [base + PORTS_APART * i + door for i in range(size) for door in (0, 1)]
            return hold([*doors, base + PANEL_PORT])[0]


def order(cluster: DemoCluster, verb: str, region: str, *others: str) -> list[str]:
    told = cluster.perform(DemoOrder(verb=verb, region=region, others=others))
    assert told.done, told.lines
    return told.lines


def in_touch(cluster: DemoCluster) -> None:
    """Wait until all that can reach each other do."""
    for node in cluster.nodes:
        near = {cluster.by_name[name].id for name in cluster.within_reach(node.datacenter)}
        if near:
            node.wait_until(partial(reaches, near), "in touch again")


def until(condition: Callable[[], bool], words: str) -> None:
    deadline = time.monotonic() + PROCESS_S
    while not condition():
        assert time.monotonic() < deadline, f"not {words} in {PROCESS_S:.0f} s"
        time.sleep(POLL_S)


def reaches(wanted: set[int], status: Status) -> bool:
    return status.ready and wanted <= reached(status)


def others(cluster: DemoCluster, name: str) -> list[RegionNode]:
    return [node for node in cluster.nodes if node.datacenter != name]
