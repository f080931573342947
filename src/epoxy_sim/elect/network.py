"""The simulated control network: ordered connections that break, each behind a production send queue."""

from random import Random
from typing import TYPE_CHECKING

from epoxy.protocol.elect.handshake import Party
from epoxy.protocol.elect.messages import Announce, Message
from epoxy.protocol.elect.send_queue import SendQueue
from epoxy_sim.elect.admission import admits
from epoxy_sim.elect.judge import ElectJudge
from epoxy_sim.elect.plan import ElectPlan, ElectWeather
from epoxy_sim.elect.tampering import TappedLink
from epoxy_sim.world import World

if TYPE_CHECKING:
    from epoxy_sim.elect.machine import ElectMachine

CALM = ElectWeather()
NOTICED_US = 100_000
"""Silence after which a leader considers a follower gone."""
Way = tuple[str, str]
Cut = tuple[frozenset[str], frozenset[str], bool]
"""Senders, receivers, and whether their servers are cut off too."""


class ElectNetwork:
    def __init__(self, world: World, plan: ElectPlan, judge: ElectJudge) -> None:
        self.weather = plan.weather
        self.sent = 0
        self.machines: dict[str, ElectMachine] = {}
        self._world = world
        self._judge = judge
        self._dice = Random(f"elect/network/{plan.seed}")
        self._encoded = plan.encoded
        self._blocked: list[Cut] = []
        self._queues: dict[Way, SendQueue] = {}
        self._links: dict[Way, TappedLink] = {}
        self._tap = Random(f"elect/tap/{plan.seed}")
        self._admitted: dict[tuple[Party, Party], bool] = {}
        self._last_us: dict[tuple[str, str, str], int] = {}

    def block(self, senders: frozenset[str], receivers: frozenset[str], *, data: bool = True) -> Cut:
        """A server that streams into it notices after a while, as a real one does by the age of the last
        acknowledgement."""
        self._blocked.append((senders, receivers, data))
        self._world.after(NOTICED_US, self._notice)
        return self._blocked[-1]

    def _notice(self) -> None:
        for machine in self.machines.values():
            machine.server.notice()

    def unblock(self, blocked: Cut) -> None:
        if blocked in self._blocked:
            self._blocked.remove(blocked)

    def calm(self) -> None:
        self.weather = CALM
        self._blocked.clear()

    def open_way(self, sender: "ElectMachine", receiver: "ElectMachine") -> bool:
        """Between servers."""
        return not any(data and sender.name in a and receiver.name in b for a, b, data in self._blocked)

    def _heard(self, sender: "ElectMachine", receiver: "ElectMachine") -> bool:
        """Between agents."""
        return not any(sender.name in a and receiver.name in b for a, b, _ in self._blocked)

    def connected(self, one: "ElectMachine", other: "ElectMachine") -> bool:
        return self.open_way(one, other) and self.open_way(other, one)

    def delay_us(self) -> int:
        return int(self.weather.delay_us * (1 + self._dice.random() * self.weather.jitter))

    def stream_delay_us(self, leader: "ElectMachine", follower: "ElectMachine") -> int:
        return self._in_order(("data", leader.name, follower.name))

    def put(self, sender: "ElectMachine", to: str, message: Message) -> None:
        """Into the send queue, and out of it as far as the connection takes it."""
        queue = self._queues.setdefault((sender.name, to), SendQueue())
        queue.put(message)
        if isinstance(message, Announce):
            self._judge.announced(sender.name, to, message, queue)
        self._flush(sender, to, queue)

    def drop_queues(self, sender: str) -> None:
        """Called when the sending process ends."""
        for way in [way for way in self._queues if way[0] == sender]:
            del self._queues[way]

    def _flush(self, sender: "ElectMachine", to: str, queue: SendQueue) -> None:
        receiver = self.machines[to]
        cut = not self._heard(sender, receiver)
        if not self._is_admitted(sender, receiver) or (cut and self._dice.random() < 0.5):
            return
        for message in queue.take():
            self.sent += 1
            lost = cut or self._dice.random() < self.weather.loss
            if self._world.trace is not None:
                self._judge.told(sender, to, message, lost)
            if lost:
                self._link((sender.name, to)).lose()
            else:
                for believed in self._over_the_wire(sender, receiver, message):
                    self._deliver(sender, receiver, believed)

    def _deliver(self, sender: "ElectMachine", receiver: "ElectMachine", message: Message) -> None:
        life = receiver.life

        def arrive() -> None:
            if self._heard(sender, receiver) and receiver.life == life:
                receiver.run(lambda: receiver.receive(message, life))

        self._world.after(self._in_order(("control", sender.name, receiver.name)), arrive)

    def _in_order(self, way: tuple[str, str, str]) -> int:
        arrives_us = max(self._world.now_us + self.delay_us(), self._last_us.get(way, 0))
        self._last_us[way] = arrives_us
        return arrives_us - self._world.now_us

    def _is_admitted(self, sender: "ElectMachine", receiver: "ElectMachine") -> bool:
        ends = (sender.party, receiver.party)
        if ends not in self._admitted:
            self._admitted[ends] = admits(*ends)
        return self._admitted[ends]

    def _over_the_wire(self, sender: "ElectMachine", receiver: "ElectMachine", message: Message) -> list[Message]:
        if not self._encoded:
            return [message]
        link, ends = self._link((sender.name, receiver.name)), (sender.party, receiver.party)
        return link.carry(message, ends, self.weather.tampering)

    def _link(self, way: Way) -> TappedLink:
        if way not in self._links:
            self._links[way] = TappedLink(self._tap)
        return self._links[way]

    @property
    def tampered(self) -> int:
        return sum(link.tampered for link in self._links.values())
