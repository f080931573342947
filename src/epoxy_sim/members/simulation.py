"""One run on single keys while members change."""

from collections.abc import Sequence

from epoxy_sim.keys.plan import Plan
from epoxy_sim.keys.simulation import CALM_LIMIT_US, KeysSimulation
from epoxy_sim.members.machine import MembersLife, MembersMachine
from epoxy_sim.members.network import MembersNetwork
from epoxy_sim.members.operator import MembersChange, MembersOperator
from epoxy_sim.simulation import Report, Violation
from epoxy_sim.trace_format import say

SETTLING_US = 3_000_000
"""By then a change has settled the votes of members that are gone."""


class MembersSimulation(KeysSimulation):
    def __init__(self, plan: Plan, *, tracing: bool) -> None:
        super().__init__(plan, tracing=tracing)
        self.operators = [MembersOperator(change, self.machines, self.world) for change in plan.changes]
        self.change = MembersChange(self.operators, self.machines, self.judge, self.world)

    def build(self) -> Sequence[MembersMachine]:
        self.network: MembersNetwork = MembersNetwork(self.world, self.plan)
        return [MembersMachine(i, self.world, self.network, self.judge, self.plan) for i in range(1, self.plan.n + 1)]

    def begin(self) -> None:
        super().begin()
        for operator in self.operators:
            operator.start()

    def settle(self) -> tuple[int, ...]:
        """When faults stop, the members asked for last become the members, and repair what they have missed."""
        self.change.watch()
        if not self.run_in_calm(lambda: self.change.is_through):
            raise Violation("liveness", f"all is calm, and yet the members stay {say(self.change.newest())}")
        settled_us = self.world.now_us + SETTLING_US
        self.world.run_until(lambda: self.world.now_us >= settled_us, settled_us + 1)
        if not self.run_in_calm(
            lambda: not any(machine.life is not None and machine.rotten for machine in self.machines)
        ):
            raise Violation("rot stays", "all is calm, and yet rotten rows are not repaired")
        self.change.compare()
        if not self.world.run_until(lambda: not self.change.gaps, settled_us + CALM_LIMIT_US):
            raise Violation("gaps stay", f"all is calm, and yet {self.change.gaps}")
        if not self.run_in_calm(lambda: not self.overlong):
            raise Violation("changelog too long", f"all is calm, and yet on {say(self.overlong)}")
        return self.change.newest().active

    @property
    def overlong(self) -> list[str]:
        """Machines whose changelog takes more than it may."""
        lives = [machine.life for machine in self.machines]
        return [life.machine.name for life in lives if isinstance(life, MembersLife) and life.is_overlong()]


def run(plan: Plan, *, tracing: bool = False) -> Report[Plan]:
    """A plan without changes is one of single keys."""
    simulation = MembersSimulation if plan.changes else KeysSimulation
    return simulation.run(plan, tracing=tracing)
