"""Strikes disks so that they are not what they were.

What `docs/protocol/incarnations.md` leaves open is left out: a disk goes back only if every set of peers that could
clear its next start has one that remembers, durably, a later state of it.
"""

from typing import NamedTuple

from epoxy.model.incarnation import Incarnation
from epoxy.model.quorum import quorums
from epoxy_sim.disk.port import Disk
from epoxy_sim.keys.machine import Machine
from epoxy_sim.keys.network import Network
from epoxy_sim.keys.plan import Fault, FaultKind
from epoxy_sim.world import World

RESUMED = 1
"""A resumed process writes one frame that the real one would not: it starts like any other."""


class DiskImage(NamedTuple):
    disk: Disk
    start: Incarnation
    position: int


class DiskFaults:
    def __init__(self, world: World, network: Network) -> None:
        self._world = world
        self._network = network
        self._images: dict[int, DiskImage] = {}
        self._stopped: dict[int, Disk] = {}
        """Images of machines that were down."""

    def strike(self, fault: Fault, machine: Machine) -> None:
        if fault.kind is FaultKind.CLONE:
            self._clone(machine)
        elif fault.kind in (FaultKind.IMAGE, FaultKind.LIE):
            self._keep(fault.kind, machine)
        else:
            self._go_back(fault.kind, machine, sure=fault.sure)

    def _keep(self, kind: FaultKind, machine: Machine) -> None:
        if machine.life is None:
            self._stopped[machine.id] = machine.disk.image()
        else:
            position = machine.life.store.position()
            self._images[machine.id] = DiskImage(machine.disk.image(), machine.life.gate.incarnation, position)
            if kind is FaultKind.LIE:
                machine.disk.lie()

    def _go_back(self, kind: FaultKind, machine: Machine, *, sure: bool) -> None:
        image = self._images.get(machine.id)
        is_resumed = kind is FaultKind.SNAPSHOT_RESUMED
        if image is None or not (sure or self._is_known_better(machine, image, is_resumed=is_resumed)):
            self._world.note(f"{machine.name} is spared: no witness would be left")
            return
        if kind is FaultKind.LYING_SYNC:
            machine.crash()
        else:
            machine.restore(image.disk)
        machine.resumes = image.start if is_resumed else None
        machine.judge.gone(machine.id)
        machine.judge, machine.went_back = machine.judge.for_copy(), True
        machine.start()

    def _clone(self, machine: Machine) -> None:
        machine.is_original = machine.life is not None
        machine.copy_beside(self._stopped.get(machine.id, machine.disk)).start()
        machine.start()

    def _is_known_better(self, machine: Machine, image: DiskImage, *, is_resumed: bool) -> bool:
        """A process that is resumed was cleared before: nothing but the peers that it meets can stop it."""
        members = machine.plan.first_members
        sizes = quorums(len(members), machine.plan.policy)
        written = RESUMED if is_resumed else 0
        unaware = [i for i in members if i != machine.id and not self._knows(i, machine.id, image, written)]
        is_strict = machine.plan.strict_start and not is_resumed
        return len(unaware) < (min(sizes.n - sizes.slow + 1, sizes.n - 1) if is_strict else sizes.slow - 1)

    def _knows(self, witness: int, struck: int, image: DiskImage, written: int) -> bool:
        machine = self._network.machines[witness]
        remembered = machine.life.remembered() if machine.life is not None else machine.remembered
        seen = remembered.get(struck)
        if seen is None or seen.store != image.start.store:
            return False
        return seen.counter > image.start.counter or seen.position > image.position + written
