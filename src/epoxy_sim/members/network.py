"""The simulated network with the requests of a change of members, which travel beside those of keys."""

from collections.abc import Callable
from functools import partial

from epoxy.codec import wire
from epoxy.model.incarnation import Greeting
from epoxy.model.members import MemberReply, MemberRequest
from epoxy_sim.keys.machine import Life
from epoxy_sim.keys.network import Network
from epoxy_sim.keys.plan import FaultKind
from epoxy_sim.members.machine import MembersLife
from epoxy_sim.simulation import Violation
from epoxy_sim.trace_format import say

HandOver = Callable[..., None]
"""Takes the reply, and whether the source deleted rows that the reader still needed."""


class MembersNetwork(Network):
    def ask(self, life: MembersLife, to: int, request: MemberRequest, answered: Callable[[MemberReply], None]) -> None:
        if life.machine.life is not life:
            return
        waiting = [answered]

        def hand_over(reply: MemberReply, lost_rows: bool = False) -> None:
            if waiting and lost_rows:
                raise Violation("swept away", f"{self.machines[to].name} let go of rows that {life.machine.name} reads")
            if waiting:
                life.run(lambda: waiting.pop()(reply) if waiting else None)

        if self._world.trace is not None:
            self._world.note(f"{life.machine.name} -> {self.machines[to].name}: {say(request)}")
        request = wire.decode_member_request(wire.encode_member_request(request)) if self._encoded else request
        spoken = life.gate.greeting(to)
        self._travel(life.machine.id, to, lambda: self._answer(life, to, spoken, request, hand_over), 0.0)
        life.machine.spring(FaultKind.CRASH_ON_SEND)

    def _answer(
        self, sender: MembersLife, to: int, spoken: Greeting, request: MemberRequest, hand_over: HandOver
    ) -> None:
        def arrived(receiver: Life) -> None:
            assert isinstance(receiver, MembersLife)
            receiver.member.answer(request, partial(answer, receiver))

        def answer(receiver: MembersLife, reply: MemberReply) -> None:
            reply = wire.decode_member_reply(wire.encode_member_reply(reply)) if self._encoded else reply
            lost_rows = receiver.lost_rows(request, reply)
            self._return(sender, receiver, spoken, reply, lambda: hand_over(reply, lost_rows))

        self._reach(sender, to, spoken, arrived, hand_over)
