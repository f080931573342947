"""The operator that changes the list of nodes: a rolling restart with another file, in any order."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from epoxy.protocol.elect.config import ElectConfig
from epoxy.protocol.elect.elector import Elector
from epoxy_sim.elect.plan import Roll

if TYPE_CHECKING:
    from epoxy_sim.elect.machine import ElectMachine
    from epoxy_sim.elect.simulation import ElectSimulation

LOOK_US = 20_000
PATIENCE = 2
"""An agent that was told to end is killed after this many `down_after_ms`."""


class ElectOperator:
    def __init__(self, cluster: "ElectSimulation", rolls: tuple[tuple[Roll, ElectConfig], ...]) -> None:
        self._cluster = cluster
        self._rolls = list(rolls)
        self._left: list[ElectMachine] = []
        self._asked = False

    @property
    def is_done(self) -> bool:
        return not self._rolls

    def begin(self) -> None:
        if self._rolls:
            after_us = 1000 * self._rolls[0][0].at_ms - self._cluster.world.now_us
            self._cluster.world.after(max(0, after_us), self._roll)

    def _roll(self) -> None:
        """New nodes are started first, with an empty directory; they wait until the others accept them."""
        roll, config = self._rolls[0]
        self._cluster.world.note(f"operator: {config.cluster} becomes {', '.join(node.id for node in config.nodes)}")
        listed = {node.id for node in config.nodes}
        for machine in self._machines(listed):
            if not machine.listed:
                machine.record = None
                machine.given(config)
                machine.start()
        self._restart([self._cluster.named(i) for i in roll.order], roll, config)

    def _restart(self, waiting: "list[ElectMachine]", roll: Roll, config: ElectConfig) -> None:
        if not waiting:
            self._stop_leaving(roll, config)
            return
        machine = waiting.pop(0)
        machine.given(config)
        machine.run(machine.end_agent)
        patience_us = 1000 * PATIENCE * config.timing.down_after_ms
        self._when_ended(machine, self._cluster.world.now_us + patience_us, lambda: self._again(machine, waiting, roll))

    def _again(self, machine: "ElectMachine", waiting: "list[ElectMachine]", roll: Roll) -> None:
        machine.start_agent()
        _, config = self._rolls[0]
        self._cluster.world.after(1000 * roll.gap_ms, lambda: self._restart(waiting, roll, config))

    def _when_ended(self, machine: "ElectMachine", until_us: int, then: Callable[[], None]) -> None:
        """Waits for this life of the agent only: one that was restarted meanwhile is not killed."""
        life = machine.life

        def look() -> None:
            running = machine.agent is not None and machine.life == life
            if running and self._cluster.world.now_us < until_us:
                self._cluster.world.after(LOOK_US, look)
                return
            if running:
                machine.crash_agent()
            then()

        look()

    def _stop_leaving(self, roll: Roll, config: ElectConfig) -> None:
        listed = {node.id for node in config.nodes}
        self._left = [m for m in self._cluster.machines.values() if m.listed and m.name not in listed]
        if not roll.stay:
            self._stop_left()
        self._hand_over()
        self._wait(config)

    def _hand_over(self) -> None:
        """A primary that leaves is told to hand over, or its agent is stopped for a while, so that the change ends
        under a primary of the new list."""
        if not self._left:
            return
        for machine in self._left:
            machine.start_agent()
        primary, (roll, config) = self._cluster.primary(), self._rolls[0]
        self._asked = not self._asked
        if primary is not None and primary in self._left:
            heir = self._cluster.named(roll.order[0])
            if self._asked:
                self._cluster.orders.fail_over(primary, heir.name)
            else:
                primary.run(primary.end_agent)
        self._cluster.world.after(1000 * PATIENCE * config.timing.down_after_ms, self._hand_over)

    def _stop_left(self) -> None:
        """Agent and server: a server without an agent would go on copying."""
        left, self._left = self._left, []
        for machine in left:
            machine.listed = False
            if machine.agent is not None:
                machine.run(machine.end_agent)
            until_us = self._cluster.world.now_us + 1000 * PATIENCE * machine.config.timing.down_after_ms
            self._when_ended(machine, until_us, lambda machine=machine: self._switch_off(machine))  # type: ignore[misc]

    def _switch_off(self, machine: "ElectMachine") -> None:
        """Unless the next change lists it again."""
        if not machine.listed:
            machine.crash()

    def _wait(self, config: ElectConfig) -> None:
        """The next change begins when this one is over everywhere."""
        if not all(counts_alone(machine, config) for machine in self._machines({n.id for n in config.nodes})):
            self._cluster.world.after(LOOK_US, lambda: self._wait(config))
            return
        self._stop_left()
        self._rolls.pop(0)
        self.begin()

    def _machines(self, names: set[str]) -> "list[ElectMachine]":
        return [machine for machine in self._cluster.machines.values() if machine.name in names]


def counts_alone(machine: "ElectMachine", config: ElectConfig) -> bool:
    agent = machine.agent
    if agent is None or not isinstance(agent, Elector) or agent.fresh:
        return False
    return not agent.lists.is_joint and agent.lists.newest.ids == {node.id for node in config.nodes}
