"""Which commands interfere: those that share a key which at least one of them writes.

For each key the slots that touch it, by replica. A command has a floor for every replica, below which it depends on
everything anyway, so each list is walked from its end, down to the floor.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator

from epoxy.model.instances import Command, Deps, InstanceId

Slots = dict[int, list[int]]


class Interference:
    def __init__(self) -> None:
        self._writers: dict[bytes, Slots] = {}
        self._readers: dict[bytes, Slots] = {}

    def add(self, instance_id: InstanceId, command: Command) -> None:
        for key, writes in command.footprint.items():
            rows = self._writers if writes else self._readers
            slots = rows.setdefault(key, {}).setdefault(instance_id.replica_id, [])
            if not slots or slots[-1] < instance_id.slot:
                slots.append(instance_id.slot)
            elif slots[bisect_left(slots, instance_id.slot)] != instance_id.slot:
                insort(slots, instance_id.slot)

    def remove(self, instance_id: InstanceId, command: Command) -> None:
        for key, writes in command.footprint.items():
            rows = self._writers if writes else self._readers
            by_replica = rows.get(key, {})
            slots = by_replica.get(instance_id.replica_id, [])
            at = bisect_left(slots, instance_id.slot)
            if at < len(slots) and slots[at] == instance_id.slot:
                del slots[at]
                if not slots:
                    del by_replica[instance_id.replica_id]
                if not by_replica:
                    del rows[key]

    def writers(self, key: bytes) -> Slots:
        return self._writers.get(key, {})

    def outside(self, instance_id: InstanceId, command: Command, deps: Deps) -> frozenset[InstanceId]:
        """What interferes with this command and is not in the set."""
        return frozenset(each for each in self._all(command, deps.floors) if each != instance_id and each not in deps)

    def _all(self, command: Command, floors: dict[int, int]) -> Iterator[InstanceId]:
        for key, writes in command.footprint.items():
            yield from above(self._writers.get(key), floors)
            if writes:
                yield from above(self._readers.get(key), floors)


def above(slots_of: Slots | None, floors: dict[int, int]) -> Iterator[InstanceId]:
    for replica_id, slots in (slots_of or {}).items():
        floor = floors.get(replica_id, 0)
        for slot in reversed(slots):
            if slot <= floor:
                break
            yield InstanceId(replica_id, slot)
