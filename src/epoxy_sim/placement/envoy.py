"""A simulated worker: the production worker protocol and SDK, on an event loop in virtual time, with the simulator's
connection and actor code."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from epoxy.actors.asks import Asks
from epoxy.actors.conversation import Conversation
from epoxy.client.envoy_protocol import Ended, EnvoyProtocol, WorkerRefused
from epoxy.client.hosted import ActorLink, ActorTask, Ending
from epoxy.client.hosted.link import WorkerTimer
from epoxy.client.watchdog import WatchedLoop
from epoxy.model.envoy_messages import (
    ActorKind,
    ActorRequest,
    EnvoyHello,
    FromEnvoy,
    Ping,
    Pong,
    Response,
    Start,
    ToEnvoy,
    Welcome,
)
from epoxy.protocol.placement.records import EnvoyId
from epoxy_sim.keys.machine import Life
from epoxy_sim.placement import workload
from epoxy_sim.placement.actor_code import SimCode
from epoxy_sim.placement.process import SimProcess
from epoxy_sim.placement.site import EPOCH_MS, Site
from epoxy_sim.placement.workload import ActorDoes, Form

if TYPE_CHECKING:
    from epoxy_sim.placement.simulation import PlacementSimulation

LATENCY_US = 500
"""Between a worker and its node, in one datacenter. Constant, so that messages stay in order."""

RETRY_US = 50_000

SUPERVISOR_US = 1_000_000
"""Until a process that has ended itself is started again."""

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
        asks = Asks(site.room.actors)
        self._conversation = Conversation(
            site.room.hosting, self, lambda envoy, asked: asks.ask(envoy, asked, self.send, lambda _name: None)
        )
        life.hang_ups.append(self.end)

    def send(self, message: ToEnvoy) -> None:
        """To the envoy."""
        self._note("is told", message)
        if isinstance(message, Start):
            self._envoy.simulation.states.starts(message)
        if isinstance(message, Start | ActorRequest):
            self._envoy.simulation.states.serves(self._envoy.site.id)
        self._later(lambda: self._envoy.process.run(lambda: self._envoy.hear(self, message)))

    def close(self, reason: str = "") -> None:  # noqa: ARG002
        """By the node. What it has sent still arrives."""
        self.end()

    def say(self, word: FromEnvoy) -> None:
        """To the node."""
        self._note("says", word)
        if isinstance(word, Response) and not word.error:
            self._envoy.simulation.states.leaves(workload.decode_report(word.body))
        self._later(lambda: self._life.run(lambda: self._conversation.heard(word)))

    def end(self) -> None:
        """Both sides learn of it; over a cut connection the node learns of it when it is mended."""
        if self._open:
            self._open = False
            self._world.after(LATENCY_US, lambda: self._envoy.process.run(lambda: self._envoy.lost(self)))
        if not self.cut and not self._node_knows:
            self._node_knows = True
            self._world.after(LATENCY_US, lambda: self._life.run(self._conversation.lost))

    def mend(self) -> None:
        if self.cut:
            self.cut = False
            self.end()

    def _note(self, verb: str, message: FromEnvoy | ToEnvoy) -> None:
        if self._world.trace is not None and not isinstance(message, Ping | Pong):
            self._world.note(f"{self._envoy.name} {verb} {message}")

    def _later(self, then: Callable[[], None]) -> None:
        if not self.cut and self._open:
            self._world.after(LATENCY_US, lambda: then() if not self.cut else None)


class SimEnvoy:
    """One process. `life` tells it from others with the same key."""

    def __init__(self, simulation: "PlacementSimulation", number: int, life: int, key_life: int) -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.site = simulation.sites[simulation.plan.envoys[number] - 1]
        self.number = number
        self.id = EnvoyId(simulation.pool.namespace, f"e{number}-{key_life}")
        self.name = f"{self.id.key}#{life}"
        self.wire: EnvoyWire | None = None
        self.dice = Random(f"envoy/{number}/{life}/{simulation.plan.seed}")
        self.process = SimProcess(self.world, simulation.plan.rates[number], self.dice)
        simulation.processes.append(self.process)
        self.codes: list[SimCode] = []
        self._cut: EnvoyWire | None = None
        hello = EnvoyHello(
            namespace=simulation.pool.namespace,
            pool=simulation.pool.name,
            envoy_key=self.id.key,
            slots=simulation.plan.slots,
            incarnation=self.name,
            kinds=tuple(ActorKind(name=form.value, local=form is Form.LOCAL) for form in Form),
        )
        self.protocol = EnvoyProtocol(hello, self, self._begin, self._left)
        self.protocol.end_process = self.end_process

    def start(self) -> None:
        self.process.run(self._begin_to_live)

    def _begin_to_live(self) -> None:
        self._watched = WatchedLoop(self.protocol.lease, self, self.process.boottime_ms)
        self._watch()
        self._connect()

    # The watchdog, whose thread goes on while the event loop is blocked

    def _watch(self) -> None:
        if (reason := self._watched.look()) is not None:
            self.end_process(reason)
        self.process.in_thread_later(1000 * self._watched.interval_s(), self._watch)

    def end_process(self, reason: str) -> None:
        self.world.note(f"{self.name}: {reason}")
        self.simulation.struck["watchdog"] += 1
        self.die()
        self.world.after(SUPERVISOR_US, lambda: self.simulation.supervise(self))

    def forget(self, watched: WatchedLoop) -> None:
        """It is watched until it dies."""

    @property
    def alive(self) -> bool:
        return self.process.alive

    @property
    def connected(self) -> bool:
        return self.protocol.connected

    def die(self) -> None:
        if not self.alive:
            return
        self.world.note(f"{self.name} ends")
        self.process.end()
        for code in list(self.codes):
            code.over()
        if self.wire is not None:
            self.wire.end()

    def leave(self) -> None:
        self.process.run(self.protocol.drain)

    def drain(self) -> None:
        """Half of them are told a second time, before their actors have moved."""
        self.leave()
        if self.number % 2:
            self.process.call_later(IMPATIENT_US / 1000, self.protocol.drain)

    def fail_actors(self) -> None:
        """By a request that fails them: the code of some ends, others answer with an error and go on."""
        body = workload.encode(workload.ActorTask(does=ActorDoes.FAIL, mark=""))
        for code in list(self.codes):
            actor_id, generation = code.start.actor_id, code.start.generation
            poison = ActorRequest(request_id=0, actor_id=actor_id, generation=generation, body=body)
            self.process.run(partial(self.protocol.heard, poison))

    # The connection

    def cut(self) -> None:
        """Its network is gone: the connection is dead, and no new one is made."""
        if self.wire is not None and self._cut is None:
            self._cut = self.wire
            self._cut.cut = True

    def mend(self) -> None:
        self.process.wake()
        if self._cut is not None:
            self._cut.mend()
            self._cut = None

    def _connect(self) -> None:
        if self.wire is not None:
            return
        life = self.site.life
        if life is None or self._cut is not None:
            self.process.call_later(RETRY_US / 1000, self._connect)
            return
        self.wire = wire = EnvoyWire(self, life, self.site)
        self.protocol.opened(wire.say, wire.end)

    def hear(self, wire: EnvoyWire, message: ToEnvoy) -> None:
        if self.wire is not wire:
            return
        try:
            if isinstance(message, Welcome):
                self._watched.turn()
            self.protocol.heard(message)
            if isinstance(message, Welcome):
                self._watched.turn()
        except WorkerRefused:
            self.die()

    def lost(self, wire: EnvoyWire) -> None:
        if self.wire is wire:
            self.wire = None
            self.protocol.closed()
            self.process.call_later(self.dice.randrange(RETRY_US) / 1000, self._connect)

    def _left(self) -> None:
        """The process ends when its goodbye has arrived."""
        self.world.after(2 * LATENCY_US, self.die)

    # Code

    def _begin(self, start: Start, link: ActorLink, ended: Ended) -> ActorTask:
        code = SimCode(self, start)

        def over(ending: Ending) -> None:
            code.over()
            ended(ending)

        self.codes.append(code)
        task = ActorTask(code.registered(), start, link, over, unix_ms=self.wall_ms)
        task.begin()
        return task

    def wall_ms(self) -> int:
        return EPOCH_MS + self.world.now_us // 1000

    # The clock of this process

    def now_ms(self) -> float:
        return self.process.boottime_ms()

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> WorkerTimer:
        return self.process.call_later(delay_ms, then)
