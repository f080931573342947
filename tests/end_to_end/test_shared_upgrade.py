"""Nodes of one datacenter on one PostgreSQL, from the last release to this build and back: never both at a time."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from epoxy.client import Client
from epoxy.server.shared_storage import IN_USE
from epoxy.testing.datacenter_cluster import (
    LEASE_MS,
    Datacenter,
    DatacenterCluster,
    DatacenterProcess,
    wait_until,
    write_secret,
)
from tools.previous_release import previous_python

WRITES = 40
"""In one part of the story: of shards of both nodes."""

REFUSED = "the tables have format 2, and this version of Epoxy knows 1"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DatacenterCluster]:
    """One datacenter with two nodes of the last release."""
    write_secret(tmp_path / "secret")
    datacenter = Datacenter(1, tmp_path, LEASE_MS)
    datacenter.lay_out(2)
    for node in datacenter.nodes:
        node.python = str(previous_python())
    made = DatacenterCluster(tmp_path, [datacenter], "")
    try:
        datacenter.start_database(standby=False)
        made.start()
        yield made
    finally:
        made.close()


def written(node: DatacenterProcess, part: str) -> None:
    with node.client() as client:
        for number in range(WRITES):
            client.put(b"%s/%d" % (part.encode(), number), part.encode())


def holds(node: DatacenterProcess, *parts: str) -> bool:
    with node.client() as client:
        return all(
            read(client, b"%s/%d" % (part.encode(), n)) == part.encode() for part in parts for n in range(WRITES)
        )


def read(client: Client, key: bytes) -> bytes | None:
    found = client.get(key, read="linearizable")
    return found.value if found is not None else None


def format_of(datacenter: Datacenter) -> str:
    return datacenter.database.query("select value from epoxy.meta where name = 'format'").strip()


def says(node: DatacenterProcess, *words: str) -> bool:
    lines = node.log.read_text("utf-8").splitlines()
    return any(all(word in line for word in words) for line in lines)


def back(node: DatacenterProcess) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "epoxy", "store", "back", "--config", str(node.config)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_node_of_this_build_waits_for_those_of_the_last_release(cluster: DatacenterCluster) -> None:
    datacenter = cluster.datacenters[0]
    new, old = datacenter.nodes
    last = new.python
    written(new, "before")

    new.stop()
    new.python = sys.executable
    new.start(wait=False)
    wait_until(lambda: says(new, IN_USE, f"{old.url} (release 0.1.0)"), lambda: "the new node says that it waits")
    written(old, "meanwhile")
    assert format_of(datacenter) == "1"

    old.pause()
    new.wait_until(lambda status: status.ready, "ready")
    assert format_of(datacenter) == "2"
    written(new, "after")
    old.resume()
    wait_until(lambda: not old.running, lambda: "the old node has ended")
    assert says(old, REFUSED)
    old.start(wait=False)
    wait_until(lambda: not old.running, lambda: "the old node has ended")

    old.python = sys.executable
    old.start()
    datacenter.wait_until_spread()
    assert all(holds(node, "before", "meanwhile", "after") for node in datacenter.nodes)

    refused = back(new)
    assert refused.returncode == 78
    assert f"these nodes use it: {new.url}" in refused.stderr or f"these nodes use it: {old.url}" in refused.stderr
    for node in datacenter.nodes:
        node.stop()
    told = back(new)
    assert "format 1 again" in told.stdout, "both have closed their sessions, also the one that became the gateway"
    for node in datacenter.nodes:
        node.python = last
        node.start()
    datacenter.wait_until_spread()
    written(old, "back")
    assert all(holds(node, "before", "meanwhile", "after", "back") for node in datacenter.nodes)
