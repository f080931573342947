"""A simulated worker. It does what the SDK does: it runs what it is told to run, pings, and stops by itself before its
node may take it for lost."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, assert_never

from epoxy.model.actors import (
    Draining,
    FromEnvoy,
    Goodbye,
    Held,
    Hello,
    Ping,
    Pong,
    Rejected,
    Request,
    Running,
    Start,
    Stop,
    Stopped,
    ToEnvoy,
    Welcome,
    parse_id,
)
from epoxy.placement.records import EnvoyId
from epoxy.sim.machine import Life
from epoxy.sim.placement.site import Site

if TYPE_CHECKING:
    from epoxy.sim.placement.simulation import Simulation

LATENCY_US = 500
"""Between a worker and its node: one building. Constant, so that what is said first is heard first."""

RETRY_US = 50_000
SLOWEST_STOP_US = 100_000


class Wire:
    """One connection, and the node's Session at its end. `cut`: nothing arrives, and nobody knows."""

    def __init__(self, envoy: "SimEnvoy", life: Life, site: Site) -> None:
        self.cut = False
        self._envoy = envoy
        self._life = life
        self._site = site
        self._open = True
        self._known: EnvoyId | None = None
        life.farewells.append(self.end)

    def send(self, message: ToEnvoy) -> None:
        """To the envoy."""
        self._later(lambda: self._envoy.hear(self, message))

    def close(self) -> None:
        """By the node."""
        self.end()

    def say(self, word: FromEnvoy) -> None:
        """To the node."""
        self._later(lambda: self._life.run(lambda: self._take(word)))

    def end(self) -> None:
        """Both sides learn of it."""
        if self._open:
            self._open = False
            world = self._site.world
            world.after(LATENCY_US, lambda: self._envoy.lost(self))
            world.after(LATENCY_US, lambda: self._life.run(self._disconnected))

    def _disconnected(self) -> None:
        if self._known is not None:
            self._site.room.hosting.disconnected(self._known, self)

    def _later(self, then: Callable[[], None]) -> None:
        if not self.cut:
            self._site.world.after(LATENCY_US, lambda: then() if self._open and not self.cut else None)

    def _take(self, word: FromEnvoy) -> None:
        """As `server.envoy_session` does."""
        hosting = self._site.room.hosting
        if isinstance(word, Hello):
            self._known = hosting.connect(word, self)
        elif self._known is not None and hosting.sessions.get(self._known) is self:
            self._obey(self._known, word)

    def _obey(self, envoy: EnvoyId, word: FromEnvoy) -> None:
        hosting = self._site.room.hosting
        match word:
            case Ping():
                known = hosting.ping(envoy, word.rtt_ms)
                self.send(Pong(sent_ms=word.sent_ms) if known else Rejected(message="expired", expired=True))
            case Running():
                hosting.running(envoy, parse_id(word.actor_id), word.generation)
            case Stopped():
                hosting.stopped(envoy, parse_id(word.actor_id), word.generation, failed=word.failed)
            case Draining():
                hosting.drain(envoy)
            case Goodbye():
                hosting.leave(envoy, self)
            case _:
                raise AssertionError(word)


class SimEnvoy:
    """One process. When it is gone another takes its place, under another key."""

    def __init__(self, simulation: "Simulation", number: int, life: int) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.site = simulation.sites[simulation.plan.envoys[number] - 1]
        self.number = number
        self.id = EnvoyId(simulation.pool.namespace, f"e{number}-{life}")
        self.rate = simulation.plan.rates[number]
        self.actors: dict[str, int] = {}
        self.alive = True
        self.draining = False
        self.wire: Wire | None = None
        self._welcome: Welcome | None = None
        self._said_hello_us = self._acknowledged_us = self._timer = 0
        self._dice = Random(f"envoy/{number}/{life}/{simulation.plan.seed}")

    def start(self) -> None:
        self._connect()
        self._guard()

    @property
    def connected(self) -> bool:
        return self.wire is not None and self._welcome is not None

    def die(self) -> None:
        self.alive = False
        for actor_id in list(self.actors):
            self._end(actor_id)
        if self.wire is not None:
            self.wire.end()

    def drain(self) -> None:
        self.draining = True
        self._say(Draining())
        self._leave_if_empty()

    def fail_actors(self) -> None:
        for actor_id, generation in list(self.actors.items()):
            self._end(actor_id)
            self._say(Stopped(actor_id=actor_id, generation=generation, failed=True))

    def lost(self, wire: Wire) -> None:
        if self.alive and self.wire is wire:
            self.wire = self._welcome = None
            self.world.after(self._dice.randrange(RETRY_US), self._connect)

    # What the node says

    def hear(self, wire: Wire, message: ToEnvoy) -> None:
        if not self.alive or self.wire is not wire:
            return
        match message:
            case Welcome():
                self._welcome = message
                self._acknowledged_us = self._said_hello_us
                self._last_welcome = message
                self._say(Draining() if self.draining else Ping(sent_ms=self.world.now_us // 1000))
                self._ping(wire)
            case Pong():
                self._acknowledged_us = max(self._acknowledged_us, message.sent_ms * 1000)
            case Start():
                self._start(message)
            case Stop():
                self._stop(message)
            case Rejected():
                wire.end()
            case Request():
                pass
            case _:
                assert_never(message)

    def _connect(self) -> None:
        if not self.alive or self.wire is not None:
            return
        life = self.site.life
        if life is None:
            self.world.after(RETRY_US, self._connect)
            return
        self.wire = wire = Wire(self, life, self.site)
        self._said_hello_us = self.world.now_us
        plan, pool = self.simulation.plan, self.simulation.pool
        held = tuple(Held(actor_id, generation) for actor_id, generation in self.actors.items())
        wire.say(Hello(namespace=pool.namespace, pool=pool.name, envoy_key=self.id.key, slots=plan.slots, running=held))
        self.world.after(1000 * plan.threshold_ms, lambda: wire.end() if self._welcome is None else None)

    def _ping(self, wire: Wire) -> None:
        if self.alive and self.wire is wire and self._welcome is not None:
            self._say(Ping(sent_ms=self.world.now_us // 1000))
            self._after_ms(self._welcome.ping_every_ms, lambda: self._ping(wire))

    def _start(self, start: Start) -> None:
        held = self.actors.get(start.actor_id)
        if held is None or held < start.generation:
            if held is not None:
                self._end(start.actor_id)
            self.actors[start.actor_id] = start.generation
            self.simulation.judge.runs(start.actor_id, self.id.key)
        self._say(Running(actor_id=start.actor_id, generation=self.actors[start.actor_id]))

    def _stop(self, stop: Stop) -> None:
        if self.actors.get(stop.actor_id, stop.generation + 1) <= stop.generation:
            generation = self.actors[stop.actor_id]
            delay_us = self._dice.randrange(SLOWEST_STOP_US)
            self.world.after(delay_us, lambda: self._stopped(stop.actor_id, generation))
        elif stop.actor_id not in self.actors:
            self._say(Stopped(actor_id=stop.actor_id, generation=stop.generation))

    def _stopped(self, actor_id: str, generation: int) -> None:
        if self.alive and self.actors.get(actor_id) == generation:
            self._end(actor_id)
            self._say(Stopped(actor_id=actor_id, generation=generation))
            self._leave_if_empty()

    def _leave_if_empty(self) -> None:
        if self.draining and not self.actors and self.connected:
            self._say(Goodbye())
            self.world.after(2 * LATENCY_US, self.die)

    def _guard(self) -> None:
        """The fence: an envoy that is not answered stops before anybody else starts."""
        if not self.alive:
            return
        plan = self.simulation.plan
        if self._is_cut_off(plan.threshold_ms):
            for actor_id, generation in list(self.actors.items()):
                self._end(actor_id)
                self._say(Stopped(actor_id=actor_id, generation=generation, failed=True))
        self._after_ms(plan.threshold_ms / 40, self._guard)

    def _is_cut_off(self, threshold_ms: int) -> bool:
        welcome = getattr(self, "_last_welcome", None)
        limit_ms = welcome.lost_after_ms if welcome is not None else threshold_ms
        return (self.world.now_us - self._acknowledged_us) * self.rate > 1000 * limit_ms

    def _end(self, actor_id: str) -> None:
        del self.actors[actor_id]
        self.simulation.judge.stops(actor_id, self.id.key)

    def _say(self, word: FromEnvoy) -> None:
        """The hello was the first word; what has changed since it is said behind it."""
        if self.wire is not None:
            self.wire.say(word)

    def _after_ms(self, delay_ms: float, then: Callable[[], None]) -> None:
        self.world.after(int(1000 * delay_ms / self.rate), then)
