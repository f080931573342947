"""Nodes are added, removed and replaced by rolling restarts of real agents beside real servers: at no moment do two
servers take writes, and what was acknowledged is there."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.failover_cluster import ElectCluster, running, wait_for
from benchmarks.failover_writer import Writer
from tests.agent.conftest import server_binary
from tests.end_to_end.test_elect import more, writer_for

__all__ = ["server_binary"]

DOWN_AFTER_MS = 3_000
PAUSE_S = 0.02


class Watcher:
    """Asks all servers to take a write, over and over. Two that take one each, with another of the first behind it, do
    so at the same time."""

    def __init__(self, cluster: ElectCluster) -> None:
        self.seen: list[tuple[str, str]] = []
        self.rounds = 0
        self._cluster = cluster
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(PAUSE_S):
            self.rounds += 1
            open_now = [name for name in self._cluster.members if self._cluster.takes_writes(name)]
            if len(open_now) > 1 and self._cluster.takes_writes(open_now[0]):
                self.seen.append((open_now[0], open_now[1]))


@contextmanager
def watched(cluster: ElectCluster) -> Iterator[Writer]:
    with Watcher(cluster) as watcher, writer_for(cluster) as writer:
        more(writer)
        yield writer
        more(writer)
    assert watcher.seen == []
    assert watcher.rounds > 0
    assert writer.missing(cluster.members[cluster.primary()].server_port, writer.acked) == []


def is_over(cluster: ElectCluster, generation: int) -> bool:
    told = [cluster.members[name].status() for name in cluster.listed]
    return all((each.generation, each.joining, each.leaving) == (generation, (), ()) for each in told)


def roll(cluster: ElectCluster, listed: str, generation: int, *, min_replicas: int = 1) -> None:
    """The others first, the primary last, then those who leave are stopped, as the page for operators says."""
    before = cluster.listed
    cluster.relist(listed, min_replicas=min_replicas)
    staying = [name for name in before if name in listed]
    primary = wait_for(lambda: cluster.primary_now(), "no primary before the change")
    for name in sorted(staying, key=lambda each: each == primary):
        cluster.end_agent(name)
        cluster.start_agent(name)
        wait_for(lambda member=cluster.members[name]: member.status().primary, f"{name} hears no primary")  # type: ignore[misc]
    leaving = [name for name in before if name not in listed]
    for name in sorted(leaving, key=lambda each: each == primary):
        cluster.end_agent(name)
        cluster.signal_server(name, signal.SIGKILL)
    wait_for(lambda: is_over(cluster, generation), f"the change to {listed} does not end: {cluster.folder}")
    assert {node.id for node in cluster.members[listed[0]].status().nodes} == set(listed)


def test_three_become_five_and_five_become_three(tmp_path: Path, server_binary: Path) -> None:
    """In one rolling restart each, although the lists differ by two."""
    cluster = ElectCluster(tmp_path, server_binary, n=5, listed="abc", down_after_ms=DOWN_AFTER_MS)
    with running(cluster), watched(cluster) as writer:
        roll(cluster, "abcde", 1, min_replicas=2)
        more(writer)
        roll(cluster, "cde", 2)


def test_the_primary_is_replaced(tmp_path: Path, server_binary: Path) -> None:
    cluster = ElectCluster(tmp_path, server_binary, n=4, listed="abc", down_after_ms=DOWN_AFTER_MS)
    with running(cluster), watched(cluster):
        assert cluster.primary() == "a"
        roll(cluster, "bcd", 1)
        assert cluster.primary() in "bcd"
