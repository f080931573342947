"""Makes the data directory of one node of a new cluster from a backup: once for each of its first members, with the
same file, the same members and the same choices for actors.

The id of the new cluster is derived from exactly these, so nodes that were made differently refuse each other. Of the
cluster that the backup is of, nothing stays but keys, values and actors: no identity of a store, no promise or vote, no
members, no terms. A member of that cluster is never made: its promises and votes are not in a backup, and without them
it could vote twice.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from msgspec import Struct

from epoxy.actors import directory, local_states
from epoxy.backup import actor_rows
from epoxy.backup.files import BackupReader
from epoxy.backup.format import BackupEnd, BackupHeader, Block, Kind, Record, is_carried
from epoxy.codec import wire
from epoxy.model.cluster import FIRST_SYSTEM_KEY, ClusterConfig
from epoxy.model.errors import BackupError
from epoxy.model.marks import OWNED, is_owned
from epoxy.model.records import LEGACY_PROPOSAL_ID, CommittedRecord, Proposal
from epoxy.store.embedded.bulk import DataDirBuilder
from epoxy.store.keyspace import Keyspace
from epoxy.store.txn_rows import OrderedSpace

CLUSTER_ID_BYTES = 8
"""Enough to tell clusters apart. It is no secret, and chosen by no attacker who does not have the backup."""

Progress = Callable[[int, int], None]
"""Told how many bytes of the file were read, and how many it has."""

OWNED_RECORD = wire.encode_committed_record(
    CommittedRecord(committed=Proposal(value=OWNED, version=1, mutable=False, proposal_id=LEGACY_PROPOSAL_ID))
)
"""That a key belongs to transactions, for one whose reservation is not in the backup. Equal on all nodes."""


class ActorChoice(Struct, frozen=True, kw_only=True):
    """Where actors go whose datacenter the new cluster does not have: to another one, by name, or nowhere."""

    moved: dict[str, str] = {}
    dropped: frozenset[str] = frozenset()


class Survey(Struct, frozen=True, kw_only=True):
    """A whole file, verified. `names`: how many names of actors each label owns. `moved`: the labels of names whose
    home is not the datacenter that reserved them."""

    header: BackupHeader
    end: BackupEnd
    names: dict[int, int]
    moved: dict[bytes, int]

    def datacenter(self, label: int) -> str:
        """By the members at the time of the backup; one that had left before has no name any more."""
        found = [member.datacenter for member in self.header.members if member.id == label]
        return found[0] if found else f"replica-{label}"


class RestorePlan(Struct, frozen=True, kw_only=True):
    """`cluster`: the new id. `labels`: where the actors of each label go. `places`: the same by datacenter. `moved`: as
    in the survey."""

    cluster: str
    labels: dict[int, int | None]
    moved: dict[bytes, int]
    places: dict[str, int | None]


class Restored(Struct, frozen=True, kw_only=True):
    """`actors`: living ones of this datacenter. `names`: of actors, that were left out."""

    cluster: str
    keys: int = 0
    values: int = 0
    actors: int = 0
    names_left_out: int = 0


def survey(path: Path, progress: Progress) -> Survey:
    """Reads and verifies all of it, before a row is written."""
    owners = actor_rows.NameOwners()
    with BackupReader(path) as reader:
        for block in reader.blocks():
            progress(reader.read_bytes, reader.size)
            if block.kind is Kind.KEYS:
                check_records(block)
                take_special(block, owners)
        assert reader.end is not None
        return Survey(header=reader.header, end=reader.end, names=owners.counts(), moved=owners.moved)


def check_records(block: Block) -> None:
    for key, record in block.records:
        if not record.startswith(wire.STORED_HEADERS):
            raise BackupError(f"the record of key {key!r} is in a format that this version of Epoxy does not read")


def take_special(block: Block, owners: actor_rows.NameOwners) -> None:
    """The cluster's own keys come last: most blocks have none."""
    if is_special(block.records[-1][0]):
        for key, record in block.records:
            if not is_carried(key):
                raise BackupError(f"key {key!r} belongs to the cluster that the backup is of")
            owners.take(key, record)


def is_special(key: bytes) -> bool:
    return key >= FIRST_SYSTEM_KEY


def plan_of(found: Survey, config: ClusterConfig, choice: ActorChoice) -> RestorePlan:
    """Raises BackupError if actors have no place, and if a choice names a datacenter that there is not."""
    here = {info.datacenter: info.id for info in config.replicas}
    there = {member.datacenter for member in found.header.members} | {found.datacenter(each) for each in found.names}
    check_choice(choice, here, there)
    targets = {name: choice.moved.get(name, name) for name in there}
    places: dict[str, int | None] = {name: here[new] for name, new in targets.items() if new in here}
    places |= dict.fromkeys(choice.dropped)
    names = {found.datacenter(label): count for label, count in found.names.items()}
    if homeless := {name: count for name, count in names.items() if name not in places}:
        listed = ", ".join(f"{name} ({count:,})" for name, count in sorted(homeless.items()))
        raise BackupError(
            f"actors of datacenters that the new cluster does not have: {listed}; give them to one of "
            f"{', '.join(sorted(here))} with --actors-of OLD=NEW, or leave them out and free their names with "
            "--without-actors-of OLD; the same at every node"
        )
    labels = {label: places[found.datacenter(label)] for label in found.names}
    labels |= {member.id: places.get(member.datacenter) for member in found.header.members}
    cluster = cluster_id(found.end, config, choice)
    return RestorePlan(cluster=cluster, labels=labels, moved=found.moved, places=places)


def check_choice(choice: ActorChoice, here: dict[str, int], there: set[str]) -> None:
    for old in (*choice.moved, *choice.dropped):
        if old not in there:
            raise BackupError(f"no datacenter of the backup is named {old!r}; it has {', '.join(sorted(there))}")
    for new in choice.moved.values():
        if new not in here:
            raise BackupError(f"no datacenter of the new cluster is named {new!r}; it has {', '.join(sorted(here))}")
    if both := set(choice.moved) & choice.dropped:
        raise BackupError(f"actors of {min(both)} are both moved and left out")


def cluster_id(end: BackupEnd, config: ClusterConfig, choice: ActorChoice) -> str:
    """Equal for nodes that were made from one file for one list of members, with the same choices."""
    members = [(info.id, info.datacenter) for info in config.replicas]
    text = repr((end.digest, members, config.quorum_policy.value, sorted(choice.moved.items()), sorted(choice.dropped)))
    return hashlib.blake2b(text.encode(), digest_size=CLUSTER_ID_BYTES).hexdigest()


class Restore:
    """One node's directory."""

    def __init__(self, plan: RestorePlan, replica: int, builder: DataDirBuilder) -> None:
        self._plan = plan
        self._me = replica
        self._builder = builder
        self._keyspace = Keyspace(replica)
        self._ordered = OrderedSpace(replica)
        self._actor_keys = actor_rows.ActorKeys(plan.labels, plan.moved)
        self._keys = self._values = self._actors = 0
        self._versioned = True
        self._unnamed: set[bytes] = set()
        """Actors whose names have not come yet: in a file, all records come first."""

    def run(self, path: Path, expected: BackupEnd, progress: Progress) -> Restored:
        """All of the file, which must be the one that was surveyed; then the directory is complete."""
        with BackupReader(path) as reader:
            for block in reader.blocks():
                self._versioned = reader.header.versioned
                self._write(block)
                progress(reader.read_bytes, reader.size)
            if reader.end != expected:
                raise BackupError(f"{path}: the file was changed while it was read")
        self._builder.write(dict.fromkeys(map(actor_rows.record_row, self._unnamed)))
        self._builder.write(dict.fromkeys(map(local_states.row_of, self._unnamed)))
        self._builder.finish()
        return Restored(
            cluster=self._plan.cluster,
            keys=self._keys,
            values=self._values,
            actors=self._actors,
            names_left_out=self._actor_keys.names_left_out,
        )

    def _write(self, block: Block) -> None:
        match block.kind:
            case Kind.KEYS:
                self._builder.write(self._key_rows(block))
            case Kind.VALUES:
                self._builder.write(self._value_rows(block))
            case _:
                mine = [record for record in block.records if self._plan.places.get(record[0].decode()) == self._me]
                for _, records in groupby(mine, itemgetter(0)):
                    self._write_actors(list(records))

    def _write_actors(self, records: list[Record]) -> None:
        """Of one datacenter."""
        self._builder.write(dict(self._actor_records(records)))
        self._builder.write(dict(self._actor_names(records)))
        self._builder.write(dict(self._local_states(records)))

    def _key_rows(self, block: Block) -> dict[bytes, bytes | None]:
        row_of = self._keyspace.value_row
        if not is_special(block.records[-1][0]):
            self._keys += len(block.records)
            return {row_of(key): record for key, record in block.records} | self._index(block.records)
        restored = [self._actor_keys.restored(key, record) for key, record in block.records]
        kept = [each for each in restored if each is not None]
        self._keys += len(kept)
        return {row_of(key): record for key, record in kept} | self._index(kept)

    def _index(self, records: Sequence[tuple[bytes, ...]]) -> dict[bytes, bytes | None]:
        """Of the values that end, as `Keyspace` writes it beside them. Earlier formats have none."""
        newer = [(key, record) for key, record in records if record.startswith(wire.HEADER)]
        rows = [self._keyspace.indexed(key, wire.decode_committed_record(record).committed) for key, record in newer]
        return {row: value for row, value in rows if value is not None}

    def _value_rows(self, block: Block) -> dict[bytes, bytes | None]:
        """A transaction may have been executed where the reservation of its key was not known yet."""
        row_of = self._ordered.held_row if self._versioned else self._ordered.raw_row
        rows: dict[bytes, bytes | None] = {row_of(key): value for key, value in block.records}
        keys = [key for key, _ in block.records]
        names = [self._keyspace.value_row(key) for key in keys]
        for (key, value), row, record in zip(block.records, names, self._builder.read(names), strict=True):
            if record is None:
                rows[row] = OWNED_RECORD
                self._keys += 1
            elif not is_owned(wire.decode_committed_record(record).committed) and not self._is_name(value):
                raise BackupError(f"key {key!r} has a value of transactions, and another one of its own")
        self._values += len(keys)
        return rows | self._ending(block)

    def _ending(self, block: Block) -> dict[bytes, bytes | None]:
        """The index of values that end, as `OrderedSpace` writes it beside them. Raw values do not."""
        if not self._versioned:
            return {}
        indexed = [self._ordered.indexed(key, wire.decode_ordered_value(record)) for key, record in block.records]
        return {row: value for row, value in indexed if value is not None}

    def _is_name(self, record: bytes) -> bool:
        """Whether it is a copy of a reserved name."""
        return self._versioned and wire.decode_ordered_value(record).immutable

    def _actor_records(self, records: list[Record]) -> Iterator[tuple[bytes, bytes | None]]:
        """One that has moved between two datacenters that are one now has a row of each: the one at its home counts."""
        restored = [actor_rows.restored_actor(row, value, self._plan.labels) for _, row, value in records]
        found = [actor for actor in restored if actor is not None]
        stored = self._builder.read([actor_rows.record_row(actor.id) for actor in found])
        for actor, known in zip(found, stored, strict=True):
            if known is None or actor_rows.at_home(actor):
                self._unnamed.add(actor.id)
                yield actor_rows.record_row(actor.id), directory.encode(actor)

    def _actor_names(self, records: list[Record]) -> Iterator[tuple[bytes, bytes | None]]:
        named = [(row, actor_rows.restored_name(row, value, self._plan.labels)) for _, row, value in records]
        found = [(row, actor_id) for row, actor_id in named if actor_id is not None and actor_id in self._unnamed]
        stored = self._builder.read([actor_rows.record_row(actor_id) for _, actor_id in found])
        known = self._builder.read([row for row, _ in found])
        for (row, actor_id), record, earlier in zip(found, stored, known, strict=True):
            assert record is not None, "it was written"
            lives = actor_rows.at_home(directory.decode(record))
            if lives or earlier is None:
                self._unnamed.discard(actor_id)
                self._actors += lives
                yield row, actor_id

    def _local_states(self, records: list[Record]) -> Iterator[tuple[bytes, bytes | None]]:
        """States that are in this datacenter alone, if their actors are, and which are to be deleted."""
        labels = self._plan.labels
        states = [(actor_rows.local_state_of(row, labels), value) for _, row, value in records]
        found = [(actor_id, value) for actor_id, value in states if actor_id is not None]
        stored = self._builder.read([actor_rows.record_row(actor_id) for actor_id, _ in found])
        for (actor_id, value), record in zip(found, stored, strict=True):
            if record is not None:
                yield local_states.row_of(actor_id), value
        for _, row, value in records:
            doomed = actor_rows.doomed_of(row, labels)
            if doomed is not None:
                yield directory.doomed_row(doomed), value
