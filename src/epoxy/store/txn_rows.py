"""The rows of the ordered engine, in the subspace of the first layout:

(1, replica, VALUES, key, HELD)                            what is held of a key: value, version, expiry
(1, replica, VALUES, key)                                  a value, raw, written before versions were counted
(1, replica, ENDING, key)                                  that the value ends, and when: an index, made with the value
(1, replica, TERM)                                         the term this replica is in
(1, replica, INSTANCES, term, coordinator, slot, COMMAND)  the command of an instance, written once
(1, replica, INSTANCES, term, coordinator, slot, STATE)    its phase, ballots and dependencies
(1, replica, EXECUTED, term, coordinator, slot)            it was executed here
(1, replica, FORGOTTEN, term, coordinator)                 slots up to this one were executed everywhere, and deleted

Of a term that has ended here only the instances are kept, for members that were away.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from epoxy.codec import wire
from epoxy.codec.tuple import pack, pack_bytes, strinc, unpack
from epoxy.model.instances import Instance, InstanceId, InstanceState, OrderedCommit, Phase, Term
from epoxy.model.members import Kept, KeptId
from epoxy.model.records import ExpiryEntry
from epoxy.model.transactions import NO_ROW, OrderedValue
from epoxy.ports import Snapshot, Store, Transaction
from epoxy.protocol.txn.acceptor import commit_of
from epoxy.protocol.txn.log import Archive, InstanceLog
from epoxy.store.buffer import scan
from epoxy.store.keyspace import LEGACY_LAYOUT, SCAN_ROWS, index_page, write

# Beside those of `keyspace`, and as unchangeable.
INSTANCES, EXECUTED, FORGOTTEN, TERM, VALUES, ENDING = 1, 2, 3, 4, 5, 6
COMMAND, STATE = map(pack, ((0,), (1,)))
HELD = pack((0,))
"""Follows the key, which ends with a zero byte; so does a raw row."""

NO_HOME = 0
"""Versions of transactions have none: all replicas execute them."""

Row = tuple[tuple[int, ...], bytes]


class OrderedSpace:
    """The rows that do not belong to a term."""

    def __init__(self, replica_id: int) -> None:
        self._values = pack((LEGACY_LAYOUT, replica_id, VALUES))
        self._ending = pack((LEGACY_LAYOUT, replica_id, ENDING))
        self._term = pack((LEGACY_LAYOUT, replica_id, TERM))
        self._instances = pack((LEGACY_LAYOUT, replica_id, INSTANCES))
        self._progress = [pack((LEGACY_LAYOUT, replica_id, kind)) for kind in (EXECUTED, FORGOTTEN)]
        self._replica_id = replica_id

    def within(self, term: int) -> "TermSpace":
        return TermSpace(self._replica_id, term)

    # Values

    def value_rows(self) -> bytes:
        """The beginning of their keys."""
        return self._values

    def held_row(self, key: bytes) -> bytes:
        return self._values + pack_bytes(key) + HELD

    def raw_row(self, key: bytes) -> bytes:
        return self._values + pack_bytes(key)

    def held(self, view: Snapshot, key: bytes) -> OrderedValue:
        row = self._values + pack_bytes(key)
        record = view.get(row + HELD)
        if record is not None:
            return wire.decode_ordered_value(record)
        raw = view.get(row)
        return NO_ROW if raw is None else OrderedValue(value=raw)

    def set_held(self, tx: Transaction, key: bytes, held: OrderedValue) -> None:
        self._set(tx, key, held, None if held == NO_ROW else wire.encode_ordered_value(held))

    def set_record(self, tx: Transaction, key: bytes, record: bytes | None) -> OrderedValue:
        """As it was encoded elsewhere; returns what is held now."""
        held = wire.decode_ordered_value(record) if record is not None else NO_ROW
        self._set(tx, key, held, record)
        return held

    def _set(self, tx: Transaction, key: bytes, held: OrderedValue, record: bytes | None) -> None:
        """With its row of the index. A raw row of the key goes."""
        row = self._values + pack_bytes(key)
        write(tx, row + HELD, record)
        if tx.get(row) is not None:
            tx.clear(row)
        index, value = self.indexed(key, held)
        if value is not None or tx.get(index) is not None:
            write(tx, index, value)

    def indexed(self, key: bytes, held: OrderedValue) -> tuple[bytes, bytes | None]:
        """The row of the index for this value; None: it has no place there. The index is apart from that of the per-key
        engine: the mark of a key is learned before its transactions are executed here, or after."""
        return self._ending + pack_bytes(key), index_value(held)

    def index_row(self, view: Snapshot, key: bytes) -> tuple[bytes, bytes | None]:
        """As it follows from what is held."""
        return self.indexed(key, self.held(view, key))

    def expiring(self, view: Snapshot, after: bytes | None, limit: int) -> list[tuple[bytes, ExpiryEntry]]:
        """The next keys beyond `after` whose value ends, in order, at most so many; fewer: these were the last."""
        return index_page(view, self._ending, after, limit, lambda key: self.index_row(view, key)[1])

    # Terms

    def term(self, view: Snapshot) -> Term | None:
        value = view.get(self._term)
        return wire.decode_term(value) if value is not None else None

    def set_term(self, tx: Transaction, term: Term) -> None:
        tx.set(self._term, wire.encode_term(term))

    def arrive(self, tx: Transaction, term: Term) -> None:
        """Begin a new term, and delete the progress of earlier ones, which are executed."""
        self.set_term(tx, term)
        for root in self._progress:
            tx.clear_range(root, root + pack((term.number,)))

    def kept(self, view: Snapshot, after: KeptId | None, term: int, limit: int) -> list[Kept]:
        """Decisions of earlier terms than this one that are still here, in the order of terms and ids."""
        begin = self._instances
        if after is not None:
            begin = strinc(self._instances + pack((after.term, after.id.replica_id, after.id.slot)))
        found = stored(rows(view, begin, self._instances + pack((term,)), len(self._instances)))
        decided = (Kept(term=of, commit=commit_of(each)) for of, each in found if each.is_committed)
        return list(islice(decided, limit))

    def keep(self, tx: Transaction, kept: Iterable[Kept]) -> None:
        for each in kept:
            self.within(each.term).save(tx, Instance(id=each.commit.id), decided(each.commit))

    def drop_kept(self, tx: Transaction, term: int) -> None:
        """Of earlier terms than this one."""
        tx.clear_range(self._instances, self._instances + pack((term,)))


class TermSpace:
    """The rows of one term."""

    def __init__(self, replica_id: int, term: int) -> None:
        self._instances = pack((LEGACY_LAYOUT, replica_id, INSTANCES, term))
        self._root = len(pack((LEGACY_LAYOUT, replica_id, INSTANCES)))
        self._executed = pack((LEGACY_LAYOUT, replica_id, EXECUTED, term))
        self._forgotten = pack((LEGACY_LAYOUT, replica_id, FORGOTTEN, term))

    def save(self, tx: Transaction, before: Instance, after: Instance) -> None:
        row = self._instances + pack((after.id.replica_id, after.id.slot))
        if after.command is not None and before.command is None:
            tx.set(row + COMMAND, wire.encode_command(after.command))
        tx.set(row + STATE, wire.encode_instance_state(instance_state_of(after)))

    def mark_executed(self, tx: Transaction, instance_id: InstanceId) -> None:
        tx.set(self._executed + pack((instance_id.replica_id, instance_id.slot)), b"")

    def forget(self, tx: Transaction, ends: Iterable[InstanceId]) -> None:
        for end in ends:
            for root in (self._instances, self._executed):
                tx.clear_range(root + pack((end.replica_id,)), root + pack((end.replica_id, end.slot + 1)))
            tx.set(self._forgotten + pack((end.replica_id,)), pack((end.slot,)))

    def decided(self, view: Snapshot, known: Mapping[int, int]) -> dict[int, Iterator[OrderedCommit]]:
        """Decisions beyond the known slots: by coordinator, in the order of slots."""
        return {
            replica_id: commits(self.stretch(view, replica_id, known.get(replica_id, 0) + 1, None))
            for replica_id in self._coordinators(view)
        }

    # At the start

    def load(self, view: Snapshot, archive: Archive | None = None, most: int = 0) -> InstanceLog:
        """With an archive, at most `most` executed instances are held in memory."""
        log = InstanceLog(archive)
        for (replica_id,), value in under(view, self._forgotten):
            (slot,) = unpack(value)
            assert isinstance(slot, int)
            log.forgotten[replica_id] = log.executed[replica_id] = log.highest[replica_id] = slot
        for (replica_id, slot), _ in under(view, self._executed):
            log.mark_executed(InstanceId(replica_id, slot))
        for replica_id, executed in log.executed.items():
            share = most // len(log.executed)
            if archive is not None and executed - log.forgotten.get(replica_id, 0) > share:
                log.archived[replica_id] = executed - share
        for instance in self._held(view, log):
            log.put(instance)
        return log

    def _held(self, view: Snapshot, log: InstanceLog) -> Iterator[Instance]:
        for replica_id in self._coordinators(view):
            log.note_slot(InstanceId(replica_id, log.executed.get(replica_id, 0)))
            yield from self.stretch(view, replica_id, log.archived.get(replica_id, 0) + 1, None)

    def _coordinators(self, view: Snapshot) -> Iterator[int]:
        begin, end = self._instances, strinc(self._instances)
        while found := view.range(begin, end, limit=1):
            _, replica_id, *_ = numbers(found[0][0][self._root :])
            begin = self._instances + pack((replica_id + 1,))
            yield replica_id

    def stretch(self, view: Snapshot, replica_id: int, first: int, last: int | None) -> Iterator[Instance]:
        """Slots of one replica, both ends included."""
        begin = self._instances + pack((replica_id, first))
        end = self._instances + (pack((replica_id + 1,)) if last is None else pack((replica_id, last + 1)))
        return (instance for _, instance in stored(rows(view, begin, end, self._root)))


class TermArchive:
    """The instances of a term in a store."""

    def __init__(self, store: Store, rows: TermSpace) -> None:
        self._store = store
        self._rows = rows

    def instance(self, instance_id: InstanceId) -> Instance:
        found = self.stretch(instance_id.replica_id, instance_id.slot, instance_id.slot)
        return next(found, Instance(id=instance_id))

    def stretch(self, replica_id: int, first: int, last: int) -> Iterator[Instance]:
        return self._rows.stretch(self._store.newest(), replica_id, first, last)


def index_value(held: OrderedValue) -> bytes | None:
    if held.expiry is None:
        return None
    return wire.encode_expiry_entry(ExpiryEntry(version=held.at, home=NO_HOME, expiry=held.expiry))


def record_of(row: bytes, value: bytes) -> bytes:
    """A row of a key as the record of what is held, whichever of the two it is. Replicas compare these bytes."""
    return value if row.endswith(HELD) else wire.encode_ordered_value(OrderedValue(value=value))


def under(view: Snapshot, root: bytes) -> Iterator[Row]:
    return rows(view, root, strinc(root), len(root))


def rows(view: Snapshot, begin: bytes, end: bytes, root: int) -> Iterator[Row]:
    """With the numbers in their keys, after a root of so many bytes."""
    for row, value in scan(view, begin, end, SCAN_ROWS, False):
        yield numbers(row[root:]), value


def numbers(name: bytes) -> tuple[int, ...]:
    return tuple([part for part in unpack(name) if isinstance(part, int)])


def stored(found: Iterator[Row]) -> Iterator[tuple[int, Instance]]:
    """Instances, and the terms they belong to. The command's row precedes that of the state."""
    command: bytes | None = None
    for (term, replica_id, slot, field), value in found:
        if pack((field,)) == COMMAND:
            command = value
            continue
        state = wire.decode_instance_state(value)
        yield (
            term,
            Instance(
                id=InstanceId(replica_id, slot),
                phase=state.phase,
                ballot=state.ballot,
                accepted=state.accepted,
                nop=state.nop,
                command=wire.decode_command(command) if command is not None else None,
                deps=state.deps,
                initial=state.initial,
            ),
        )
        command = None


def commits(found: Iterator[Instance]) -> Iterator[OrderedCommit]:
    return (commit_of(instance) for instance in found if instance.is_committed)


def decided(commit: OrderedCommit) -> Instance:
    return Instance(
        id=commit.id, phase=Phase.COMMITTED, nop=commit.command is None, command=commit.command, deps=commit.deps
    )


def instance_state_of(instance: Instance) -> InstanceState:
    return InstanceState(
        phase=instance.phase,
        ballot=instance.ballot,
        accepted=instance.accepted,
        nop=instance.nop,
        deps=instance.deps,
        initial=instance.initial if instance.phase is not Phase.COMMITTED else None,
    )
