"""The simulated network: it delays, loses, repeats and reorders, and never changes a message."""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from epoxy.codec import wire
from epoxy.model.messages import Commit, Failed, Reply, Request
from epoxy_sim.keys.machine import Life, Machine
from epoxy_sim.keys.plan import ClusterPlan, FaultKind, Weather
from epoxy_sim.trace_format import say
from epoxy_sim.world import World

CALM = Weather()

SHORTEST_US = 100
"""Between two machines in one building."""


class Network:
    def __init__(self, world: World, plan: ClusterPlan) -> None:
        self.machines: dict[int, Machine] = {}
        self.weather = plan.weather
        self.sent = 0
        self.incidents: Counter[str] = Counter()
        self._world = world
        self._dice = Random(f"network/{plan.seed}")
        self._encoded = plan.encoded
        self._blocked: set[tuple[int, int]] = set()
        self._places_us = [int(1000 * place) for place in plan.places]

    def block(self, senders: Sequence[int], receivers: Sequence[int]) -> None:
        self._blocked.update((a, b) for a in senders for b in receivers if a != b)

    def heal(self) -> None:
        self._blocked.clear()

    def calm(self) -> None:
        self.weather = CALM
        self.heal()

    def request(
        self, life: Life, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None
    ) -> None:
        """The way there. The answer, if the sender waits for one, is handed over once, however often it arrives."""
        if life.machine.life is not life:
            return
        requests = [self._over_the_wire(request) for request in requests] if self._encoded else requests
        waiting = [answered] if answered is not None else []

        def hand_over(reply: Reply) -> None:
            if waiting:
                life.run(lambda: waiting.pop()(reply) if waiting else None)

        def arrive() -> None:
            self._deliver(life, to, requests, hand_over)

        extra_loss = self.weather.commit_loss if answered is None and isinstance(requests[-1], Commit) else 0.0
        if self._world.trace is not None:
            self._world.note(f"{life.machine.name} -> {self.machines[to].name}: {'; '.join(map(say, requests))}")
        self._travel(life.machine.id, to, arrive, extra_loss)
        life.machine.spring(FaultKind.CRASH_ON_SEND)

    def _deliver(self, sender: Life, to: int, requests: Sequence[Request], hand_over: Callable[[Reply], None]) -> None:
        receiver = self._receiver(sender, to, hand_over)
        if receiver is None:
            return
        if not receiver.serves(requests):
            self._travel(to, sender.machine.id, lambda: hand_over(Failed(reason="not admitted yet")), 0.0)
            return

        def answer(reply: Reply) -> None:
            reply = wire.decode_reply(wire.encode_reply(reply)) if self._encoded else reply
            self._return(sender, receiver, reply, lambda: hand_over(reply))

        receiver.run(lambda: receiver.handle(requests, answer))

    def _receiver(self, sender: Life, to: int, hand_over: Callable[[Failed], None]) -> Life | None:
        """None: the request is refused, and the sender gets a `Failed`."""
        receiver = self.machines[to].life
        if receiver is not None and receiver.admits(sender):
            return receiver
        reason = "connection refused" if receiver is None else "another store is on record"
        self._travel(to, sender.machine.id, lambda: hand_over(Failed(reason=reason)), 0.0)
        return None

    def _return(self, sender: Life, receiver: Life, reply: object, hand_over: Callable[[], None]) -> None:
        """The way back. A reply of a store that is not the one on record is dropped."""
        if self._world.trace is not None:
            self._world.note(f"{sender.machine.name} <- {receiver.machine.name}: {say(reply)}")

        def arrive() -> None:
            if sender.machine.life is sender and sender.admits(receiver):
                sender.heard_from(receiver)
                hand_over()

        self._travel(receiver.machine.id, sender.machine.id, arrive, 0.0)

    def _travel(self, sender: int, to: int, arrive: Callable[[], None], extra_loss: float) -> None:
        """One way. A message is lost if the link is cut when it leaves or when it arrives."""
        self.sent += 1
        weather, dice = self.weather, self._dice
        if (sender, to) in self._blocked or dice.random() < weather.loss or dice.random() < extra_loss:
            self._lost(sender, to)
            return
        copies = 1
        if dice.random() < weather.duplicate:
            self.incidents["duplicated"] += 1
            copies = 2
        for _ in range(copies):
            self._world.after(self._delay_us(sender, to), lambda: self._unless_cut(sender, to, arrive))

    def _delay_us(self, sender: int, to: int) -> int:
        distance_us = abs(self._places_us[sender - 1] - self._places_us[to - 1])
        delay = (SHORTEST_US + distance_us) * (1 + self._dice.random() * self.weather.jitter)
        if self._dice.random() < self.weather.long_delay:
            self.incidents["delayed"] += 1
            delay *= self._dice.randint(5, 100)
        return int(delay)

    def _unless_cut(self, sender: int, to: int, arrive: Callable[[], None]) -> None:
        if (sender, to) in self._blocked:
            self._lost(sender, to)
        else:
            arrive()

    def _lost(self, sender: int, to: int) -> None:
        self.incidents["lost"] += 1
        if self._world.trace is not None:
            self._world.note(f"{self.machines[sender].name} -> {self.machines[to].name}: lost")

    def _over_the_wire(self, request: Request) -> Request:
        return wire.decode_request(wire.encode_request(request))
