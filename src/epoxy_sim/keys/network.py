"""The simulated network: it delays, loses, repeats and reorders, and never changes a message."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random

from epoxy.codec import wire
from epoxy.codec.plain_requests import Incoming, read_peer_request
from epoxy.model.incarnation import Greeting
from epoxy.model.members import FastVotesRead, MemberReply
from epoxy.model.messages import Carry, CarryAnswers, Commit, Failed, Reply, Request
from epoxy_sim.keys.machine import Life, Machine
from epoxy_sim.keys.plan import ClusterPlan, FaultKind, Weather
from epoxy_sim.simulation import Violation
from epoxy_sim.trace_format import say
from epoxy_sim.world import World

CALM = Weather()

SHORTEST_US = 100
"""Between two machines in one building."""

LATE_US = (200_000, 8_000_000)
"""How late a carried write may be: past every window of the engine, an owner hint's 3 s included."""

BOOT_LIMIT_US = 10_000_000
"""A first start takes a few syncs."""


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

        spoken = life.gate.greeting(to)

        def arrive() -> None:
            self._deliver(life, to, spoken, requests, hand_over)

        extra_loss = self.weather.commit_loss if answered is None and isinstance(requests[-1], Commit) else 0.0
        if self._world.trace is not None:
            self._world.note(f"{life.machine.name} -> {self.machines[to].name}: {'; '.join(map(say, requests))}")
        is_lost = isinstance(requests[-1], Carry | CarryAnswers) and self._carry_goes_astray(
            life.machine.id, to, arrive
        )
        if not is_lost:
            self._travel(life.machine.id, to, arrive, extra_loss, requests)
        life.machine.spring(FaultKind.CRASH_ON_SEND)

    def ask_fast_votes(
        self, life: Life, to: int, request: FastVotesRead, answered: Callable[[MemberReply], None]
    ) -> None:
        if life.machine.life is not life:
            return
        spoken = life.gate.greeting(to)

        def arrived(receiver: Life) -> None:
            receiver.tell_fast_votes(request, partial(told, receiver))

        def told(receiver: Life, reply: MemberReply) -> None:
            reply = wire.decode_member_reply(wire.encode_member_reply(reply)) if self._encoded else reply
            self._return(life, receiver, spoken, reply, lambda: answered(reply))

        if self._world.trace is not None:
            self._world.note(f"{life.machine.name} -> {self.machines[to].name}: {say(request)}")
        self._travel(life.machine.id, to, lambda: self._reach(life, to, spoken, arrived, answered), 0.0)

    def greet(self, life: Life, to: int) -> None:
        """A probe: a request without contents. Its answer leaves when the greeting is recorded durably."""
        spoken = life.gate.greeting(to)

        def greeted(receiver: Life) -> None:
            receiver.store.when_durable(lambda: self._return(life, receiver, spoken, "hello", lambda: None))

        self._travel(life.machine.id, to, lambda: self._reach(life, to, spoken, greeted, lambda _: None), 0.0)

    def introduce(self, members: Iterable[int]) -> None:
        """When a run begins these machines have been up for a while: their starts are durable, and known to the others.
        Time begins after that."""
        lives = [life for i in members if (life := self.machines[i].life) is not None]
        self._world.run_until(lambda: all(life.gate.is_open for life in lives), BOOT_LIMIT_US)
        durable: list[Life] = []
        for one in lives:
            one.is_starting = True
            for other in lives:
                if one is not other:
                    assert one.admits(other, other.gate.greeting(one.machine.id)) is None
                    one.gate.answered(other.machine.id)
            one.store.when_durable(partial(durable.append, one))
        self._world.run_until(lambda: len(durable) == len(lives), BOOT_LIMIT_US)
        for one in lives:
            one.is_starting = False
        self._world.begin_here()

    def is_cleared(self) -> bool:
        """Whether every process that is a member votes, or is refused; and none is forgetful, if none is refused, whose
        answer it would want."""
        lives = [machine.life for machine in self.machines.values() if machine.life is not None]
        members = [life for life in lives if life.replica.config.info(life.machine.id) is not None]
        if any(life.is_forgetful for life in members) and not any(life.gate.refused for life in members):
            return len(members) < len(self.machines)
        return all(life.gate.may_vote or life.gate.refused for life in members)

    def judge_refusals(self) -> None:
        """Stores that are not what they were are refused in the end, and no others. Of two copies that were started one
        may be."""
        for machine in self.machines.values():
            honest = machine.is_original or not (machine.went_back or machine.copies)
            if honest and machine.life is not None and machine.life.gate.refused:
                raise Violation("refused without a cause", f"{machine.name}: {machine.life.gate.refused}")
            if machine.went_back and not machine.is_refused:
                raise Violation("not refused", f"the disk of {machine.name} went back, and all have met it")

    def hung_up(self, ended: Life) -> None:
        for machine in self.machines.values():
            for each in (machine, *machine.copies):
                if each.life is not None:
                    each.life.hung_up(ended)

    def _deliver(
        self, sender: Life, to: int, spoken: Greeting, requests: Sequence[Request], hand_over: Callable[[Reply], None]
    ) -> None:
        def arrived(receiver: Life) -> None:
            if receiver.gate.serves(requests):
                receiver.handle(as_they_arrive(requests) if self._encoded else requests, partial(answer, receiver))
            else:
                self._travel(to, sender.machine.id, lambda: hand_over(Failed(reason="not admitted yet")), 0.0)

        def answer(receiver: Life, reply: Reply) -> None:
            reply = wire.decode_reply(wire.encode_reply(reply)) if self._encoded else reply
            self._return(sender, receiver, spoken, reply, lambda: hand_over(reply))

        self._reach(sender, to, spoken, arrived, hand_over)

    def _reach(
        self,
        sender: Life,
        to: int,
        spoken: Greeting,
        arrived: Callable[[Life], None],
        hand_over: Callable[[Failed], None],
    ) -> None:
        """Unless the request is refused: then the sender gets a `Failed`, and learns what the receiver remembers."""
        receiver, back = self.machines[to].life, sender.machine.id
        if receiver is None:
            self._travel(to, back, lambda: hand_over(Failed(reason="connection refused")), 0.0)
            return

        def handle() -> None:
            mismatch = receiver.admits(sender, spoken)
            if mismatch is None and receiver.gate.refused:
                raise Violation("a refused store takes part", f"{receiver.machine.name} hears {sender.machine.name}")
            if mismatch is None:
                arrived(receiver)
                return
            greeting = receiver.gate.greeting(back)

            def refused() -> None:
                sender.run(lambda: sender.refused_by(receiver, greeting, mismatch))
                hand_over(Failed(reason=mismatch.words))

            self._travel(to, back, refused, 0.0)

        receiver.run(handle)

    def _return(
        self, sender: Life, receiver: Life, spoken: Greeting, reply: object, hand_over: Callable[[], None]
    ) -> None:
        """The way back. A reply of a start that is not the one on record is dropped."""
        if self._world.trace is not None:
            self._world.note(f"{sender.machine.name} <- {receiver.machine.name}: {say(reply)}")
        greeting = receiver.gate.greeting(sender.machine.id)

        def heard() -> None:
            if sender.admits(receiver, greeting, spoken.known) is None:
                sender.gate.answered(receiver.machine.id)
                if len(self.machines[sender.machine.id].voting) > 1:
                    raise Violation("two processes vote", f"both copies of the store of {sender.machine.name}")
                hand_over()

        self._travel(receiver.machine.id, sender.machine.id, lambda: sender.run(heard), 0.0, reply)

    def _travel(
        self,
        sender: int,
        to: int,
        arrive: Callable[[], None],
        extra_loss: float,
        freight: object = None,  # noqa: ARG002
    ) -> None:
        """One way. A message is lost if the link is cut when it leaves or when it arrives. `freight`: its requests, or
        its reply, for a network that shows them."""
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

    def _carry_goes_astray(self, sender: int, to: int, arrive: Callable[[], None]) -> bool:
        """Carried writes may come again after seconds, come late by seconds alone, or never."""
        weather, dice = self.weather, self._dice
        if weather.carry_loss and dice.random() < weather.carry_loss:
            self._lost(sender, to)
            return True
        is_late = weather.carry_late and dice.random() < weather.carry_late
        if is_late or (weather.carry_again and dice.random() < weather.carry_again):
            self.incidents["delayed" if is_late else "duplicated"] += 1
            self._world.after(dice.randrange(*LATE_US), lambda: self._unless_cut(sender, to, arrive))
        return bool(is_late)

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


def as_they_arrive(requests: Sequence[Request]) -> Sequence[Incoming]:
    """As a frame brings them: plain ones stay encoded."""
    frame = wire.join_peer_request(1, 2, len(requests), [wire.encode_requests(requests)])
    return read_peer_request(frame)[2]
