"""Other datacenters, each one replica on a store of its own, and the messages between all of them. Those to the first
datacenter reach its gateway, which passes them on to the owners of their keys."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from epoxy.datacenter.gateway import Gateway
from epoxy.model.messages import Reply, Request
from epoxy.model.records import KeyState
from epoxy.model.writes import Consistency, Outcome, ReadAnswer, Write
from epoxy.node.keys.driver import Driver
from epoxy.node.keys.replica import Replica
from epoxy.store.memory import MemoryStore
from epoxy_sim.datacenter.judge import ME
from epoxy_sim.datacenter.machine import NodeLife
from epoxy_sim.world import Action, Event

if TYPE_CHECKING:
    from epoxy_sim.datacenter.simulation import DatacenterSimulation

DISK_US = 200
"""A sync of another datacenter's store."""


class OtherDatacenter:
    """A replica that does not fail: faults are the first datacenter's in these runs."""

    def __init__(self, replica_id: int, simulation: "DatacenterSimulation") -> None:
        self.id = replica_id
        self.name = f"datacenter {replica_id}"
        self.simulation = simulation
        self.hang_ups: list[Action] = []
        self._world = simulation.world
        self._dice = Random(f"datacenter/{replica_id}/{simulation.plan.seed}")
        self.store = MemoryStore(self._sync)
        alarm = simulation.judge.alarm
        self.replica = Replica(replica_id, self.store, simulation.config, alarm)
        self.replica.watchers.append(self._watch)
        self.driver = Driver(self.replica, self, self, self, simulation.plan.timing, alarm)

    def ask_write(self, write: Write, answered: Callable[[Outcome], None]) -> None:
        self.driver.write(write, answered)

    def ask_read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:
        self.driver.read(key, consistency, answered)

    def _sync(self, done: Action) -> None:
        self._world.after(DISK_US, done)

    def run(self, action: Action) -> None:
        action()

    def now_ms(self) -> float:
        return self._world.now_us / 1000

    def call_later(self, delay_ms: float, then: Action) -> Event:
        return self._world.after(int(delay_ms * 1000), then)

    def uniform(self) -> float:
        return self._dice.random()

    def nonce(self) -> int:
        return self._dice.getrandbits(64)

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        self.simulation.network.send(self, to, requests, answered)

    def _watch(self, key: bytes, before: KeyState, after: KeyState) -> None:
        judge = self.simulation.judge
        judge.stepped(self.id, key, before, after)
        self.store.when_durable(lambda: judge.durable(self.id, key, after))


Asked = NodeLife | OtherDatacenter
"""A process that clients and peers ask."""


class DatacenterNetwork:
    """Messages take a while, and some are lost until faults end. Those of one process to another may overtake each
    other."""

    def __init__(self, simulation: "DatacenterSimulation") -> None:
        plan = simulation.plan
        self.sent = 0
        self.loss = plan.loss
        self._simulation = simulation
        self._distance_us = plan.distance_us
        self._dice = Random(f"network/{plan.seed}")

    def after_a_while(self, action: Action, distance_us: int) -> None:
        self._simulation.world.after(distance_us + self._dice.randrange(1 + distance_us), action)

    def send(
        self, sender: Asked, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None
    ) -> None:
        self.sent += 1

        def reply(reply: Reply) -> None:
            if answered is not None and not self._is_lost():
                self.after_a_while(lambda: sender.run(lambda: answered(reply)), self._distance_us)

        def arrive() -> None:
            if to != ME:
                self._simulation.others[to].replica.handle(requests, reply)
                return
            life = self._simulation.gateway
            if life is not None and life.gateway is not None:
                life.run(partial(pass_on, life.gateway, requests, reply))

        if not self._is_lost():
            self.after_a_while(arrive, self._distance_us)

    def _is_lost(self) -> bool:
        return self._dice.random() < self.loss


def pass_on(gateway: Gateway, requests: Sequence[Request], answered: Callable[[Reply], None]) -> None:
    """Requests of one frame may be about keys of different owners. The reply to the last one counts."""

    def joined(replies: Sequence[Reply]) -> None:
        if len(replies) == len(requests):
            answered(replies[-1])

    gateway.dispatch(requests, joined)
