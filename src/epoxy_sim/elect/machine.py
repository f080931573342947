"""One machine: a clock, a disk, a server and an agent around the production elector."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Protocol

from epoxy.model.errors import ConfigError
from epoxy.protocol.elect.config import ElectConfig
from epoxy.protocol.elect.elector import Elector
from epoxy.protocol.elect.handshake import Party, party_of
from epoxy.protocol.elect.lists import Lists
from epoxy.protocol.elect.messages import Acceptance, Message
from epoxy.protocol.elect.operator_orders import Addressee, OperatorOrder, OrderDesk
from epoxy.protocol.elect.terms import Effect, ElectRecord, Follow, OpenServer, Order, Save, Send, ServerReport
from epoxy_sim.elect.server import Server

if TYPE_CHECKING:
    from epoxy_sim.elect.simulation import ElectSimulation

SLOW_ORDERS = 3
"""A slow order takes this fraction of `down_after_ms`."""

HUNG_US = 10_000
"""Interval between checks of a hung server, and of an agent that is about to end."""

SECRET = b"the secret of a simulated cluster"


class ElectorPort(Protocol):
    """What a machine needs of an elector, the production one or `AsDescribed`."""

    record: ElectRecord
    leading: bool

    @property
    def has_stepped_down(self) -> bool: ...

    def tick(self, now_ms: int) -> list[Effect]: ...
    def receive(self, message: Message, now_ms: int) -> list[Effect]: ...
    def report(self, report: ServerReport, now_ms: int) -> list[Effect]: ...
    def hand_over(self, heir: str, now_ms: int) -> str | None: ...
    def retire(self, now_ms: int) -> list[Effect]: ...
    def due_ms(self, now_ms: int) -> int: ...


class ElectMachine:
    """`life` counts the agent's starts, so that events of an earlier one do not reach this one."""

    elector_class: type[Elector] = Elector

    def __init__(self, cluster: "ElectSimulation", name: str, config: ElectConfig, rate: float) -> None:
        self.cluster = cluster
        self.name = name
        self.config = config
        self.life = 0
        self.up = False
        self.disk_full = False
        self.crashes_on_vote = False
        self.ending = False
        self.listed = any(node.id == name for node in config.nodes)
        """Whether an operator wants it to run."""
        self.record: ElectRecord | None = None
        self.agent: ElectorPort | None = None
        self.desk: OrderDesk | None = None
        self.server = Server(self)
        self._party: Party | None = None
        self._known: tuple[Lists | None, ElectConfig] = (None, config)
        self._rate = rate
        self._boot_us = 0
        self._paused = False
        self._waiting: list[Callable[[], None]] = []
        self._dice = Random(f"elect/{cluster.plan.seed}/{name}")
        self._orders = 0
        self._seen: ServerReport | None = None

    @property
    def party(self) -> Party:
        agent = self.agent
        lists = agent.lists if isinstance(agent, Elector) and agent.knows_lists else None
        if self._party is None or (lists, self.config) != self._known:
            self._known = lists, self.config
            self._party = party_of(self.config, self.name, (SECRET,), lists)
        return self._party

    def local_ms(self) -> int:
        return int((self.cluster.world.now_us - self._boot_us) * self._rate / 1000)

    def run(self, action: Callable[[], None]) -> None:
        if self._paused:
            self._waiting.append(action)
        else:
            action()

    # Faults and operations

    def given(self, config: ElectConfig) -> None:
        """A new file, read at the agent's next start."""
        self.config, self.listed = config, True

    def start(self) -> None:
        if not self.listed:
            return
        if not self.up:
            self.up = True
            self._boot_us = self.cluster.world.now_us
        if not self.server.alive:
            self.server.start()
        self.start_agent()

    def start_agent(self) -> None:
        if self.agent is not None or not self.up:
            return
        self.life += 1
        self._seen = None
        try:
            self.agent = self.elector_class(self.config, self.name, self.record, self.local_ms(), self._dice.randint)
        except ConfigError as refused:
            self.cluster.world.note(f"{self.name} does not start: {refused}")
            return
        self.desk = OrderDesk(Addressee(cluster=self.config.cluster, agent=self.name, life=str(self.life)))
        self._tick(self.life)

    def crash(self) -> None:
        self.up = False
        self.crash_agent()
        self.server.crash()

    def wipe(self) -> None:
        self.crash()
        self.record = None
        self.server.log = []
        self.cluster.judge.wiped(self.name)

    def crash_agent(self) -> None:
        self.agent = None
        self.ending = False
        self.life += 1
        self.cluster.network.drop_queues(self.name)

    def end_agent(self) -> None:
        if self.agent is not None and not self.ending:
            self.ending = True
            self._perform(self.agent.retire(self.local_ms()), self.life)
            self._leave(self.life)

    def _leave(self, life: int) -> None:
        """End as soon as it has stepped down. If it never does, it is killed when the fault ends."""
        if self.agent is None or life != self.life:
            return
        if self.agent.has_stepped_down:
            self.crash_agent()
        else:
            self.cluster.world.after(HUNG_US, lambda: self.run(lambda: self._leave(life)))

    def hang(self) -> None:
        self.server.hung = True

    def fill_disk(self) -> None:
        self.disk_full = True

    def crash_on_next_vote(self) -> None:
        self.crashes_on_vote = True

    def mend(self) -> None:
        self.disk_full = self.crashes_on_vote = self.server.hung = False
        self.resume()
        if self.ending:
            self.crash_agent()
        self.start()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            self.run(action)

    # The agent

    def receive(self, message: Message, life: int) -> None:
        if self.agent is not None and life == self.life:
            self._perform(self.agent.receive(message, self.local_ms()), life)

    def obey(self, order: OperatorOrder, proof: str) -> None:
        """An order arrives, perhaps not for the first time."""
        if self.agent is None or self.desk is None:
            return
        if self.desk.refusal(order, proof, (SECRET,), self.cluster.orders.wall_ms()) is None:
            self.cluster.judge.obeyed(self.name, order)
            self.agent.hand_over(order.target, self.local_ms())

    def _tick(self, life: int) -> None:
        if self.agent is None or life != self.life:
            return
        self._look(life)
        self._think(life)
        self._wait(life)

    def _wait(self, life: int) -> None:
        if self.agent is not None and life == self.life:
            pause_ms = self.agent.due_ms(self.local_ms()) - self.local_ms()
            self.cluster.world.after(int(1000 * pause_ms / self._rate) + 1, lambda: self.run(lambda: self._tick(life)))

    def _think(self, life: int) -> None:
        if self.agent is not None and life == self.life:
            self._perform(self.agent.tick(self.local_ms()), life)

    def _look(self, life: int) -> None:
        """Only a changed report is passed on: the server is observed with every tick."""
        report = self.server.report()
        if self.agent is not None and life == self.life and report != self._seen:
            self._seen = report
            self._perform(self.agent.report(report, self.local_ms()), life)

    def _perform(self, effects: list[Effect], life: int) -> None:
        """In order. If a record cannot be saved the agent ends at once, and no later effect happens."""
        judge = self.cluster.judge
        for effect in effects:
            match effect:
                case Save():
                    if self.disk_full:
                        self.crash_agent()
                        return
                    self.record = effect.record
                    if self.agent is not None and self.agent.leading and not self._was_leading(effect.record):
                        judge.led(self.name, effect.record.leader_epoch)
                    judge.saved(self.name, effect.record)
                case Send():
                    judge.sends(self.name, effect.message, self.record)
                    self.cluster.network.put(self, effect.to, effect.message)
                    if self.crashes_on_vote and isinstance(effect.message, Acceptance):
                        self._crash_and_restart()
                        return
                case _:
                    self._order(effect, life)

    def _crash_and_restart(self) -> None:
        self.crashes_on_vote = False
        self.crash_agent()
        self.start_agent()

    def _was_leading(self, record: ElectRecord) -> bool:
        return record.leader != self.name or record.leader_epoch < record.epoch

    def _order(self, order: Order, life: int) -> None:
        """The server carries out orders in sequence, after a delay. A prolonged lease needs no work of the server."""
        server = self.server
        if isinstance(order, OpenServer) and server.is_open:
            server.obey(order)
            return
        if isinstance(order, Follow | OpenServer):
            self.cluster.judge.ordered(self.name, order)
        self._orders += 1
        slow = self._dice.random() < self.cluster.network.weather.slow_order
        slow_us = 1000 * self.config.timing.down_after_ms // SLOW_ORDERS
        delay_us = slow_us if slow else self._dice.randint(100, 500)
        number = self._orders

        def carried_out() -> None:
            if not server.alive or self.life != life or number != self._orders:
                return
            if server.hung:
                self.cluster.world.after(HUNG_US, lambda: self.run(carried_out))
                return
            server.obey(order)
            self._look(life)

        self.cluster.world.after(delay_us, lambda: self.run(carried_out))
