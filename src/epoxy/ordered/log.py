"""What a replica holds of all instances, in memory. Its rows are the truth; this is how they are looked at.

Of every replica, slots up to `forgotten` were executed everywhere and are gone; slots up to `executed` were executed
here, and some beyond. Both only rise.
"""

from collections.abc import Iterable, Iterator

from epoxy.model.ordered import NOTHING, Deps, Instance, InstanceId
from epoxy.ordered.interference import Interference


class Log:
    def __init__(self) -> None:
        self.instances: dict[InstanceId, Instance] = {}
        self.interference = Interference()
        self.forgotten: dict[int, int] = {}
        self.executed: dict[int, int] = {}
        self.beyond: set[InstanceId] = set()
        """Executed, and above `executed`."""
        self.highest: dict[int, int] = {}
        """The last slot of each replica that anybody spoke of."""
        self.waiting: dict[InstanceId, int] = {}
        """What recoverers said of what they wait for. Forgotten in a crash: they will say it again."""

    # Instances

    def get(self, instance_id: InstanceId) -> Instance:
        found = self.instances.get(instance_id)
        return found if found is not None else Instance(id=instance_id)

    def put(self, instance: Instance) -> None:
        before = self.instances.get(instance.id)
        known = before.command if before is not None and not is_void(before) else None
        self.instances[instance.id] = instance
        self.mention(instance.id)
        if is_void(instance):
            if known is not None:
                self.interference.remove(instance.id, known)
        elif known is None and instance.command is not None:
            self.interference.add(instance.id, instance.command)

    def mention(self, instance_id: InstanceId) -> None:
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
        """In a fixed order, the newest of each replica first: the others have mostly been executed when it has, and
        are not looked at then. So whatever waits for a long stretch waits for its end, and is not looked at again for
        each slot of it. What is executed between two of them is left out."""
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
        """What is not decided here, as far as it is known of: known instances, and slots below them."""
        for replica_id, highest in self.highest.items():
            for slot in range(self.executed.get(replica_id, 0) + 1, highest + 1):
                instance_id = InstanceId(replica_id, slot)
                if not self._is_decided(instance_id):
                    yield instance_id

    # Throwing away

    def forget(self, ends: Iterable[InstanceId]) -> list[InstanceId]:
        """What was executed by everybody up to these; returns what is gone by it."""
        gone: list[InstanceId] = []
        for end in ends:
            first = self.forgotten.get(end.replica_id, 0) + 1
            assert end.slot <= self.executed.get(end.replica_id, 0), "nothing is forgotten before it is executed"
            gone += [InstanceId(end.replica_id, slot) for slot in range(first, end.slot + 1)]
            self.forgotten[end.replica_id] = max(end.slot, first - 1)
        for instance_id in gone:
            instance = self.instances.pop(instance_id, None)
            if instance is not None and instance.command is not None and not is_void(instance):
                self.interference.remove(instance_id, instance.command)
        return gone

    # Dependencies

    def initial(self, instance: Instance) -> Deps:
        """What its coordinator sends with a command: all that interferes here."""
        assert instance.command is not None
        known = Deps(upto=self.floors())
        return known.plus(self.interference.outside(instance.id, instance.command, known))

    def deps_of(self, instance: Instance) -> Deps:
        return instance.deps if instance.deps is not None else NOTHING


def is_void(instance: Instance) -> bool:
    """Decided to be nothing: it interferes with nobody any more."""
    return instance.is_committed and instance.nop
