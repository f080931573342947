"""How long an actor is away: after its worker was killed, after its region was, and while its worker drains."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import msgspec
from msgspec import Struct

from epoxy import Client, EpoxyError
from epoxy.client.actor_calls import Which
from epoxy.testing import ClusterNode
from tests.actor_campaign.counters import NAME, POOL
from tests.actor_campaign.history import Told
from tests.actor_campaign.world import HOME_LEASE_S, THRESHOLD_S, WorkerProcess, World

TIMEOUT_S = 40.0
AWAY_S = 60.0
"""After so long it is not away but gone."""

PROBE_S = 0.01
DRAINED_ACTORS = 8
DRAIN_S = 60.0
WORKER_LIMIT_S, REGION_LIMIT_S = THRESHOLD_S + 2.0, HOME_LEASE_S + 5.0


class Away(Struct, frozen=True, kw_only=True):
    """Seconds, from the kill to the first answer of the next process, one for each round."""

    worker_s: tuple[float, ...]
    region_s: tuple[float, ...]
    worker_limit_s: float = WORKER_LIMIT_S
    region_limit_s: float = REGION_LIMIT_S
    drained_requests: int
    drain_failures: tuple[str, ...]

    @property
    def misses(self) -> list[str]:
        found = [f"away {s:.1f} s after its worker was killed" for s in self.worker_s if s > self.worker_limit_s]
        found += [f"away {s:.1f} s after its region was killed" for s in self.region_s if s > self.region_limit_s]
        return found + [f"a request failed while it drained: {words}" for words in self.drain_failures]


def measure(world: World, rounds: int) -> Away:
    worker_s = [after_worker(world, i) for i in range(rounds)]
    region_s = [after_region(world, i) for i in range(rounds)]
    asked, failures = while_draining(world)
    return Away(
        worker_s=tuple(worker_s), region_s=tuple(region_s), drained_requests=asked, drain_failures=tuple(failures)
    )


def ask(client: Client, key: str, body: bytes = b"") -> Told:
    answer = client.actors.request(Which(name=NAME, key=key), body, pool=POOL)
    return msgspec.json.decode(answer, type=Told)


def settled(world: World, node: ClusterNode, key: str) -> WorkerProcess:
    """Asks until it runs; its worker."""
    deadline = time.monotonic() + AWAY_S
    with node.client(timeout=TIMEOUT_S) as client:
        while time.monotonic() < deadline:
            try:
                found = world.worker_with(ask(client, key, b"hello").process.partition("/")[0])
            except EpoxyError:
                found = None
            if found is not None:
                return found
            time.sleep(PROBE_S)
    raise TimeoutError(f"{key} is not there after {AWAY_S:.0f} s")


def until_another(node: ClusterNode, key: str, victim: str) -> float:
    """When a process with another key than the victim's has answered."""
    deadline = time.monotonic() + AWAY_S
    with node.client(timeout=TIMEOUT_S) as client:
        while time.monotonic() < deadline:
            try:
                if not ask(client, key).process.startswith(f"{victim}/"):
                    return time.monotonic()
            except EpoxyError:
                time.sleep(PROBE_S)
    raise TimeoutError(f"{key} is away for more than {AWAY_S:.0f} s")


def after_worker(world: World, number: int) -> float:
    node, key = world.nodes[number % len(world.nodes)], f"away-worker-{number}"
    worker = settled(world, node, key)
    victim = worker.key
    began_s = time.monotonic()
    worker.kill()
    away_s = until_another(node, key, victim) - began_s
    world.start_workers()
    return away_s


def after_region(world: World, number: int) -> float:
    """Asked for through another region."""
    home, key = world.nodes[number % len(world.nodes)], f"away-region-{number}"
    worker = settled(world, home, key)
    home, victim = worker.node, worker.key
    other = next(node for node in world.nodes if node is not home)
    began_s = time.monotonic()
    world.kill_region(home)
    away_s = until_another(other, key, victim) - began_s
    world.revive_region(home)
    return away_s


def while_draining(world: World) -> tuple[int, list[str]]:
    """Requests of one client for each actor of a region, one after the other, while one of its workers drains."""
    node, over = world.nodes[0], Event()
    keys = [f"drained-{i}" for i in range(DRAINED_ACTORS)]
    for key in keys:
        settled(world, node, key)
    worker = settled(world, node, keys[0])

    def work(key: str) -> tuple[int, list[str]]:
        asked, failures = 0, []
        with node.client(timeout=TIMEOUT_S) as client:
            while not over.is_set():
                asked += 1
                try:
                    ask(client, key, f"drain.{asked}".encode())
                except EpoxyError as error:
                    failures.append(f"{key}: {error}")
                    time.sleep(PROBE_S)
        return asked, failures

    with ThreadPoolExecutor(len(keys)) as threads:
        working = [threads.submit(work, key) for key in keys]
        worker.send(signal.SIGTERM)
        if not worker.ends(DRAIN_S):
            worker.kill()
        time.sleep(1.0)
        over.set()
        told = [each.result() for each in working]
    world.start_workers()
    return sum(asked for asked, _ in told), [words for _, failures in told for words in failures]
