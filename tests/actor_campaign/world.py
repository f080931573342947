"""Three regions, two workers in each: processes that are killed, paused, cut off and drained, each by its own id."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from epoxy.cli.demo.cluster import DemoCluster
from epoxy.cli.demo.region import RegionNode
from epoxy.node.process.parent_death import before_exec
from epoxy.testing import POLL_S, clean_environment
from tests.actor_campaign.counters import POOL
from tests.end_to_end.world import in_touch, order, regions

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 2
"""In each region: an actor whose worker dies has another one near."""

THRESHOLD_S, HOME_LEASE_S = 2.0, 5.0
SETTINGS = (
    f"\n[placement]\neligible_threshold_ms = {THRESHOLD_S * 1000:.0f}\nhome_lease_ms = {HOME_LEASE_S * 1000:.0f}\n"
    "sweep_every_s = 86400\n"
)
"""The shortest home lease that may be set, and no sweep that comes to the rescue."""

END_S = 30.0
"""For a process that should end by itself."""


class WorkerProcess:
    """One after the other in one place. Each has a key of its own, so that it need not wait for the one before."""

    def __init__(self, node: RegionNode, number: int, flags: Sequence[str]) -> None:
        self.node = node
        self._flags = flags
        self.name = f"{node.datacenter}-{number}"
        self.key = ""
        self._log = node.log.with_name(f"{self.name}.log")
        self._starts = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        assert not self.running
        self._starts += 1
        self.key = f"{self.name}-{self._starts}"
        command = [sys.executable, "-m", "tests.actor_campaign.counters", self.node.url, self.key, *self._flags]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean_environment(os.environ),
                process_group=0,
                preexec_fn=before_exec(os.getpid()),  # noqa: PLW1509
            )

    def send(self, number: signal.Signals) -> None:
        if self.running:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def ends(self, within_s: float = END_S) -> bool:
        """By itself."""
        assert self._process is not None
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True


class World:
    def __init__(self, cluster: DemoCluster, flags: Sequence[str]) -> None:
        self.cluster = cluster
        self.workers = [WorkerProcess(node, i + 1, flags) for node in cluster.nodes for i in range(WORKERS)]

    @property
    def nodes(self) -> list[RegionNode]:
        return self.cluster.nodes

    def workers_of(self, node: RegionNode) -> list[WorkerProcess]:
        return [worker for worker in self.workers if worker.node is node]

    def worker_with(self, key: str) -> WorkerProcess | None:
        return next((worker for worker in self.workers if worker.key == key and worker.running), None)

    def start_workers(self) -> None:
        """All that do not run, until their nodes know them."""
        for worker in self.workers:
            if not worker.running:
                worker.start()
        self.wait_for_workers()

    def wait_for_workers(self) -> None:
        deadline = time.monotonic() + END_S
        missing = {worker.key for worker in self.workers}
        while missing:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not connected in {END_S:.0f} s: {', '.join(sorted(missing))}")
            time.sleep(POLL_S)
            for node in self.nodes:
                with node.client() as client:
                    missing -= {each.key for each in client.actors.envoys(pool=POOL)}

    def kill_region(self, node: RegionNode) -> None:
        """A power cut: the node and its workers, with nothing said."""
        for worker in self.workers_of(node):
            worker.send(signal.SIGKILL)
        node.kill()
        for worker in self.workers_of(node):
            worker.kill()

    def revive_region(self, node: RegionNode) -> None:
        order(self.cluster, "revive", node.datacenter)
        in_touch(self.cluster)
        self.start_workers()


@contextmanager
def world(folder: Path, flags: Sequence[str] = ()) -> Iterator[World]:
    with regions(folder, 3, settings=SETTINGS) as cluster:
        made = World(cluster, flags)
        try:
            made.start_workers()
            yield made
        finally:
            for worker in made.workers:
                worker.kill()
