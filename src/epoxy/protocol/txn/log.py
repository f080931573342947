"""The instances a replica holds, in memory: an index of its rows.

By replica: slots up to `forgotten` were executed everywhere and are deleted; slots up to `archived` were executed here,
and are kept as rows only, for a replica that has not executed them; slots up to `executed`, and those in `beyond`, were
executed here. All three numbers only rise.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from epoxy.model.instances import MAX_DEPENDENCIES, NOTHING, Command, Deps, Instance, InstanceId
from epoxy.protocol.txn.interference import Interference


class Archive(Protocol):
    """The rows of instances that are not held in memory."""

    def instance(self, instance_id: InstanceId) -> Instance: ...

    def stretch(self, replica_id: int, first: int, last: int) -> Iterator[Instance]:
        """Slots of one replica, both ends included."""


class InstanceLog:
    def __init__(self, archive: Archive | None = None) -> None:
        """Without an archive everything is held in memory."""
        self.archive = archive
        self.archived: dict[int, int] = {}
        self.instances: dict[InstanceId, Instance] = {}
        self.interference = Interference()
        self.forgotten: dict[int, int] = {}
        self.executed: dict[int, int] = {}
        self.beyond: set[InstanceId] = set()
        """Executed, and above `executed`."""
        self.highest: dict[int, int] = {}
        """The last known slot of each replica."""
        self.waiting: dict[InstanceId, int] = {}
        """From `Waiting` messages: counts by instance. Lost in a crash: they are sent again."""

    # Instances

    def get(self, instance_id: InstanceId) -> Instance:
        found = self.instances.get(instance_id)
        if found is not None:
            return found
        if self.archive is not None and self._is_archived(instance_id):
            return self.archive.instance(instance_id)
        return Instance(id=instance_id)

    def stretch(self, replica_id: int, first: int, last: int) -> Iterator[Instance]:
        """Slots of one replica, both ends included. Archived ones are read in one scan."""
        end = min(last, self.archived.get(replica_id, 0))
        if self.archive is not None and first <= end:
            yield from self.archive.stretch(replica_id, first, end)
        for slot in range(max(first, end + 1), last + 1):
            yield self.get(InstanceId(replica_id, slot))

    def _is_archived(self, instance_id: InstanceId) -> bool:
        return not self.is_forgotten(instance_id) and instance_id.slot <= self.archived.get(instance_id.replica_id, 0)

    def put(self, instance: Instance) -> None:
        before = self.instances.get(instance.id)
        known = before.command if before is not None and not is_void(before) else None
        self.instances[instance.id] = instance
        self.note_slot(instance.id)
        if is_void(instance):
            if known is not None:
                self.interference.remove(instance.id, known)
        elif known is None and instance.command is not None:
            self.interference.add(instance.id, instance.command)

    def note_slot(self, instance_id: InstanceId) -> None:
        if instance_id.slot > self.highest.get(instance_id.replica_id, 0):
            self.highest[instance_id.replica_id] = instance_id.slot

    def is_forgotten(self, instance_id: InstanceId) -> bool:
        return instance_id.slot <= self.forgotten.get(instance_id.replica_id, 0)

    # Execution

    def is_executed(self, instance_id: InstanceId) -> bool:
        return instance_id.slot <= self.executed.get(instance_id.replica_id, 0) or instance_id in self.beyond

    def mark_executed(self, instance_id: InstanceId) -> None:
        self.waiting.pop(instance_id, None)
        self.beyond.add(instance_id)
        replica_id, floor = instance_id.replica_id, self.executed.get(instance_id.replica_id, 0)
        while (after := InstanceId(replica_id, floor + 1)) in self.beyond:
            self.beyond.remove(after)
            floor += 1
        self.executed[replica_id] = floor

    def floors(self) -> tuple[InstanceId, ...]:
        """As far as everything is executed here."""
        return tuple([InstanceId(replica_id, slot) for replica_id, slot in sorted(self.executed.items()) if slot])

    def known(self) -> tuple[InstanceId, ...]:
        """As far as everything is decided here."""
        floors = dict(self.executed)
        for replica_id, highest in self.highest.items():
            slot = floors.get(replica_id, 0)
            while slot < highest and self._is_decided(InstanceId(replica_id, slot + 1)):
                slot += 1
            floors[replica_id] = slot
        return tuple([InstanceId(replica_id, slot) for replica_id, slot in sorted(floors.items()) if slot])

    def _is_decided(self, instance_id: InstanceId) -> bool:
        return instance_id in self.beyond or self.get(instance_id).is_committed

    def unexecuted(self, deps: Deps) -> Iterator[InstanceId]:
        """In a fixed order, the newest slot of each replica first: once that is executed, most of the others are, and
        are not yielded. So an instance that waits for a long stretch waits for its end, and is not visited again for
        each slot of it. Slots executed between two steps of the iterator are left out."""
        for end in deps.upto:
            slot = end.slot
            while slot > self.executed.get(end.replica_id, 0):
                if (instance_id := InstanceId(end.replica_id, slot)) not in self.beyond:
                    yield instance_id
                slot -= 1
        for instance_id in deps.also:
            if not self.is_executed(instance_id):
                yield instance_id

    def gaps(self) -> Iterator[InstanceId]:
        """Known instances, and slots below them, that are not decided here."""
        for replica_id, highest in self.highest.items():
            for slot in range(self.executed.get(replica_id, 0) + 1, highest + 1):
                instance_id = InstanceId(replica_id, slot)
                if not self._is_decided(instance_id):
                    yield instance_id

    # Forgetting

    def forget(self, ends: Iterable[InstanceId]) -> list[InstanceId]:
        """Drop what every replica has executed, up to these slots; returns what was dropped."""
        gone: list[InstanceId] = []
        for end in ends:
            first = self.forgotten.get(end.replica_id, 0) + 1
            assert end.slot <= self.executed.get(end.replica_id, 0), "nothing is forgotten before it is executed"
            gone += [InstanceId(end.replica_id, slot) for slot in range(first, end.slot + 1)]
            self.forgotten[end.replica_id] = max(end.slot, first - 1)
        for instance_id in gone:
            self._drop(instance_id)
        return gone

    def shelve(self, most: int) -> int:
        """Drop executed instances from memory, the oldest first, until only `most` are held, or only those that must
        be; returns how many were dropped. What is above a gap stays."""
        spare = len(self.instances) - most
        if self.archive is None or spare <= 0:
            return 0
        held = {r: self.executed[r] - self._shelved(r) for r in self.executed}
        left = 0
        for replica_id in sorted(held, key=lambda each: -held[each]):
            first = self._shelved(replica_id) + 1
            last = min(first + spare - left, self.executed[replica_id] + 1) - 1
            for slot in range(first, last + 1):
                self._drop(InstanceId(replica_id, slot))
            if last >= first:
                self.archived[replica_id] = last
                left += last - first + 1
        return left

    def _shelved(self, replica_id: int) -> int:
        return max(self.archived.get(replica_id, 0), self.forgotten.get(replica_id, 0))

    def _drop(self, instance_id: InstanceId) -> None:
        instance = self.instances.pop(instance_id, None)
        if instance is not None and instance.command is not None and not is_void(instance):
            self.interference.remove(instance_id, instance.command)

    # Dependencies

    def outside(self, instance_id: InstanceId, command: Command, deps: Deps) -> frozenset[InstanceId]:
        """What interferes with this command and is not in the set."""
        found = self.interference.outside(instance_id, command, deps)
        stretches = self._archived_beyond(deps)
        if self.archive is None or not stretches:
            return found
        index = Interference()
        for replica_id, first, last in stretches:
            for each in self.archive.stretch(replica_id, first, last):
                if each.command is not None and not is_void(each):
                    index.add(each.id, each.command)
        return found | index.outside(instance_id, command, deps)

    def is_far_beyond(self, deps: Deps) -> bool:
        """Whether more is archived beyond this set than could be named one by one. It is not searched then: that
        coordinator has to catch up first."""
        return sum([last - first + 1 for _, first, last in self._archived_beyond(deps)]) > MAX_DEPENDENCIES

    def _archived_beyond(self, deps: Deps) -> list[tuple[int, int, int]]:
        """By replica, the first slot and the last."""
        if not self.archived:
            return []
        firsts = {r: max(deps.floors.get(r, 0), self.forgotten.get(r, 0)) + 1 for r in self.archived}
        return [(r, firsts[r], last) for r, last in self.archived.items() if firsts[r] <= last]

    def initial(self, instance: Instance) -> Deps:
        """The dependencies a coordinator sends with a command: all that interferes here."""
        assert instance.command is not None
        known = Deps(upto=self.floors())
        return known.plus(self.outside(instance.id, instance.command, known))

    def deps_of(self, instance: Instance) -> Deps:
        return instance.deps if instance.deps is not None else NOTHING


def is_void(instance: Instance) -> bool:
    """Decided to be a Nop: it does not interfere any more."""
    return instance.is_committed and instance.nop
