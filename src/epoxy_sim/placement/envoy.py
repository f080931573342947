"""A simulated worker: the production worker protocol with the simulator's clock, connection and actor code."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from epoxy.actors.conversation import Conversation
from epoxy.client.envoy_protocol import Ended, EnvoyProtocol, WorkerRefused
from epoxy.client.hosted import Request
from epoxy.model.actors import EnvoyHello, FromEnvoy, Start, ToEnvoy
from epoxy.protocol.placement.records import EnvoyId
from epoxy_sim.keys.machine import Life
from epoxy_sim.placement.site import Site
from epoxy_sim.world import Event

if TYPE_CHECKING:
    from epoxy_sim.placement.simulation import PlacementSimulation

LATENCY_US = 500
"""Between a worker and its node, in one datacenter. Constant, so that messages stay in order."""

RETRY_US = 50_000

SLOWEST_STOP_US = 100_000
"""The slowest clean-up of an actor. Shorter than the time that the fence leaves for it."""

SLOW_CLEAN_UP = 3
"""In runs with slow clean-up, cancelled code takes up to this many thresholds to end."""

SLOWEST_ANSWER_US = 5_000

IMPATIENT_US = 20_000
"""Until a draining worker is told a second time to leave, at once."""


class EnvoyWire:
    """One connection with the node's conversation at its end. `cut`: nothing arrives, and neither side knows."""

    def __init__(self, envoy: "SimEnvoy", life: Life, site: Site) -> None:
        self.cut = False
        self._envoy = envoy
        self._life = life
        self._world = site.world
        self._open = True
        self._node_knows = False
        self._conversation = Conversation(site.room.hosting, self)
        life.hang_ups.append(self.end)

    def send(self, message: ToEnvoy) -> None:
        """To the envoy."""
        self._later(lambda: self._envoy.hear(self, message))

    def close(self, reason: str = "") -> None:  # noqa: ARG002
        """By the node. What it has sent still arrives."""
        self.end()

    def say(self, word: FromEnvoy) -> None:
        """To the node."""
        self._later(lambda: self._life.run(lambda: self._conversation.heard(word)))

    def end(self) -> None:
        """Both sides learn of it; over a cut connection the node learns of it when it is mended."""
        if self._open:
            self._open = False
            self._world.after(LATENCY_US, lambda: self._envoy.lost(self))
        if not self.cut and not self._node_knows:
            self._node_knows = True
            self._world.after(LATENCY_US, lambda: self._life.run(self._conversation.lost))

    def mend(self) -> None:
        if self.cut:
            self.cut = False
            self.end()

    def _later(self, then: Callable[[], None]) -> None:
        if not self.cut and self._open:
            self._world.after(LATENCY_US, lambda: then() if not self.cut else None)


class SimActor:
    """The code of an actor: it answers one request after the other, and takes some time to end."""

    def __init__(self, envoy: "SimEnvoy", start: Start, ended: Ended) -> None:
        self._envoy = envoy
        self._start = start
        self._ended = ended
        self._queue: list[Request] = []
        self._finishing = False
        self._over = False
        envoy.simulation.judge.runs(start, envoy.process)

    def ask(self, request: Request) -> None:
        self._queue.append(request)
        if len(self._queue) == 1:
            self._look()

    def finish(self) -> None:
        self._finishing = True
        if not self._queue:
            self._end_soon(failed=False)

    def cancel(self) -> None:
        plan = self._envoy.simulation.plan
        self._envoy.simulation.judge.interrupted += 1
        slowest_us = SLOW_CLEAN_UP * 1000 * plan.threshold_ms if plan.slow_clean_up else SLOWEST_STOP_US
        self._end_soon(failed=True, slowest_us=slowest_us)

    def fail(self) -> None:
        if not self._over:
            self._envoy.simulation.judge.failures[self._start.actor_id] += 1
            self._end(failed=True)

    def vanish(self) -> None:
        """Together with its process: its worker is not notified."""
        if not self._over:
            self._over = True
            self._envoy.simulation.judge.stops(self._start)

    def _look(self) -> None:
        """From here on the code has seen the request."""
        self._envoy.simulation.judge.ran(self._queue[0].body)
        self._envoy.after_us(self._envoy.dice.randrange(SLOWEST_ANSWER_US), self._answer)

    def _answer(self) -> None:
        if self._over:
            return
        self._queue[0].respond(self._queue[0].body)
        del self._queue[0]
        if self._queue:
            self._look()
        elif self._finishing:
            self._end_soon(failed=False)

    def _end_soon(self, *, failed: bool, slowest_us: int = SLOWEST_STOP_US) -> None:
        self._envoy.after_us(self._envoy.dice.randrange(slowest_us), lambda: self._end(failed=failed))

    def _end(self, *, failed: bool) -> None:
        if self._over:
            return
        self.vanish()
        for seen, request in enumerate(self._queue):
            if seen == 0:
                request.fail("the actor did not answer")
            else:
                request.refuse("the actor has ended")
        self._envoy.forget(self._start)
        self._ended(failed)


class SimEnvoy:
    """One process. `life` tells it from others with the same key."""

    def __init__(self, simulation: "PlacementSimulation", number: int, life: int, key_life: int) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.site = simulation.sites[simulation.plan.envoys[number] - 1]
        self.number = number
        self.id = EnvoyId(simulation.pool.namespace, f"e{number}-{key_life}")
        self.process = f"{self.id.key}#{life}"
        self.alive = True
        self.wire: EnvoyWire | None = None
        self._cut: EnvoyWire | None = None
        self.dice = Random(f"envoy/{number}/{life}/{simulation.plan.seed}")
        self._rate = simulation.plan.rates[number]
        self._actors: dict[str, SimActor] = {}
        hello = EnvoyHello(
            namespace=simulation.pool.namespace,
            pool=simulation.pool.name,
            envoy_key=self.id.key,
            slots=simulation.plan.slots,
            incarnation=self.process,
        )
        self.protocol = EnvoyProtocol(hello, self, self._begin, self._left)

    def start(self) -> None:
        self._connect()

    @property
    def connected(self) -> bool:
        return self.protocol.connected

    def die(self) -> None:
        self.alive = False
        for actor in self._actors.values():
            actor.vanish()
        if self.wire is not None:
            self.wire.end()

    def drain(self) -> None:
        """Half of them are told a second time, before their actors have moved."""
        if self.alive:
            self.protocol.drain()
            if self.number % 2:
                self.after_us(IMPATIENT_US, self.protocol.drain)

    def fail_actors(self) -> None:
        for actor in list(self._actors.values()):
            actor.fail()

    # The connection

    def cut(self) -> None:
        """Its network is gone: the connection is dead, and no new one is made."""
        if self.wire is not None and self._cut is None:
            self._cut = self.wire
            self._cut.cut = True

    def mend(self) -> None:
        if self._cut is not None:
            self._cut.mend()
            self._cut = None

    def _connect(self) -> None:
        if not self.alive or self.wire is not None:
            return
        life = self.site.life
        if life is None or self._cut is not None:
            self.world.after(RETRY_US, self._connect)
            return
        self.wire = wire = EnvoyWire(self, life, self.site)
        self.protocol.opened(wire.say, wire.end)

    def hear(self, wire: EnvoyWire, message: ToEnvoy) -> None:
        if not self.alive or self.wire is not wire:
            return
        try:
            self.protocol.heard(message)
        except WorkerRefused:
            self.die()

    def lost(self, wire: EnvoyWire) -> None:
        if self.alive and self.wire is wire:
            self.wire = None
            self.protocol.closed()
            self.world.after(self.dice.randrange(RETRY_US), self._connect)

    def _left(self) -> None:
        """The process ends when its goodbye has arrived."""
        self.world.after(2 * LATENCY_US, self.die)

    # Code

    def _begin(self, start: Start, ended: Ended) -> SimActor:
        actor = self._actors[start.actor_id] = SimActor(self, start, ended)
        if self.simulation.code_fails:
            self.after_us(self.dice.randrange(SLOWEST_ANSWER_US), actor.fail)
        return actor

    def forget(self, start: Start) -> None:
        del self._actors[start.actor_id]

    # The clock of this process

    def now_ms(self) -> float:
        return self.world.now_us * self._rate / 1000

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> Event:
        return self.after_us(int(1000 * delay_ms / self._rate), then)

    def after_us(self, delay_us: int, then: Callable[[], None]) -> Event:
        return self.world.after(delay_us, lambda: then() if self.alive else None)
