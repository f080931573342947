"""The nemesis strikes the faults of a plan. It knows nothing of the judges."""

from collections import Counter
from collections.abc import Sequence

from epoxy_sim.keys.disk_faults import DiskFaults
from epoxy_sim.keys.machine import Machine
from epoxy_sim.keys.network import Network
from epoxy_sim.keys.plan import OF_CHANGES, OF_COPIES, Fault, FaultKind
from epoxy_sim.world import World


class Nemesis:
    def __init__(self, world: World, network: Network, machines: Sequence[Machine]) -> None:
        self.struck: Counter[str] = Counter()
        self._world = world
        self._network = network
        self._machines = machines
        self._disk_faults = DiskFaults(world, network)

    def arrange(self, faults: Sequence[Fault]) -> None:
        for fault in faults:
            self._world.after(fault.at_us, lambda fault=fault: self._strike(fault))  # type: ignore[misc]

    def relent(self) -> None:
        """All faults end: every machine is up, connected and fast from here on. A machine that was refused cannot clear
        others, so operators start those again, without `strict_start`."""
        self._network.calm()
        for machine in self._machines:
            machine.disk_slow = machine.disk_full = machine.fsync_fails = False
            machine.trap = None
            machine.resume()
            machine.start()
            if machine.strict_start and not machine.went_back:
                machine.start_leniently()

    def _strike(self, fault: Fault) -> None:
        self.struck[fault.kind.value] += 1
        self._world.note(f"fault: {fault.kind.value} {','.join(self._machines[i - 1].name for i in fault.machines)}")
        if fault.kind in (FaultKind.PARTITION, FaultKind.ONE_WAY, FaultKind.CUT, FaultKind.HEAL):
            self._strike_network(fault)
        elif fault.kind in OF_COPIES:
            for i in fault.machines:
                self._disk_faults.strike(fault, self._machines[i - 1])
        elif fault.kind in OF_CHANGES:
            for i in fault.machines:
                self._strike_disk(fault, self._machines[i - 1])
        else:
            for i in fault.machines:
                self._strike_machine(fault, self._machines[i - 1])

    def _strike_network(self, fault: Fault) -> None:
        rest = [machine.id for machine in self._machines if machine.id not in fault.machines]
        if fault.kind is FaultKind.HEAL:
            self._network.heal()
            return
        if fault.kind is FaultKind.CUT:
            one, others = fault.machines[:1], fault.machines[1:]
            self._network.block(one, others)
            self._network.block(others, one)
            return
        self._network.block(fault.machines, rest)
        if fault.kind is FaultKind.PARTITION:
            self._network.block(rest, fault.machines)

    def _strike_disk(self, fault: Fault, machine: Machine) -> None:
        if fault.kind is FaultKind.LOSE_DISK:
            machine.lose_disk()
            machine.start()
        elif fault.kind is FaultKind.TRUNCATE:
            if machine.life is not None:
                machine.life.truncate()
        else:
            machine.rot(fault.kind)

    def _strike_machine(self, fault: Fault, machine: Machine) -> None:
        assert fault.kind is not FaultKind.ROT, fault
        assert fault.kind is not FaultKind.ROT_VOTES, fault
        match fault.kind:
            case FaultKind.CRASH:
                machine.crash(fault.keep)
            case FaultKind.RESTART:
                machine.disk_full = False
                machine.start()
            case FaultKind.PAUSE:
                machine.pause()
            case FaultKind.RESUME:
                machine.resume()
            case FaultKind.SLOW_DISK:
                machine.disk_slow = True
            case FaultKind.FAST_DISK:
                machine.disk_slow = False
            case FaultKind.DISK_FULL:
                machine.disk_full = True
            case FaultKind.FSYNC_FAILS:
                machine.fsync_fails = True
            case FaultKind.CRASH_ON_ANSWER | FaultKind.CRASH_ON_SEND:
                machine.trap, machine.trap_count = fault.kind, fault.count
            case _:
                raise ValueError(fault.kind)
