"""The rows of the ordered engine, in the subspace of the first layout:

(1, replica, KV, key, COMMITTED)                    a value, raw: what the per-key engine calls a legacy value
(1, replica, INSTANCES, coordinator, slot, COMMAND) what an instance is about, written once
(1, replica, INSTANCES, coordinator, slot, STANDING) what became of it
(1, replica, EXECUTED, coordinator, slot)           it was executed here
(1, replica, FORGOTTEN, coordinator)                slots up to this one were executed everywhere, and are gone
(1, replica, FOUNDERS)                              the members that decide, a configuration
"""

from collections.abc import Iterable, Iterator

from epoxy.codec import wire
from epoxy.codec.tuple import pack, pack_bytes, strinc, unpack
from epoxy.model.cluster import ClusterConfig
from epoxy.model.ordered import Instance, InstanceId, Phase, Standing
from epoxy.ordered.log import Log
from epoxy.ports import Snapshot, Transaction
from epoxy.store.buffer import scan
from epoxy.store.keyspace import LEGACY_LAYOUT, SCAN_ROWS, write

# Beside those of `keyspace`, and as unchangeable.
INSTANCES, EXECUTED, FORGOTTEN, FOUNDERS, VALUES = 1, 2, 3, 4, 5
COMMAND, STANDING = map(pack, ((0,), (1,)))


class OrderedSpace:
    def __init__(self, replica_id: int) -> None:
        self._values = pack((LEGACY_LAYOUT, replica_id, VALUES))
        self._instances = pack((LEGACY_LAYOUT, replica_id, INSTANCES))
        self._executed = pack((LEGACY_LAYOUT, replica_id, EXECUTED))
        self._forgotten = pack((LEGACY_LAYOUT, replica_id, FORGOTTEN))
        self._founders = pack((LEGACY_LAYOUT, replica_id, FOUNDERS))

    # Values

    def value(self, view: Snapshot, key: bytes) -> bytes | None:
        return view.get(self._values + pack_bytes(key))

    def set_value(self, tx: Transaction, key: bytes, value: bytes | None) -> None:
        write(tx, self._values + pack_bytes(key), value)

    # Instances

    def save(self, tx: Transaction, before: Instance, after: Instance) -> None:
        row = self._instances + pack((after.id.replica_id, after.id.slot))
        if after.command is not None and before.command is None:
            tx.set(row + COMMAND, wire.encode_command(after.command))
        tx.set(row + STANDING, wire.encode_standing(standing_of(after)))

    def mark_executed(self, tx: Transaction, instance_id: InstanceId) -> None:
        tx.set(self._executed + pack((instance_id.replica_id, instance_id.slot)), b"")

    def forget(self, tx: Transaction, ends: Iterable[InstanceId]) -> None:
        for end in ends:
            for root in (self._instances, self._executed):
                tx.clear_range(root + pack((end.replica_id,)), root + pack((end.replica_id, end.slot + 1)))
            tx.set(self._forgotten + pack((end.replica_id,)), pack((end.slot,)))

    def founders(self, tx: Transaction, config: ClusterConfig | None) -> ClusterConfig | None:
        """Written down once: the members at that time decide for ever."""
        value = tx.get(self._founders)
        if value is not None:
            return wire.decode_config(value)
        if config is not None:
            tx.set(self._founders, wire.encode_config(config))
        return config

    # Everything, at the start

    def load(self, view: Snapshot) -> Log:
        log = Log()
        for (replica_id,), value in self._rows(view, self._forgotten):
            (slot,) = unpack(value)
            assert isinstance(slot, int)
            log.forgotten[replica_id] = log.executed[replica_id] = log.highest[replica_id] = slot
        for instance in self._stored(view):
            log.put(instance)
        for (replica_id, slot), _ in self._rows(view, self._executed):
            log.mark_executed(InstanceId(replica_id, slot))
        return log

    def _stored(self, view: Snapshot) -> Iterator[Instance]:
        command: bytes | None = None
        for (replica_id, slot, field), value in self._rows(view, self._instances):
            if pack((field,)) == COMMAND:
                command = value
                continue
            standing = wire.decode_standing(value)
            yield Instance(
                id=InstanceId(replica_id, slot),
                phase=standing.phase,
                ballot=standing.ballot,
                accepted=standing.accepted,
                nop=standing.nop,
                command=wire.decode_command(command) if command is not None else None,
                deps=standing.deps,
                initial=standing.initial,
            )
            command = None

    def _rows(self, view: Snapshot, root: bytes) -> Iterator[tuple[tuple[int, ...], bytes]]:
        for row, value in scan(view, root, strinc(root), SCAN_ROWS, False):
            names = unpack(row[len(root) :])
            yield tuple([name for name in names if isinstance(name, int)]), value


def standing_of(instance: Instance) -> Standing:
    return Standing(
        phase=instance.phase,
        ballot=instance.ballot,
        accepted=instance.accepted,
        nop=instance.nop,
        deps=instance.deps,
        initial=instance.initial if instance.phase is not Phase.COMMITTED else None,
    )
