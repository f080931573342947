"""Operators that ask for other members, and how far a change has come."""

from collections.abc import Sequence

from epoxy.codec import wire
from epoxy.model.cluster import CHANGE_REQUEST_KEY, ClusterConfig
from epoxy.model.members import ChangeRequest, Member
from epoxy.model.writes import Committed, Outcome
from epoxy_sim.keys.judge import Judge
from epoxy_sim.keys.machine import Machine
from epoxy_sim.keys.plan import MembersChangePlan
from epoxy_sim.members.machine import MembersLife
from epoxy_sim.trace_format import letters
from epoxy_sim.world import World

REPEAT_US = 300_000
"""Until an operator without an acknowledgement asks again."""

LOOK_US = 50_000
"""Between two checks of whether a change is through."""


class MembersOperator:
    """Asks for members until the request is committed."""

    def __init__(self, plan: MembersChangePlan, machines: Sequence[Machine], world: World) -> None:
        self.acknowledged = False
        self._plan = plan
        self._machines = [*machines[plan.home - 1 :], *machines[: plan.home - 1]]
        self._world = world

    def start(self) -> None:
        self._world.after(self._plan.at_us, self._ask)

    def _ask(self) -> None:
        if self.acknowledged:
            return
        self._world.after(REPEAT_US, self._ask)
        lives = [each.life for each in self._machines if isinstance(each.life, MembersLife)]
        life = next((each for each in lives if each.votes), None)
        if life is None:
            return
        self._world.note(f"the operator asks {life.machine.name} for {letters(self._plan.members)}")
        request = ChangeRequest(members=tuple(Member(id=i) for i in self._plan.members))
        life.run(lambda: life.member.request_change(request, self._answered))

    def _answered(self, outcome: Outcome) -> None:
        self.acknowledged = self.acknowledged or isinstance(outcome, Committed)


class MembersChange:
    """Through when every request is committed and the newest configuration has the members of the last one."""

    def __init__(
        self, operators: list[MembersOperator], machines: Sequence[Machine], judge: Judge, world: World
    ) -> None:
        self.is_through = not operators
        self.gaps = ""
        """Which members lack what others hold, in words."""
        self._operators = operators
        self._machines = machines
        self._judge = judge
        self._world = world

    def watch(self) -> None:
        self.is_through = self._has_come()
        if not self.is_through:
            self._world.after(LOOK_US, self.watch)

    def compare(self) -> None:
        """Members repair by themselves what they have missed. One whose disk was lost is no longer a member."""
        lives = [life for i in self.newest().active if (life := self._machines[i - 1].life) is not None and life.votes]
        keys = self._judge.decided_keys()
        held = {life.machine.id: [life.replica.version(key) for key in keys] for life in lives}
        newest = [max(versions) for versions in zip(*held.values(), strict=True)]
        behind = tuple(i for i, versions in held.items() if versions != newest)
        self.gaps = f"{letters(behind)} lack what others hold" if behind else ""
        if self.gaps:
            self._world.after(LOOK_US, self.compare)

    def newest(self) -> ClusterConfig:
        lives = (machine.life for machine in self._machines)
        return max((life.replica.config for life in lives if life is not None), key=lambda config: config.epoch)

    def _has_come(self) -> bool:
        asked = self._judge.decided(CHANGE_REQUEST_KEY)
        if asked is None or asked.value is None or not all(operator.acknowledged for operator in self._operators):
            return False
        if not any(machine.life is not None for machine in self._machines):
            return False
        config = self.newest()
        members = tuple(member.id for member in wire.decode_change_request(asked.value).members)
        return not config.is_joint and config.active == config.replica_ids == members
