"""One run: a plan in, a report out."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from epoxy.model.address import Address
from epoxy.protocol.elect.config import ElectConfig, ElectNode
from epoxy.protocol.elect.terms import ElectRecord, Mode
from epoxy_sim.elect.intruder import Stranger, babble
from epoxy_sim.elect.judge import ElectJudge
from epoxy_sim.elect.machine import SECRET, ElectMachine
from epoxy_sim.elect.network import ElectNetwork
from epoxy_sim.elect.operator import ElectOperator
from epoxy_sim.elect.order_repeats import SignedOrders
from epoxy_sim.elect.plan import ElectFault, ElectPlan, Kind, Roll
from epoxy_sim.simulation import Simulation, Violation

NAMES = "abcdefghi"

CALM_LIMIT = 40
"""A cluster must be whole again this many `down_after_ms` after the last fault. A node without a record waits for one,
an election takes two, and a few may fail at random."""

CUTS = (Kind.PARTITION, Kind.ONE_WAY, Kind.APART, Kind.SILENT)

FAULTS: dict[Kind, Callable[[ElectMachine], None]] = {
    Kind.CRASH: ElectMachine.crash,
    Kind.WIPE: ElectMachine.wipe,
    Kind.AGENT_CRASH: ElectMachine.crash_agent,
    Kind.AGENT_END: ElectMachine.end_agent,
    Kind.SERVER_CRASH: lambda machine: machine.server.crash(),
    Kind.HANG: ElectMachine.hang,
    Kind.PAUSE: ElectMachine.pause,
    Kind.CRASH_ON_VOTE: ElectMachine.crash_on_next_vote,
    Kind.DISK_FULL: ElectMachine.fill_disk,
}


class ElectSimulation(Simulation[ElectPlan]):
    def __init__(self, plan: ElectPlan, *, tracing: bool) -> None:
        super().__init__(plan, tracing=tracing)
        self.machines: dict[str, ElectMachine] = {}
        config = config_of(plan)
        self.judge = ElectJudge(self.world, config.initial_primary, self.machines, begun=plan.ahead or 1)
        self.network: ElectNetwork = ElectNetwork(self.world, plan, self.judge)
        self.orders = SignedOrders(self, SECRET)
        self.operator = ElectOperator(self, tuple((roll, config_of(plan, roll)) for roll in plan.rolls))
        for name, rate in zip(NAMES, plan.skew, strict=False):
            theirs = odd_config(config) if plan.odd and name == NAMES[plan.odd - 1] else config
            self.machines[name] = ElectMachine(self, name, theirs, rate)
            if plan.begun and self.machines[name].listed:
                self.machines[name].record = record_of(plan, name)
        self.network.machines = self.machines
        self.struck: Counter[str] = Counter()
        self.calm = False
        self._writes = 0
        self._stranger = Stranger(self) if plan.stranger else None

    def play(self) -> None:
        for machine in self.machines.values():
            machine.start()
        for fault in self.plan.faults:
            self.world.after(1000 * fault.at_ms, lambda fault=fault: self._strike(fault))  # type: ignore[misc]
        self.world.after(1000 * self.plan.faults_end_ms, self._faults_end)
        self.operator.begin()
        if self.plan.babble_ms:
            self.world.after(1000 * self.plan.babble_ms, lambda: babble(self))
        self._write()
        if self._stranger is not None:
            self._stranger.speak()
        deadline_us = 1000 * (self.plan.faults_end_ms + CALM_LIMIT * self.plan.timing.down_after_ms)
        if not self.world.run_until(self._is_well, deadline_us):
            raise Violation("liveness", f"not whole again: {self._complaint()}")

    def counts(self) -> dict[str, Any]:
        return {
            "operations": self._writes,
            "paths": {"acknowledged": self.judge.acked},
            "faults": {**self.struck, "tampered": self.network.tampered},
            "verdicts": {"elections": self.judge.elections, "openings": self.judge.openings},
        }

    def named(self, number: int) -> ElectMachine:
        return self.machines[NAMES[number - 1]]

    def primary(self) -> ElectMachine | None:
        return next((machine for machine in self.machines.values() if machine.server.is_open), None)

    # Writers

    def _write(self) -> None:
        """Every server is sent a write; only one that is entitled to may take it."""
        for machine in self.machines.values():
            self._writes += 1
            machine.run(lambda machine=machine, number=self._writes: machine.server.write(number))  # type: ignore[misc]
        self.world.after(1000 * self.plan.pace_ms, self._write)

    # Faults

    def _strike(self, fault: ElectFault) -> None:
        self.struck[fault.kind.value] += 1
        primary = self.primary()
        first = primary if primary is not None else self.machines[NAMES[0]]
        struck = [first if i == 0 else self.machines[NAMES[i - 1]] for i in fault.target]
        self.world.note(f"fault: {fault.kind.value} {','.join(machine.name for machine in struck)}")
        end = self._cut(fault, struck) if fault.kind in CUTS else self._hit(fault, struck)
        self.world.after(1000 * fault.for_ms, end)

    def _cut(self, fault: ElectFault, struck: list[ElectMachine]) -> Callable[[], None]:
        some = frozenset(machine.name for machine in struck)
        rest = frozenset(self.machines) - some
        if fault.kind in (Kind.APART, Kind.SILENT):
            some, rest = frozenset({struck[0].name}), some - {struck[0].name}
        data = fault.kind is not Kind.SILENT
        blocked = [self.network.block(some, rest, data=data)]
        if fault.kind is not Kind.ONE_WAY:
            blocked.append(self.network.block(rest, some, data=data))

        def heal() -> None:
            for each in blocked:
                self.network.unblock(each)

        return heal

    def _hit(self, fault: ElectFault, struck: list[ElectMachine]) -> Callable[[], None]:
        for machine in struck:
            if fault.kind is Kind.HANDOVER:
                self._hand_over(machine)
            else:
                FAULTS[fault.kind](machine)
        return lambda: self._mend(struck)

    def _hand_over(self, heir: ElectMachine) -> None:
        primary = self.primary()
        if primary is not None and primary is not heir:
            self.orders.fail_over(primary, heir.name)

    def _mend(self, struck: list[ElectMachine]) -> None:
        for machine in struck:
            machine.mend()

    def _faults_end(self) -> None:
        self.world.note("all faults end")
        self.network.calm()
        self._mend(list(self.machines.values()))
        self.calm = True
        self._since = self.judge.acked

    # The state after the last fault

    def _is_well(self) -> bool:
        done = self.calm and self.judge.acked > self._since and self.operator.is_done
        return done and self._complaint() is None

    def _complaint(self) -> str | None:
        """One primary takes writes, and all others follow it and know it. None if so."""
        if not self.operator.is_done:
            return "a change of nodes is not over"
        last = config_of(self.plan, self.plan.rolls[-1] if self.plan.rolls else None)
        sane = [machine for machine in self.machines.values() if machine.listed and machine.config == last]
        primary = self.primary()
        if primary is None:
            return "no server takes writes"
        for machine in sane:
            server = machine.server
            if machine is not primary and (server.mode is not Mode.FOLLOWING or server.source is None):
                return f"{machine.name} does not follow {primary.name}"
            if machine is not primary and server.source not in primary.server.followers:
                return f"{machine.name} has no copy of {primary.name}"
            if machine.agent is None or machine.agent.record.leader != primary.name:
                return f"{machine.name} does not know that {primary.name} leads"
        return None


run = ElectSimulation.run


def config_of(plan: ElectPlan, roll: Roll | None = None) -> ElectConfig:
    """The config of the first list, or of a later one."""
    listed = roll.nodes if roll is not None else range(1, plan.n + 1)
    names = [NAMES[i - 1] for i in listed]
    nodes = tuple(
        ElectNode(
            id=name, control=Address(name, 1), server=Address(name, 2), priority=plan.priorities[NAMES.index(name)]
        )
        for name in names
    )
    return ElectConfig(
        cluster="simulated",
        nodes=nodes,
        initial_primary=names[0],
        timing=plan.timing,
        min_replicas_to_write=roll.min_replicas if roll is not None else plan.min_replicas,
    )


def record_of(plan: ElectPlan, name: str) -> ElectRecord:
    """Of a node that has run before."""
    epoch = plan.ahead if plan.ahead and name != NAMES[plan.n - 1] else 1
    return ElectRecord(epoch=epoch, leader_epoch=epoch, leader=NAMES[0])


def odd_config(config: ElectConfig) -> ElectConfig:
    """As if two nodes were missing in one file: a majority of these three is not one of all."""
    return replace(config, nodes=config.nodes[:3])
