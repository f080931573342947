"""What happens to others while a node is flooded: their requests, its memory, its links, and what was written."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.flood_senders import HOT, LONG, SOURCE
from epoxy.client import Client
from epoxy.testing import START_S, Cluster, ClusterNode, reached

PAGE_KIB = 4
PEER_CONNECTIONS = ("epoxy_peer_connections_refused", "epoxy_peer_connections_lost")
LONG_VALUE = b"v" * (1 << 20)
SAMPLE_S = 0.1


def rss_kib(node: ClusterNode) -> int:
    assert node.pid is not None, "the node has ended"
    return int(Path(f"/proc/{node.pid}/statm").read_text("ascii").split()[1]) * PAGE_KIB


def prepare(cluster: Cluster) -> None:
    """What floods ask for."""
    with cluster.client() as client:
        client.put(HOT, b"v")
        client.put(LONG, LONG_VALUE)


def peer_connections_ended(cluster: Cluster) -> dict[tuple[int, str], float]:
    """Connections to the flooded node that it refused or ended, as its peers count them."""
    flooded, *others = cluster
    found: dict[tuple[int, str], float] = {}
    for node in others:
        shown = {"authorization": f"Bearer {node.token}"} if node.token else {}
        with urlopen(Request(f"{node.url}/metrics", headers=shown), timeout=START_S) as answer:
            families = text_string_to_metric_families(answer.read().decode())
        for family in families:
            if family.name in PEER_CONNECTIONS:
                counts = [sample.value for sample in family.samples if sample.labels["peer"] == str(flooded.id)]
                (found[node.id, family.name],) = counts
    assert len(found) == len(others) * len(PEER_CONNECTIONS), found
    return found


class FloodProcess:
    """One sender. `end` returns its counts."""

    def __init__(self, name: str, node: ClusterNode, source: str = SOURCE) -> None:
        port = urlsplit(node.url).port
        command = [sys.executable, "-m", "benchmarks.flood_senders", name, str(port), str(node.resp_port), source]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", name

    def end(self) -> dict[str, int]:
        told, _ = self._process.communicate("end\n", timeout=60)
        counts: dict[str, int] = json.loads(told)
        return counts


@contextmanager
def flooding(name: str, node: ClusterNode, source: str = SOURCE) -> Iterator[dict[str, int]]:
    """The counts are there when the flood has ended. `source`: the address it comes from."""
    counts: dict[str, int] = {}
    sender = FloodProcess(name, node, source)
    try:
        yield counts
    finally:
        counts.update(sender.end())


class Watch:
    """Samples the memory of the flooded node, and whether the others reach it, in a thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.most_kib = 0
        self.unreached = 0
        self.samples = 0

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        flooded, other = self._cluster[0], self._cluster[1]
        with other.client() as client:
            while not (self.samples and self._over.wait(SAMPLE_S)):
                self.most_kib = max(self.most_kib, rss_kib(flooded))
                self.unreached += flooded.id not in reached(client.status())
                self.samples += 1


class Bystander:
    """Another client of the flooded node: reads and writes, one after the other, with the time of each."""

    def __init__(self, node: ClusterNode, label: str) -> None:
        self._client = Client(node.url, timeout=30.0, token=node.token)
        self._label = label.encode()
        self._number = 0
        self.written: dict[bytes, bytes] = {}
        self.took_s: list[float] = []

    def __enter__(self) -> "Bystander":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self) -> None:
        """One write in four requests. What is acknowledged is remembered."""
        self._number += 1
        began = time.perf_counter()
        if self._number % 4:
            found = self._client.get(HOT)
            assert found is not None
            assert found.value == b"v"
        else:
            key, value = b"flood/%b/%d" % (self._label, self._number), b"%d" % self._number
            self._client.put(key, value)
            self.written[key] = value
        self.took_s.append(time.perf_counter() - began)

    def lost(self, node: ClusterNode) -> list[bytes]:
        """What was acknowledged, and is not found by a linearizable read at another node."""
        with node.client() as client:
            found = {key: client.get(key, read="linearizable") for key in self.written}
        return [key for key, value in self.written.items() if (here := found[key]) is None or here.value != value]


def quantile(took_s: list[float], share: float) -> float:
    return sorted(took_s)[min(len(took_s) - 1, int(share * len(took_s)))]
