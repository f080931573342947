"""The faults of a campaign, each from its beginning to its end: everything runs again when it returns."""

import os
import random
import signal
import time
from collections.abc import Callable

from epoxy import EpoxyError
from epoxy.client.actor_calls import Which
from tests.actor_campaign.counters import NAME
from tests.actor_campaign.world import HOME_LEASE_S, THRESHOLD_S, World
from tests.end_to_end.world import in_touch, order

AFTER_S = 2.0
"""How much longer than a lease: the others notice, and take over."""

WATCHDOG_S = 2.0
"""For the watchdog of a process that goes on to end it. One without actors stays."""

END_OF_DRAIN_S = 45.0
"""A worker itself gives up after 30 s."""

MOVED = 6
"""Actors that are moved to another region at once."""


class Faults:
    """`complaints`: what did not become of a process as it should have."""

    def __init__(self, world: World, names: list[str], dice: random.Random) -> None:
        self.complaints: list[str] = []
        self._world = world
        self._names = names
        self._dice = dice

    def kill_worker(self) -> str:
        worker = self._dice.choice(self._world.workers)
        worker.kill()
        time.sleep(self._dice.uniform(0.0, THRESHOLD_S + AFTER_S))
        self._world.start_workers()
        return worker.name

    def pause_worker(self) -> str:
        worker = self._dice.choice(self._world.workers)
        worker.send(signal.SIGSTOP)
        time.sleep(THRESHOLD_S + self._dice.uniform(0.0, AFTER_S))
        worker.send(signal.SIGCONT)
        ended = worker.ends(WATCHDOG_S)
        self._world.start_workers()
        return f"{worker.name}, which {'ended' if ended else 'had no actors, and goes on'}"

    def kill_node(self) -> str:
        node = self._dice.choice(self._world.nodes)
        node.kill()
        time.sleep(self._dice.uniform(0.0, THRESHOLD_S))
        self._world.revive_region(node)
        return node.datacenter

    def drain_worker(self) -> str:
        worker = self._dice.choice(self._world.workers)
        worker.send(signal.SIGTERM)
        if not worker.ends(END_OF_DRAIN_S):
            self.complaints.append(f"{worker.name} was drained, and did not end")
            worker.kill()
        self._world.start_workers()
        return worker.name

    def move_actors(self) -> str:
        target = self._dice.choice(self._world.nodes)
        asked = self._dice.choice(self._world.nodes)
        moved = 0
        with asked.client() as client:
            for key in self._dice.sample(self._names, k=min(MOVED, len(self._names))):
                try:
                    moved += client.actors.move(Which(name=NAME, key=key), to=target.datacenter) is not None
                except EpoxyError as error:
                    self.complaints.append(f"{key} was not moved to {target.datacenter}: {error}")
        return f"{moved} to {target.datacenter}"

    def pause_node(self) -> str:
        node = self._dice.choice(self._world.nodes)
        order(self._world.cluster, "pause", node.datacenter)
        time.sleep(HOME_LEASE_S + self._dice.uniform(0.0, AFTER_S))
        order(self._world.cluster, "resume", node.datacenter)
        self._restart()
        return node.datacenter

    def cut_region(self) -> str:
        """Its node and its workers reach each other, and no other region."""
        node = self._dice.choice(self._world.nodes)
        order(self._world.cluster, "cut", node.datacenter)
        time.sleep(HOME_LEASE_S + self._dice.uniform(0.0, 2 * AFTER_S))
        order(self._world.cluster, "heal", node.datacenter)
        self._restart()
        return node.datacenter

    def kill_region(self) -> str:
        node = self._dice.choice(self._world.nodes)
        self._world.kill_region(node)
        time.sleep(HOME_LEASE_S + self._dice.uniform(0.0, 2 * AFTER_S))
        self._world.revive_region(node)
        return node.datacenter

    def pause_region(self) -> str:
        """The node and its workers go on in any order, with what they had in memory and in their sockets."""
        node = self._dice.choice(self._world.nodes)
        pids = [node.pid, *(worker.pid for worker in self._world.workers_of(node) if worker.running)]
        held = [pid for pid in pids if pid is not None]
        for pid in held:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(HOME_LEASE_S + self._dice.uniform(0.0, 2 * AFTER_S))
        self._dice.shuffle(held)
        for pid in held:
            os.kill(pid, signal.SIGCONT)
        for worker in self._world.workers_of(node):
            worker.ends(WATCHDOG_S)
        self._restart()
        return node.datacenter

    def _restart(self) -> None:
        in_touch(self._world.cluster)
        self._world.start_workers()


KINDS: dict[str, Callable[[Faults], str]] = {
    "kill a worker": Faults.kill_worker,
    "pause a worker past its lease": Faults.pause_worker,
    "kill a node": Faults.kill_node,
    "drain a worker": Faults.drain_worker,
    "move actors": Faults.move_actors,
    "pause a node past its lease": Faults.pause_node,
    "cut a region off past its lease": Faults.cut_region,
    "kill a region past its lease": Faults.kill_region,
    "pause a region past its lease": Faults.pause_region,
}
